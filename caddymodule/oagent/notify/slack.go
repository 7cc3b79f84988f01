package notify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/webhook"
)

func init() {
	caddy.RegisterModule(new(Slack))
}

// Slack sends notices as messages to an incoming webhook of Slack, or of a server with the same format, such as Mattermost and
// Rocket.Chat.
type Slack struct {
	// The URL of the webhook. It is a secret: anyone with the URL can write messages. Its path is not logged. Placeholders such as {env.NAME} are
	// replaced. Required.
	URL string `json:"url,omitempty"`

	// The timeout of one request, at most 1m. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	Selection

	hook
}

// CaddyModule returns the Caddy module information.
func (*Slack) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.notifiers.slack", New: func() caddy.Module { return new(Slack) }}
}

// Provision checks the options.
func (s *Slack) Provision(caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	if err := s.provision(repl); err != nil {
		return fmt.Errorf("slack: %w", err)
	}
	s.url = repl.ReplaceAll(s.URL, "")
	if s.client, err = webhook.NewUnsigned(s.url, time.Duration(s.Timeout), nil); err != nil {
		return fmt.Errorf("slack: %w", err)
	}
	return nil
}

// Target implements Notifier.
func (s *Slack) Target() string { return "slack " + s.url }

// escapeSlack escapes what has a meaning in messages, such as links and mentions. Mattermost and Rocket.Chat also expand a plain @all.
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b")

// Notify implements Notifier.
func (s *Slack) Notify(ctx context.Context, notice *Notice) error {
	link := strings.ReplaceAll(s.link(notice), "@", "%40") // escapeSlack would change it
	return s.post(ctx, notice, map[string]string{"text": escapeSlack.Replace(strings.Join(notice.lines(link), "\n"))})
}

// UnmarshalCaddyfile parses the options of slack. Syntax:
//
//	slack <url> {
//		events  <types...>
//		console <url>
//		timeout <duration>
//	}
func (s *Slack) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the notifier
	if !d.AllArgs(&s.URL) {
		return d.Err("slack needs the URL of an incoming webhook, as in: notify slack {env.SLACK_URL}")
	}
	b := directive.NewBlock(d)
	return b.Read("notify slack", s.options(b, directive.Options{"timeout": directive.To(b.Period, &s.Timeout)}))
}

// Interface guards
var (
	_ Notifier              = (*Slack)(nil)
	_ selector              = (*Slack)(nil)
	_ caddy.Provisioner     = (*Slack)(nil)
	_ caddy.CleanerUpper    = (*Slack)(nil)
	_ caddyfile.Unmarshaler = (*Slack)(nil)
)
