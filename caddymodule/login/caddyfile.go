package login

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/authserver"
)

func init() {
	httpcaddyfile.RegisterDirective("agent_login", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, new(Handler))
	})
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	agent_login [<matcher>] [<path>] {
//		provider        <kind> [<address>]
//		client_id       <id>
//		client_secret   <secret>
//		private_key     <file>
//		key_id          <kid>
//		certificate     <file>
//		provider_scope  <scopes...>
//		provider_param  <name> <value>
//		group_claim     <name>
//		issuer          <url>
//		secret          <secret> [<previous>]
//		allow           group | email | domain | user <values...>
//		allow           anyone
//		scope           <name> [group <groups...>]
//		client          <id> {
//			name     <text>
//			redirect <uris...>
//			secret   <secret>
//			jwks     <file>
//			machine  [<scopes...>]
//		}
//		token_lifetime   <duration>
//		session_lifetime <duration>
//		own_tokens
//	}
//
// allow, scope, client, provider_scope and provider_param may be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := directive.NewBlock(d)
	if err := b.Path(&h.Path); err != nil {
		return err
	}
	h.Path = strings.TrimRight(h.Path, "/")
	err := b.Read("agent_login", directive.Options{
		"provider":         directive.To(h.unmarshalProvider, b),
		"client_id":        directive.To(b.Text, &h.Provider.ClientID),
		"client_secret":    directive.To(b.Secret, &h.Provider.ClientSecret),
		"private_key":      directive.To(b.Text, &h.Provider.PrivateKey),
		"key_id":           directive.To(b.Text, &h.Provider.KeyID),
		"certificate":      directive.To(b.Text, &h.Provider.Certificate),
		"provider_scope":   directive.To(b.List, &h.Provider.Scopes),
		"provider_param":   b.Pair(&h.Provider.Params, "audience https://api.example.com"),
		"group_claim":      directive.To(b.Text, &h.Provider.GroupClaim),
		"issuer":           directive.To(b.Text, &h.Issuer),
		"secret":           func() error { return b.ReadSecrets(&h.Secret, &h.PreviousSecret) },
		"allow":            directive.To(h.unmarshalAllow, b),
		"scope":            directive.To(h.unmarshalScope, b),
		"client":           directive.To(h.unmarshalClient, b),
		"token_lifetime":   directive.To(b.Period, &h.TokenLifetime),
		"session_lifetime": directive.To(b.Period, &h.SessionLifetime),
		"own_tokens":       directive.To(b.Flag, &h.OwnTokens),
	})
	if err != nil {
		return err
	}
	if h.Provider.Kind == "" {
		return d.Errf("agent_login needs an identity provider, as in: provider oidc %s", kinds["oidc"].example)
	}
	return nil
}

// unmarshalProvider reads <kind> [<address>].
func (h *Handler) unmarshalProvider(b *directive.Block) error {
	if err := b.Once(); err != nil {
		return err
	}
	arguments := b.RemainingArgs()
	if len(arguments) == 0 || len(arguments) > 2 {
		return b.Err("provider takes a kind and an address, as in: provider oidc https://login.example.com")
	}
	h.Provider.Kind = arguments[0]
	if len(arguments) == 2 {
		h.Provider.Address = arguments[1]
	}
	if err := h.Provider.check(); err != nil {
		return b.WrapErr(err)
	}
	return nil
}

// unmarshalAllow reads who may log in.
func (h *Handler) unmarshalAllow(b *directive.Block) error {
	arguments := b.RemainingArgs()
	if slices.Equal(arguments, []string{"anyone"}) {
		h.Allow.Anyone = true
		return nil
	}
	if len(arguments) < 2 {
		return b.Err("allow takes group, email, domain or user with values, as in: allow group engineering (or, for everyone: allow anyone)")
	}
	lists := map[string]*[]string{"group": &h.Allow.Groups, "email": &h.Allow.Emails, "domain": &h.Allow.Domains, "user": &h.Allow.Users}
	list := lists[arguments[0]]
	if list == nil {
		return b.Errf("allow takes group, email, domain or user, not %s", arguments[0])
	}
	*list = append(*list, arguments[1:]...)
	return nil
}

// unmarshalScope reads <name> [group <groups...>].
func (h *Handler) unmarshalScope(b *directive.Block) error {
	arguments := b.RemainingArgs()
	if len(arguments) != 1 && (len(arguments) < 3 || arguments[1] != "group") {
		return b.Err("scope takes a name and, if only some users get it, their groups, as in: scope orders.write group sales")
	}
	scope := authserver.Scope{Name: arguments[0]}
	if len(arguments) > 1 {
		scope.Groups = arguments[2:]
	}
	if slices.ContainsFunc(h.Scopes, func(known authserver.Scope) bool { return known.Name == scope.Name }) {
		return b.Errf("scope %s is given twice", scope.Name)
	}
	h.Scopes = append(h.Scopes, scope)
	return nil
}

// unmarshalClient reads a client.
func (h *Handler) unmarshalClient(outer *directive.Block) error {
	var c Client
	if !outer.AllArgs(&c.ID) {
		return outer.Err("client takes an ID and a block, as in: client reports { machine read }")
	}
	b := directive.NewBlock(outer.Dispenser)
	err := b.Read("client", directive.Options{
		"name":     directive.To(b.Text, &c.Name),
		"redirect": directive.To(b.List, &c.RedirectURIs),
		"secret":   directive.To(b.Secret, &c.Secret),
		"jwks":     directive.To(b.Text, &c.JWKS),
		"machine": func() error {
			c.Machine, c.Scopes = true, b.RemainingArgs()
			return nil
		},
	})
	h.Clients = append(h.Clients, c)
	return err
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
