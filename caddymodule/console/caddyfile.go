package console

import (
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
//		auditors  <users...>
//		operators <users...>
//	}
//
// The matcher is * or @name. A first argument that begins with a slash is the path.
func (c *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := directive.NewBlock(d)
	if err := b.Path(&c.Path); err != nil {
		return err
	}
	each := func(to *[]string) func() error {
		return func() error { return b.Each(to, identity.CheckEntry) }
	}
	return b.Read("agents_console", directive.Options{"auditors": each(&c.Auditors), "operators": each(&c.Operators)})
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
