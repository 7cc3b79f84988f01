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
	options := c.options(b)
	err := b.Options(func(b *directive.Block) error {
		if !slices.Contains([]string{"exempt", "optional", "api_key"}, b.Val()) {
			c.isOAuth = true
		}
		return b.ReadOption("agent_auth", options)
	})
	if err != nil {
		return err
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

// options are the options of the directive.
func (c *authConfig) options(b *directive.Block) directive.Options {
	each := func(to *[]string, check func(source string) error) func() error {
		return func() error { return b.Each(to, check) }
	}
	return directive.Options{
		"issuer": each(&c.issuers, func(text string) error { return (&verify.Issuer{URL: text}).Check() }),
		"jwks":   directive.To(b.Text, &c.jwks),
		"resource": func() error {
			return b.Value(func(text string) error {
				c.resource = text
				_, err := parseResource(text)
				return directive.UnlessPlaceholder(text, err)
			})
		},
		"audience":               directive.To(b.List, &c.oauth.Audiences),
		"resource_name":          directive.To(b.Text, &c.name),
		"resource_documentation": directive.To(b.Text, &c.documentation),
		"algorithms":             each(&c.oauth.Algorithms, verify.CheckAlgorithm),
		"scopes_supported":       each(&c.scopes, checkScope),
		"require_scope":          each(&c.oauth.RequireScope, checkScope),
		"user_claim":             directive.To(b.Text, &c.oauth.UserClaim),
		"group_claim":            directive.To(b.List, &c.oauth.GroupClaims),
		"scope_claim":            directive.To(b.List, &c.oauth.ScopeClaims),
		"scope_includes":         directive.To(c.unmarshalIncludes, b),
		"introspection": func() error {
			if err := b.Once(); err != nil {
				return err
			}
			c.oauth.Introspection = new(Introspection)
			return c.oauth.Introspection.unmarshal(b)
		},
		"leeway":     func() error { return readLeeway(b, &c.oauth.Leeway) },
		"pass_token": directive.To(b.Flag, &c.oauth.PassToken),
		"exempt": each((*[]string)(&c.handlerOptions.Exempt), func(path string) error {
			if !strings.HasPrefix(path, "/") {
				return errors.New("the path must begin with a slash")
			}
			return nil
		}),
		"login":    directive.To(b.Flag, new(bool)),
		"optional": directive.To(b.Flag, &c.handlerOptions.Optional),
		"api_key": func() error {
			if err := b.Once(); err != nil {
				return err
			}
			c.handlerOptions.APIKey = new(APIKey)
			return c.handlerOptions.APIKey.unmarshal(b)
		},
	}
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
	b := directive.NewBlock(outer.Dispenser)
	return b.Read("introspection", directive.Options{
		"client_id":     directive.To(b.Text, &i.ClientID),
		"client_secret": directive.To(b.Text, &i.ClientSecret),
		"issuer":        directive.To(b.Text, &i.Issuer),
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
	err := b.Read("api_key", directive.Options{
		"header": func() error {
			return b.Value(func(text string) error {
				a.Header = text
				return checkKeyHeader(text)
			})
		},
		"query":        directive.To(b.Text, &a.Query),
		"key":          directive.To(a.unmarshalKey, b),
		"pass_through": directive.To(b.Flag, &a.PassThrough),
	})
	if err != nil {
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
