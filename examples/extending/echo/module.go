// Package echo is an example of a guest module of oagent.models: a model that repeats the last message.
package echo

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

func init() {
	caddy.RegisterModule(new(Echo))
}

// Echo repeats the last message of a conversation.
type Echo struct {
	// What precedes each answer. Default: none.
	Prefix string `json:"prefix,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Echo) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.models.echo", New: func() caddy.Module { return new(Echo) }}
}

// Generate implements model.Model. A model that streams calls onText with each part of the text.
func (e *Echo) Generate(_ context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	if len(request.Messages) == 0 {
		return nil, model.Errorf(model.KindRequest, "the conversation is empty")
	}
	text := e.Prefix + request.Messages[len(request.Messages)-1].Text
	if onText != nil {
		onText(text)
	}
	return &model.Response{Text: text, Stop: model.StopEnd}, nil
}

// UnmarshalCaddyfile parses: echo { prefix <text> }
func (e *Echo) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // echo
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "prefix" {
			return d.Errf("echo has no option %s", d.Val())
		}
		if !d.AllArgs(&e.Prefix) {
			return d.ArgErr()
		}
	}
	return nil
}

// Interface guards
var (
	_ model.Model           = (*Echo)(nil)
	_ caddyfile.Unmarshaler = (*Echo)(nil)
)
