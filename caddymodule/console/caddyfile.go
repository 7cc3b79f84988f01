package console

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/identity"
)

func init() {
	httpcaddyfile.RegisterDirective("agents_console", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, new(Handler))
	})
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	agents_console [<matcher>] [<path>] {
//		auditors   <users...>
//		log_inputs <arguments...>
//		calls      viewed | always
//	}
//
// The matcher is * or @name. A first argument that begins with a slash is the path.
func (c *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := directive.NewBlock(d)
	if arguments := b.RemainingArgs(); len(arguments) > 1 || len(arguments) == 1 && !strings.HasPrefix(arguments[0], "/") {
		return b.ArgErr()
	} else if len(arguments) == 1 {
		c.Path = arguments[0]
	}
	for b.NextBlock(0) {
		if err := c.unmarshalOption(b); err != nil {
			return err
		}
	}
	return nil
}

// unmarshalOption reads the option at the position of b.
func (c *Handler) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "auditors":
		return b.Each(&c.Auditors, identity.CheckEntry)
	case "log_inputs":
		return b.List(&c.LogInputs)
	case "calls":
		return b.OneOf(&c.Calls, callsViewed, callsAlways)
	}
	return b.Unrecognized("agents_console")
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
