package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/webhook"
)

func init() {
	caddy.RegisterModule(new(Webhook))
}

// Webhook sends notices by POST to a URL, signed by the rules of Standard Webhooks
// (https://www.standardwebhooks.com). Every status of 2xx ends a notice. Redirects are not followed.
type Webhook struct {
	// The URL, as https://host/path. Placeholders such as {env.NAME} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The secret of the signature: at least 16 bytes, or `whsec_` and base64. Placeholders such as
	// {env.NAME} are replaced. Required.
	Secret string `json:"secret,omitempty"`

	// The URL to which the id of the review is appended as the link for the reviewer, if the reviews are not in the
	// console: https://desk.example.com/reviews/. Placeholders such as {env.NAME} are replaced. Default: that of console.
	Link string `json:"link,omitempty"`

	// The timeout of one request, at most 1m. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	Selection

	hook
	reviews string // Link with placeholders replaced
}

// hook is a URL that notices are posted to.
type hook struct {
	url    string // with placeholders replaced
	client *webhook.Client
}

// MaxDuration implements Notifier.
func (h *hook) MaxDuration() time.Duration { return h.client.Timeout() }

// Cleanup closes the connections.
func (h *hook) Cleanup() error {
	h.client.Close()
	return nil
}

// post sends JSON about a notice.
func (h *hook) post(ctx context.Context, notice *Notice, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return h.client.Post(ctx, notice.Key(), "application/json", body)
}

// CaddyModule returns the Caddy module information.
func (*Webhook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "oagent.notifiers.webhook",
		New: func() caddy.Module { return new(Webhook) },
	}
}

// Provision checks the options.
func (w *Webhook) Provision(caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	if err := w.provision(repl); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	if w.Link != "" {
		w.reviews = repl.ReplaceAll(w.Link, "")
		if err := webhook.CheckURL(w.reviews); err != nil {
			return fmt.Errorf("webhook: link: %w", err)
		}
	}
	w.url = repl.ReplaceAll(w.URL, "")
	if w.client, err = webhook.New(w.url, repl.ReplaceAll(w.Secret, ""), time.Duration(w.Timeout)); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	return nil
}

// Target implements Notifier.
func (w *Webhook) Target() string { return "webhook " + w.url }

// Notify implements Notifier.
func (w *Webhook) Notify(ctx context.Context, notice *Notice) error {
	sent := *notice
	sent.Link = w.link(notice)
	if w.reviews != "" && notice.Run == nil {
		sent.Link = w.reviews + url.PathEscape(notice.ID)
	}
	return w.post(ctx, notice, &sent)
}

// UnmarshalCaddyfile parses the options of a webhook. Syntax:
//
//	webhook <url> {
//		secret  <secret>
//		events  <types...>
//		console <url>
//		link    <url>
//		timeout <duration>
//	}
func (w *Webhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the notifier
	if !d.Args(&w.URL) {
		return d.Err("webhook needs a URL, as in: notify webhook https://hooks.example.com/reviews")
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("notify webhook", w.options(b, directive.Options{
		"secret":  directive.To(b.Text, &w.Secret),
		"link":    directive.To(b.Text, &w.Link),
		"timeout": directive.To(b.Period, &w.Timeout),
	}))
}

// Interface guards
var (
	_ Notifier              = (*Webhook)(nil)
	_ selector              = (*Webhook)(nil)
	_ caddy.Provisioner     = (*Webhook)(nil)
	_ caddy.CleanerUpper    = (*Webhook)(nil)
	_ caddyfile.Unmarshaler = (*Webhook)(nil)
)
