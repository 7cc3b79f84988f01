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
	if arguments := b.RemainingArgs(); len(arguments) > 1 || len(arguments) == 1 && !strings.HasPrefix(arguments[0], "/") {
		return b.ArgErr()
	} else if len(arguments) == 1 {
		h.Path = strings.TrimRight(arguments[0], "/")
	}
	if err := b.Options(h.unmarshalOption); err != nil {
		return err
	}
	if h.Provider.Kind == "" {
		return d.Errf("agent_login needs an identity provider, as in: provider oidc %s", kinds["oidc"].example)
	}
	return nil
}

func (h *Handler) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "provider":
		return h.unmarshalProvider(b)
	case "client_id":
		return b.Text(&h.Provider.ClientID)
	case "client_secret":
		return unmarshalSecret(b, &h.Provider.ClientSecret)
	case "private_key":
		return b.Text(&h.Provider.PrivateKey)
	case "key_id":
		return b.Text(&h.Provider.KeyID)
	case "certificate":
		return b.Text(&h.Provider.Certificate)
	case "provider_scope":
		return b.List(&h.Provider.Scopes)
	case "provider_param":
		return h.unmarshalParam(b)
	case "group_claim":
		return b.Text(&h.Provider.GroupClaim)
	case "issuer":
		return b.Text(&h.Issuer)
	case "secret":
		return b.ReadSecrets(&h.Secret, &h.PreviousSecret)
	case "allow":
		return h.unmarshalAllow(b)
	case "scope":
		return h.unmarshalScope(b)
	case "client":
		return h.unmarshalClient(b)
	case "token_lifetime":
		return b.Period(&h.TokenLifetime)
	case "session_lifetime":
		return b.Period(&h.SessionLifetime)
	case "own_tokens":
		return b.Flag(&h.OwnTokens)
	}
	return b.Unrecognized("agent_login")
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

// unmarshalSecret reads a secret. Errors do not contain it.
func unmarshalSecret(b *directive.Block, to *string) error {
	if err := b.Text(to); err != nil {
		return err
	}
	if err := directive.CheckVariable(*to); err != nil {
		return b.WrapErr(err)
	}
	return nil
}

func (h *Handler) unmarshalParam(b *directive.Block) error {
	arguments := b.RemainingArgs()
	if len(arguments) != 2 {
		return b.Err("provider_param takes a name and a value, as in: provider_param audience https://api.example.com")
	}
	if h.Provider.Params == nil {
		h.Provider.Params = make(map[string]string)
	}
	h.Provider.Params[arguments[0]] = arguments[1]
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
	err := b.Options(func(b *directive.Block) error {
		switch b.Val() {
		case "name":
			return b.Text(&c.Name)
		case "redirect":
			return b.List(&c.RedirectURIs)
		case "secret":
			return unmarshalSecret(b, &c.Secret)
		case "jwks":
			return b.Text(&c.JWKS)
		case "machine":
			c.Machine, c.Scopes = true, b.RemainingArgs()
			return nil
		}
		return b.Unrecognized("client")
	})
	h.Clients = append(h.Clients, c)
	return err
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
