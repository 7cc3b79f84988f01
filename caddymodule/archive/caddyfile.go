package archive

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// UnmarshalCaddyfile parses the archive. Syntax:
//
//	audit {
//		sink       file <path> { … } | webhook <url> { … }
//		queue      <entries>
//		full       refuse | drop
//		pseudonyms <key>
//	}
//
// sink may be repeated.
func (c *Config) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("audit", directive.Options{
		"sink": func() error {
			sink, err := b.Guest(sinksNamespace, sinksInlineKey)
			c.SinksRaw = append(c.SinksRaw, sink)
			return err
		},
		"queue":      directive.To(b.Positive, &c.Queue),
		"full":       func() error { return b.OneOf(&c.Full, fullRefuse, fullDrop) },
		"pseudonyms": directive.To(b.Text, &c.Pseudonyms),
	})
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Config)(nil)
