package connections

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

func init() {
	httpcaddyfile.RegisterDirective("agent_connections", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, new(Handler))
	})
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	agent_connections [<matcher>] [<path>] {
//		origin <url>
//		secret <secret> [<previous>]
//	}
//
// The matcher is * or @name. A first argument that begins with a slash is the path.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := directive.NewBlock(d)
	if err := b.Path(&h.Path); err != nil {
		return err
	}
	return b.Read("agent_connections", directive.Options{
		"origin": directive.To(b.Text, &h.Origin),
		"secret": func() error { return b.ReadSecrets(&h.Secret, &h.PreviousSecret) },
	})
}

// UnmarshalCaddyfile sets up the credential from Caddyfile tokens. Syntax:
//
//	user {
//		provider <name> {
//			authorize_url <url>
//			token_url     <url>
//			revoke_url    <url>
//			client_id     <id>
//			client_secret <secret>
//			client_auth   basic | post
//			scope         <scopes...>
//			param         <name> <value>
//			api_key
//			bearer
//			header        <name>
//		}
//	}
//
// scope and param may be repeated. bearer is the default: the secret is sent in the header Authorization.
func (u *User) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if d.NextArg() {
		return d.Err("credential user takes a block with a provider, as in: credential user { provider github { ... } }")
	}
	b := directive.NewBlock(d)
	err := b.Read("credential user", directive.Options{"provider": func() error {
		if err := b.Text(&u.Name); err != nil {
			return err
		}
		return u.unmarshalProvider(directive.NewBlock(d))
	}})
	if err != nil {
		return err
	}
	if err := u.check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (u *User) unmarshalProvider(b *directive.Block) error {
	return b.Read("provider", directive.Options{
		"authorize_url": directive.To(b.Text, &u.AuthorizeURL),
		"token_url":     directive.To(b.Text, &u.TokenURL),
		"revoke_url":    directive.To(b.Text, &u.RevokeURL),
		"client_id":     directive.To(b.Text, &u.ClientID),
		"client_secret": directive.To(b.Secret, &u.ClientSecret),
		"client_auth":   func() error { return b.OneOf(&u.ClientAuth, authBasic, authPost) },
		"scope":         directive.To(b.List, &u.Scopes),
		"param":         b.Pair(&u.Params, "access_type offline"),
		"api_key":       directive.To(b.Flag, &u.APIKey),
		"bearer":        directive.To(b.Flag, new(bool)),
		"header":        directive.To(b.Text, &u.Header),
	})
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Handler)(nil)
	_ caddyfile.Unmarshaler = (*User)(nil)
)
