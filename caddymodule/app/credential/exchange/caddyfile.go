package exchange

import (
	"maps"

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
	b := directive.NewBlock(d)
	options := c.TokenEndpoint.options(b)
	maps.Copy(options, directive.Options{
		"grant":    func() error { return b.OneOf((*string)(&c.Grant), tokenclient.Grants[:]...) },
		"audience": directive.To(b.Text, &c.Audience),
		"scope":    directive.To(b.List, &c.Scopes),
		"resource": directive.To(b.List, &c.Resources),
		"param":    b.Pair(&c.Params, "requested_token_use on_behalf_of"),
		"identity_provider": func() error {
			if err := b.Once(); err != nil {
				return err
			}
			if b.NextArg() {
				return b.ArgErr()
			}
			c.IdentityProvider = new(TokenEndpoint)
			inner := directive.NewBlock(d)
			return inner.Read("identity_provider", c.IdentityProvider.options(inner))
		},
	})
	if err := b.Read("credential oauth", options); err != nil {
		return err
	}
	if c.TokenURL == "" || c.ClientID == "" || c.Grant == "" {
		return d.Err("credential oauth needs token_url, client_id and grant")
	}
	return nil
}

// options are the options of the endpoint. Errors do not contain the secret.
func (e *TokenEndpoint) options(b *directive.Block) directive.Options {
	return directive.Options{
		"token_url":          directive.To(b.Text, &e.TokenURL),
		"client_id":          directive.To(b.Text, &e.ClientID),
		"client_secret":      directive.To(b.Text, &e.ClientSecret),
		"secret_in_body":     directive.To(b.Flag, &e.SecretInBody),
		"private_key":        directive.To(b.Text, &e.PrivateKey),
		"key_id":             directive.To(b.Text, &e.KeyID),
		"certificate":        directive.To(b.Text, &e.Certificate),
		"assertion_audience": directive.To(b.Text, &e.AssertionAudience),
	}
}

// Interface guard
var _ caddyfile.Unmarshaler = (*OAuth)(nil)
