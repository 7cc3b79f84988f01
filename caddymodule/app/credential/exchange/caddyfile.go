package exchange

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/tokenclient"
)

// UnmarshalCaddyfile sets up the credential from Caddyfile tokens. Syntax:
//
//	oauth {
//		token_url          <url>
//		grant              client_credentials | token_exchange | jwt_bearer | id_jag
//		client_id          <id>
//		client_secret      <secret>
//		secret_in_body
//		private_key        <file>
//		key_id             <kid>
//		certificate        <file>
//		assertion_audience <audience>
//		audience           <audience>
//		scope              <scopes...>
//		resource           <urls...>
//		param              <name> <value>
//		identity_provider {
//			token_url, client_id, client_secret, secret_in_body, private_key, key_id, certificate, assertion_audience
//		}
//	}
//
// scope, resource and param may be repeated.
func (c *OAuth) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if d.NextArg() {
		return d.Err("credential oauth takes a block, as in: credential oauth { token_url https://login.example.com/token … }")
	}
	if err := directive.NewBlock(d).Options(c.unmarshalOption); err != nil {
		return err
	}
	if c.TokenURL == "" || c.ClientID == "" || c.Grant == "" {
		return d.Err("credential oauth needs token_url, client_id and grant")
	}
	return nil
}

func (c *OAuth) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "grant":
		return b.OneOf((*string)(&c.Grant), tokenclient.Grants[:]...)
	case "audience":
		return b.Text(&c.Audience)
	case "scope":
		return b.List(&c.Scopes)
	case "resource":
		return b.List(&c.Resources)
	case "param":
		arguments := b.RemainingArgs()
		if len(arguments) != 2 {
			return b.Err("param takes a name and a value, as in: param requested_token_use on_behalf_of")
		}
		if c.Params == nil {
			c.Params = make(map[string]string)
		}
		if _, ok := c.Params[arguments[0]]; ok {
			return b.Errf("param %s is given twice", arguments[0])
		}
		c.Params[arguments[0]] = arguments[1]
		return nil
	case "identity_provider":
		if err := b.Once(); err != nil {
			return err
		}
		if b.NextArg() {
			return b.ArgErr()
		}
		c.IdentityProvider = new(TokenEndpoint)
		return directive.NewBlock(b.Dispenser).Options(func(b *directive.Block) error {
			if known, err := c.IdentityProvider.unmarshalOption(b); known || err != nil {
				return err
			}
			return b.Unrecognized("identity_provider")
		})
	}
	if known, err := c.TokenEndpoint.unmarshalOption(b); known || err != nil {
		return err
	}
	return b.Unrecognized("credential oauth")
}

// unmarshalOption reports whether the option is one of the endpoint. Errors do not contain the secret.
func (e *TokenEndpoint) unmarshalOption(b *directive.Block) (known bool, err error) {
	switch b.Val() {
	case "token_url":
		err = b.Text(&e.TokenURL)
	case "client_id":
		err = b.Text(&e.ClientID)
	case "client_secret":
		err = b.Text(&e.ClientSecret)
	case "secret_in_body":
		err = b.Flag(&e.SecretInBody)
	case "private_key":
		err = b.Text(&e.PrivateKey)
	case "key_id":
		err = b.Text(&e.KeyID)
	case "certificate":
		err = b.Text(&e.Certificate)
	case "assertion_audience":
		err = b.Text(&e.AssertionAudience)
	default:
		return false, nil
	}
	return true, err
}

// Interface guard
var _ caddyfile.Unmarshaler = (*OAuth)(nil)
