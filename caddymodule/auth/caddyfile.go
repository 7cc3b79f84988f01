package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/oauth/verify"
)

func init() {
	httpcaddyfile.RegisterDirective("agent_auth", parseAgentAuth)
}

// parseAgentAuth sets up the handler with its matcher. It also adds the handler of the
// resource's metadata without a matcher, because the metadata are outside the matched paths.
func parseAgentAuth(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // consume directive name
	token, path := "", ""
	if h.NextArg() {
		token = h.Val()
		path = pathOfMatcher(token)
	}
	h.Reset()
	h.Next()
	matchers, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, h.WrapErr(err)
	}
	if path != "" && !strings.HasSuffix(token, "*") {
		// An endpoint also responds at its path with a trailing slash and below it.
		matchers["path"] = caddyconfig.JSON(caddyhttp.MatchPath{path, path + "/*"}, nil)
	}
	c := &authConfig{resource: path}
	if err := c.unmarshal(h.Dispenser); err != nil {
		return nil, err
	}
	values := h.NewRoute(matchers, c.handler())
	if metadata := c.metadata(); metadata != nil {
		values = append(h.NewRoute(nil, metadata), values...)
	}
	return values, nil
}

// pathOfMatcher returns the path of the resource that a path matcher such as /mcp* selects. It
// returns "" for other matchers and for patterns that select more than one path.
func pathOfMatcher(token string) string {
	path := strings.TrimRight(strings.TrimSuffix(token, "*"), "/")
	if !strings.HasPrefix(token, "/") || strings.ContainsAny(path, "*?#{}") {
		return ""
	}
	return path
}

// authConfig holds the options of the directive agent_auth.
type authConfig struct {
	handlerOptions Handler
	oauth          OAuth
	isOAuth        bool // access tokens are accepted
	issuers        []string
	jwks           string
	resource       string
	scopes         []string // scopes_supported
	name           string
	documentation  string
}

// unmarshal reads the directive after its matcher. Syntax:
//
//	agent_auth [<matcher>] {
//		issuer                 <urls...>
//		jwks                   <url or file>
//		audience               <audiences...>
//		resource               <path or url>
//		resource_name          <text>
//		resource_documentation <url>
//		algorithms             <names...>
//		scopes_supported       <scopes...>
//		require_scope          <scopes...>
//		user_claim             <claim>
//		group_claim            <claims...>
//		scope_claim            <claims...>
//		scope_includes         <scope> <included scopes...>
//		introspection          <url> {
//			client_id     <id>
//			client_secret <secret>
//			issuer        <url>
//		}
//		leeway                 <duration> | off
//		pass_token
//		exempt                 <paths...>
//		optional
//		login
//		api_key {
//			header <name>
//			query  <name>
//			key    <name> <secret>
//			pass_through
//		}
//	}
//
// Rules:
//
//   - issuer, audience, algorithms, scopes_supported, require_scope, group_claim, scope_claim,
//     scope_includes, exempt and key may be repeated.
//   - Without an issuer, tokens of the site's agent_login are accepted. Beside api_key, the option login is
//     needed for that, or one of the other options of tokens.
//   - jwks requires a single issuer. With several issuers, the keys of each are found through
//     its metadata.
//   - resource defaults to the path of the matcher if the matcher is one path, such as /mcp or
//     /mcp*. Otherwise it defaults to the whole site.
//   - A path without * also selects the paths below it.
//
// See Handler, OAuth, APIKey and ProtectedResource for the meaning of the options.
func (c *authConfig) unmarshal(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	if d.NextArg() {
		return d.Errf("agent_auth takes a matcher and a block, not '%s'", d.Val())
	}
	b := directive.NewBlock(d)
	for b.NextBlock(0) {
		if name := b.Val(); !slices.Contains([]string{"exempt", "optional", "api_key"}, name) {
			c.isOAuth = true
		}
		known, err := c.unmarshalOption(b)
		if err != nil {
			return err
		}
		if !known {
			return b.Unrecognized("agent_auth")
		}
	}
	c.isOAuth = c.isOAuth || c.handlerOptions.APIKey == nil
	switch {
	case len(c.issuers) == 0 && c.jwks != "":
		return d.Err("jwks requires an issuer; add issuer with the URL of the authorization server")
	case len(c.issuers) > 1 && c.jwks != "":
		return d.Err("jwks requires a single issuer, and there are several; remove it, and the keys are found through the metadata of the issuers")
	}
	return nil
}

// unmarshalOption reads one option of the directive.
func (c *authConfig) unmarshalOption(b *directive.Block) (known bool, err error) {
	switch b.Val() {
	case "issuer":
		err = b.Each(&c.issuers, func(text string) error {
			return (&verify.Issuer{URL: text}).Check()
		})
	case "jwks":
		err = b.Text(&c.jwks)
	case "audience":
		err = b.List(&c.oauth.Audiences)
	case "resource":
		err = b.Value(func(text string) error {
			c.resource = text
			_, err := parseResource(text)
			return directive.UnlessPlaceholder(text, err)
		})
	case "resource_name":
		err = b.Text(&c.name)
	case "resource_documentation":
		err = b.Text(&c.documentation)
	case "algorithms":
		err = b.Each(&c.oauth.Algorithms, verify.CheckAlgorithm)
	case "scopes_supported":
		err = b.Each(&c.scopes, checkScope)
	case "require_scope":
		err = b.Each(&c.oauth.RequireScope, checkScope)
	case "user_claim":
		err = b.Text(&c.oauth.UserClaim)
	case "group_claim":
		err = b.List(&c.oauth.GroupClaims)
	case "scope_claim":
		err = b.List(&c.oauth.ScopeClaims)
	case "scope_includes":
		err = c.unmarshalIncludes(b)
	case "introspection":
		if err = b.Once(); err == nil {
			c.oauth.Introspection = new(Introspection)
			err = c.oauth.Introspection.unmarshal(b)
		}
	case "leeway":
		err = readLeeway(b, &c.oauth.Leeway)
	case "pass_token":
		err = b.Flag(&c.oauth.PassToken)
	case "exempt":
		err = b.Each((*[]string)(&c.handlerOptions.Exempt), func(path string) error {
			if !strings.HasPrefix(path, "/") {
				return errors.New("the path must begin with a slash")
			}
			return nil
		})
	case "login":
		err = b.Flag(new(bool))
	case "optional":
		err = b.Flag(&c.handlerOptions.Optional)
	case "api_key":
		if err = b.Once(); err == nil {
			c.handlerOptions.APIKey = new(APIKey)
			err = c.handlerOptions.APIKey.unmarshal(b)
		}
	default:
		return false, nil
	}
	return true, err
}

// unmarshalIncludes reads <scope> <included scopes...>.
func (c *authConfig) unmarshalIncludes(b *directive.Block) error {
	scopes := b.RemainingArgs()
	if len(scopes) < 2 {
		return b.Err("scope_includes needs a scope and the scopes that it includes, as in: scope_includes admin read write")
	}
	for _, scope := range scopes {
		if err := checkScope(scope); err != nil {
			return b.Errf("scope_includes: %v", err)
		}
	}
	if c.oauth.ScopeIncludes == nil {
		c.oauth.ScopeIncludes = make(map[string][]string)
	}
	c.oauth.ScopeIncludes[scopes[0]] = append(c.oauth.ScopeIncludes[scopes[0]], scopes[1:]...)
	return nil
}

// unmarshal reads <url> and the block of introspection.
func (i *Introspection) unmarshal(outer *directive.Block) error {
	if !outer.AllArgs(&i.URL) {
		return outer.Err("introspection needs the URL of the endpoint, as in: introspection https://auth.example.com/introspect { … }")
	}
	if err := directive.UnlessPlaceholder(i.URL, verify.CheckIntrospection(i.URL)); err != nil {
		return outer.Errf("introspection: %v", err)
	}
	return directive.NewBlock(outer.Dispenser).Options(func(b *directive.Block) error {
		switch b.Val() {
		case "client_id":
			return b.Text(&i.ClientID)
		case "client_secret":
			return b.Text(&i.ClientSecret)
		case "issuer":
			return b.Text(&i.Issuer)
		}
		return b.Unrecognized("introspection")
	})
}

// handler returns the configured handler.
func (c *authConfig) handler() *Handler {
	handler := c.handlerOptions
	if !c.isOAuth {
		return &handler
	}
	provider := c.oauth
	provider.Resource, provider.ScopesSupported = c.resource, c.scopes
	for _, issuer := range c.issuers {
		provider.Issuers = append(provider.Issuers, OAuthIssuer{Issuer: issuer, JWKS: c.jwks})
	}
	handler.OAuth = &provider
	return &handler
}

// metadata returns the handler of the resource's metadata. It returns nil if no tokens are accepted.
func (c *authConfig) metadata() *ProtectedResource {
	if !c.isOAuth {
		return nil
	}
	scopes := c.scopes
	if scopes == nil {
		scopes = slices.Clone(c.oauth.RequireScope)
	}
	return &ProtectedResource{
		Resource:             c.resource,
		AuthorizationServers: c.issuers,
		ScopesSupported:      scopes,
		Name:                 c.name,
		Documentation:        c.documentation,
	}
}

// unmarshal reads the block of api_key.
func (a *APIKey) unmarshal(outer *directive.Block) error {
	if outer.NextArg() {
		return outer.Err("api_key takes a block with a key, as in: key ada {env.ADA_KEY}")
	}
	b := directive.NewBlock(outer.Dispenser)
	if err := b.Options(a.unmarshalOption); err != nil {
		return err
	}
	switch {
	case len(a.Keys) == 0:
		return outer.Err("api_key has no key: add key with a name and a secret, as in: key ada {env.ADA_KEY}")
	case a.Header != "" && a.Query != "":
		return outer.Err("api_key has both header and query; remove one")
	}
	return nil
}

func (a *APIKey) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "header":
		return b.Value(func(text string) error {
			a.Header = text
			return checkKeyHeader(text)
		})
	case "query":
		return b.Text(&a.Query)
	case "key":
		return a.unmarshalKey(b)
	case "pass_through":
		return b.Flag(&a.PassThrough)
	}
	return b.Unrecognized("api_key")
}

// unmarshalKey reads <name> <secret>. Its errors do not contain the secret.
func (a *APIKey) unmarshalKey(b *directive.Block) error {
	var key NamedKey
	if !b.AllArgs(&key.Name, &key.Secret) {
		return b.Err("key needs a name and a secret, as in: key ada {env.ADA_KEY}")
	}
	if err := checkKeyName(key.Name); err != nil {
		return b.Errf("key %s: %v", key.Name, err)
	}
	if key.Secret == "" {
		return b.Errf("key %s: the secret is empty", key.Name)
	}
	if strings.HasPrefix(key.Secret, "sha256:") {
		if _, err := digestOf(key.Secret); err != nil {
			return b.Errf("key %s: %v", key.Name, err)
		}
	}
	if slices.ContainsFunc(a.Keys, func(known NamedKey) bool { return known.Name == key.Name }) {
		return b.Errf("key %s is given twice", key.Name)
	}
	a.Keys = append(a.Keys, key)
	return nil
}

// readLeeway reads how much clocks may differ; "off" is -1.
func readLeeway(b *directive.Block, to *caddy.Duration) error {
	return b.Value(func(text string) error {
		if text == "off" {
			*to = -1
			return nil
		}
		d, err := caddy.ParseDuration(text)
		if err != nil || d <= 0 || d > verify.MaxLeeway {
			return fmt.Errorf("not a duration of at most %d minutes: write it as 30s, or off", verify.MaxLeeway/time.Minute)
		}
		*to = caddy.Duration(d)
		return nil
	})
}

// checkScope returns an error if the text is not a scope (RFC 6749, section 3.3).
func checkScope(scope string) error {
	if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return fmt.Errorf("%q is not a scope: it has spaces, quotes or characters that are not ASCII", scope)
	}
	return nil
}
