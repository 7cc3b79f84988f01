package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/webhook"
)

func init() {
	caddy.RegisterModule(new(Webhook))
}

// Webhook sends batches of lines by POST to a URL (application/x-ndjson), signed by the rules of Standard Webhooks
// (https://www.standardwebhooks.com). A batch has at most 500 lines. Every status of 2xx means that the receiver has kept
// the batch. Otherwise it is sent again, after 1 s at first and after 1 m at most.
type Webhook struct {
	// The URL, as https://host/path. Placeholders such as {env.NAME} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The secret of the signature: at least 16 bytes, or `whsec_` and base64. Placeholders such as
	// {env.NAME} are replaced. Required.
	Secret string `json:"secret,omitempty"`

	// The timeout of one request, at most 1m. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	url    string // with placeholders replaced
	client *webhook.Client
}

// CaddyModule returns the Caddy module information.
func (*Webhook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: sinksNamespace + ".webhook", New: func() caddy.Module { return new(Webhook) }}
}

// Provision checks the options.
func (w *Webhook) Provision(caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	w.url = repl.ReplaceAll(w.URL, "")
	if w.client, err = webhook.New(w.url, repl.ReplaceAll(w.Secret, ""), time.Duration(w.Timeout)); err != nil {
		return fmt.Errorf("sink webhook: %w", err)
	}
	return nil
}

// Cleanup closes the connections.
func (w *Webhook) Cleanup() error {
	w.client.Close()
	return nil
}

// Target implements Sink.
func (w *Webhook) Target() string { return "webhook " + w.url }

// Write implements Sink.
func (w *Webhook) Write(ctx context.Context, id string, lines []byte) error {
	return w.client.Post(ctx, id, "application/x-ndjson", lines)
}

// UnmarshalCaddyfile parses the options of the sink. Syntax:
//
//	webhook <url> {
//		secret  <secret>
//		timeout <duration>
//	}
func (w *Webhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the sink
	if !d.Args(&w.URL) {
		return d.Err("sink webhook needs a URL, as in: sink webhook https://audit.example.com/entries")
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("sink webhook", directive.Options{
		"secret":  directive.To(b.Text, &w.Secret),
		"timeout": directive.To(b.Period, &w.Timeout),
	})
}

// Interface guards
var (
	_ Sink                  = (*Webhook)(nil)
	_ caddy.Provisioner     = (*Webhook)(nil)
	_ caddy.CleanerUpper    = (*Webhook)(nil)
	_ caddyfile.Unmarshaler = (*Webhook)(nil)
)
