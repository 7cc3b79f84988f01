package connections

import (
	"strings"

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
	if arguments := b.RemainingArgs(); len(arguments) > 1 || len(arguments) == 1 && !strings.HasPrefix(arguments[0], "/") {
		return b.ArgErr()
	} else if len(arguments) == 1 {
		h.Path = arguments[0]
	}
	return b.Options(func(b *directive.Block) error {
		switch b.Val() {
		case "origin":
			return b.Text(&h.Origin)
		case "secret":
			return b.ReadSecrets(&h.Secret, &h.PreviousSecret)
		}
		return b.Unrecognized("agent_connections")
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
	err := directive.NewBlock(d).Options(func(b *directive.Block) error {
		if b.Val() != "provider" {
			return b.Unrecognized("credential user")
		}
		if err := b.Text(&u.Name); err != nil {
			return err
		}
		return directive.NewBlock(b.Dispenser).Options(u.unmarshalOption)
	})
	if err != nil {
		return err
	}
	if err := u.check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (u *User) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "authorize_url":
		return b.Text(&u.AuthorizeURL)
	case "token_url":
		return b.Text(&u.TokenURL)
	case "revoke_url":
		return b.Text(&u.RevokeURL)
	case "client_id":
		return b.Text(&u.ClientID)
	case "client_secret":
		if err := b.Text(&u.ClientSecret); err != nil {
			return err
		}
		if err := directive.CheckVariable(u.ClientSecret); err != nil {
			return b.WrapErr(err)
		}
		return nil
	case "client_auth":
		return b.OneOf(&u.ClientAuth, authBasic, authPost)
	case "scope":
		return b.List(&u.Scopes)
	case "param":
		arguments := b.RemainingArgs()
		if len(arguments) != 2 {
			return b.Err("param takes a name and a value, as in: param access_type offline")
		}
		if u.Params == nil {
			u.Params = make(map[string]string)
		}
		u.Params[arguments[0]] = arguments[1]
		return nil
	case "api_key":
		return b.Flag(&u.APIKey)
	case "bearer":
		var isBearer bool
		return b.Flag(&isBearer)
	case "header":
		return b.Text(&u.Header)
	}
	return b.Unrecognized("provider")
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Handler)(nil)
	_ caddyfile.Unmarshaler = (*User)(nil)
)
