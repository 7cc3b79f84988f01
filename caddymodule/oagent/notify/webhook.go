package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

func init() {
	caddy.RegisterModule(new(Webhook))
}

// Limits of webhooks.
const (
	DefaultTimeout = 10 * time.Second

	minSecret   = 16       // bytes
	maxResponse = 64 << 10 // bytes of a response that are read
	secretStart = "whsec_" // prefix of a secret in base64 (Standard Webhooks)
)

// Webhook sends notices by POST to a URL, signed by the rules of Standard Webhooks
// (https://www.standardwebhooks.com). Every status of 2xx ends a notice. Redirects are not followed.
type Webhook struct {
	// The URL, as https://host/path. Placeholders such as {env.NAME} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The secret of the signature: at least 16 bytes, or `whsec_` and base64. Placeholders such as
	// {env.NAME} are replaced. Required.
	Secret string `json:"secret,omitempty"`

	// The URL to which the id of the review is appended as the link for the reviewer, such as that of
	// the console's reviews: https://api.example.com/console/reviews/. Default: no link.
	Link string `json:"link,omitempty"`

	// The timeout of one request, at most 1m. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	url       string // with placeholders replaced
	key       []byte
	transport *http.Transport
}

// CaddyModule returns the Caddy module information.
func (*Webhook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "oagent.notifiers.webhook",
		New: func() caddy.Module { return new(Webhook) },
	}
}

// Provision checks the options.
func (w *Webhook) Provision(caddy.Context) error {
	repl := caddy.NewReplacer()
	w.url = repl.ReplaceAll(w.URL, "")
	if err := checkURL(w.url); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	if w.Link != "" {
		if err := checkURL(w.Link); err != nil {
			return fmt.Errorf("webhook: link: %w", err)
		}
	}
	w.Timeout = cmp.Or(w.Timeout, caddy.Duration(DefaultTimeout))
	if w.Timeout < 0 || time.Duration(w.Timeout) > Timeout {
		return fmt.Errorf("webhook: timeout %s: must be more than 0 and at most %s", time.Duration(w.Timeout), Timeout)
	}
	secret := repl.ReplaceAll(w.Secret, "")
	w.key = []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, secretStart); ok {
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return errors.New("webhook: the secret begins with whsec_, but the rest is not base64")
		}
		w.key = key
	}
	if len(w.key) < minSecret {
		return fmt.Errorf("webhook: the secret has %d bytes; it needs at least %d, as in: secret {env.WEBHOOK_SECRET}", len(w.key), minSecret)
	}
	w.transport = http.DefaultTransport.(*http.Transport).Clone()
	w.transport.MaxIdleConnsPerHost = maxConcurrent
	w.transport.MaxResponseHeaderBytes = maxResponse
	return nil
}

// Cleanup closes the connections.
func (w *Webhook) Cleanup() error {
	if w.transport != nil {
		w.transport.CloseIdleConnections()
	}
	return nil
}

// checkURL checks a URL. Errors do not quote it, because it may contain a secret.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("the URL must begin with https:// or http://, and have a host, no user and no fragment, as in: notify webhook https://hooks.example.com/reviews")
	}
	return nil
}

// Target implements Notifier.
func (w *Webhook) Target() string { return "webhook " + w.url }

// MaxDuration implements Notifier.
func (w *Webhook) MaxDuration() time.Duration { return time.Duration(w.Timeout) }

// Notify implements Notifier.
func (w *Webhook) Notify(ctx context.Context, notice *Notice) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.Timeout))
	defer cancel()
	sent := *notice
	if w.Link != "" {
		sent.Link = w.Link + url.PathEscape(notice.ID)
	}
	body, err := json.Marshal(&sent)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header["webhook-id"] = []string{notice.Key()}
	r.Header["webhook-timestamp"] = []string{stamp}
	r.Header["webhook-signature"] = []string{"v1," + w.sign(notice.Key(), stamp, body)}
	response, err := w.transport.RoundTrip(r)
	if err != nil {
		return safeError(ctx, err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxResponse) // so that the connection can be used again
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return errors.New("the endpoint responds with a redirect, which is not followed: set the final URL")
	case response.StatusCode < 200 || response.StatusCode >= 300:
		return fmt.Errorf("the endpoint responds with status %d", response.StatusCode)
	}
	return nil
}

// sign returns the signature of a message: HMAC-SHA256 over its id, its timestamp and its body.
func (w *Webhook) sign(id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, w.key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// safeError returns a form of an error for the log. Errors of the connection are kept. Others may quote
// the URL, which may contain a secret.
func safeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("no response before the timeout")
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return untrusted
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return broken
	}
	return errors.New("the response is invalid or incomplete HTTP")
}

// UnmarshalCaddyfile parses the options of a webhook. Syntax:
//
//	webhook <url> {
//		secret  <secret>
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
	return b.Read("notify webhook", directive.Options{
		"secret":  directive.To(b.Text, &w.Secret),
		"link":    directive.To(b.Text, &w.Link),
		"timeout": directive.To(b.Period, &w.Timeout),
	})
}

// Interface guards
var (
	_ Notifier              = (*Webhook)(nil)
	_ caddy.Provisioner     = (*Webhook)(nil)
	_ caddy.CleanerUpper    = (*Webhook)(nil)
	_ caddyfile.Unmarshaler = (*Webhook)(nil)
)
