// Package chatroom is an example of a guest module of oagent.notifiers: it writes to a room of a chat server.
package chatroom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/oagent/notify"
)

func init() {
	caddy.RegisterModule(new(ChatRoom))
}

// ChatRoom posts a line of text about each pending review.
type ChatRoom struct {
	// The URL of the room. Required.
	URL string `json:"url,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*ChatRoom) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.notifiers.chat_room", New: func() caddy.Module { return new(ChatRoom) }}
}

// Target implements notify.Notifier.
func (c *ChatRoom) Target() string { return "chat_room " + c.URL }

// MaxDuration implements notify.Notifier. It is the timeout of the context of Notify.
func (*ChatRoom) MaxDuration() time.Duration { return 10 * time.Second }

// Notify implements notify.Notifier. It is called again after an error.
func (c *ChatRoom) Notify(ctx context.Context, notice *notify.Notice) error {
	text := fmt.Sprintf("%s: please review %s of %s, before %s", notice.Reviewer, notice.Name, notice.Agent, notice.ExpiresAt)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(text))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return errors.New("the chat server is not reachable") // err has the URL, which may contain a secret
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the chat server responds with status %d", response.StatusCode)
	}
	return nil
}

// UnmarshalCaddyfile parses: chat_room <url>
func (c *ChatRoom) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // chat_room
	if !d.AllArgs(&c.URL) || d.NextBlock(d.Nesting()) {
		return d.Err("chat_room needs a URL, as in: notify chat_room https://chat.example.com/rooms/7")
	}
	return nil
}

// Interface guards
var (
	_ notify.Notifier       = (*ChatRoom)(nil)
	_ caddyfile.Unmarshaler = (*ChatRoom)(nil)
)
