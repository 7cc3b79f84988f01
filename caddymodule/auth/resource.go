package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
)

func init() {
	caddy.RegisterModule(new(ProtectedResource))
}

// metadataMaxAge is how long clients may cache the metadata of a resource, in seconds.
const metadataMaxAge = 600

// ProtectedResource serves the metadata of a resource, from which clients learn where to get
// access tokens for it (RFC 9728). The metadata are at `/.well-known/oauth-protected-resource`,
// with and without the resource's path appended. Web pages of all origins may read them. Other
// requests are passed on unchanged.
type ProtectedResource struct {
	// The resource, as in `resource` of the provider oauth. Default: the whole site.
	Resource string `json:"resource,omitempty"`

	// The issuers of tokens for the resource. Default: that of the site's agent_login.
	AuthorizationServers []string `json:"authorization_servers,omitempty"`

	// The scopes that clients may request. Default: those that agent_auth requires, those of the site's agent_login, and those of the tools,
	// files and prompts behind the
	// endpoints of the resource.
	ScopesSupported []string `json:"scopes_supported,omitempty"`

	// The display name of the resource. Default: omitted.
	Name string `json:"resource_name,omitempty"`

	// The URL of a page for developers. Default: omitted.
	Documentation string `json:"resource_documentation,omitempty"`

	resource resource
	path     string
	login    site.Login // names the issuer if AuthorizationServers is empty; may be nil
}

// CaddyModule returns the Caddy module information.
func (*ProtectedResource) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.protected_resource",
		New: func() caddy.Module { return new(ProtectedResource) },
	}
}

// Provision resolves placeholders.
func (p *ProtectedResource) Provision(ctx caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	if p.resource, err = parseResource(repl.ReplaceKnown(p.Resource, "")); err != nil {
		return fmt.Errorf("resource %q: %w", text.RedactURL(p.Resource), err)
	}
	for i := range p.AuthorizationServers {
		p.AuthorizationServers[i] = repl.ReplaceKnown(p.AuthorizationServers[i], "")
	}
	if len(p.AuthorizationServers) == 0 {
		p.login = loginOf(ctx)
	}
	p.resource.join(ctx, p.login)
	p.path = oauth.MetadataPath(p.resource.path)
	if slices.ContainsFunc(currentRoutes(ctx), func(route *caddyhttp.Route) bool { return excludesPath(route.MatcherSets, p.path) }) {
		ctx.Logger().Warn("clients cannot read the metadata of agent_auth, so they cannot log in: the block around agent_auth "+
			"does not handle their path; put agent_auth outside of the block", zap.String("path", p.path))
	}
	return nil
}

// currentRoutes returns the routes around the module that is being provisioned: the first route of each list whose
// handlers are not provisioned yet.
func currentRoutes(ctx caddy.Context) (routes []*caddyhttp.Route) {
	for _, list := range site.RouteLists(ctx) {
		if i := site.CurrentRoute(list); i >= 0 {
			routes = append(routes, &list[i])
		}
	}
	return routes
}

// excludesPath reports whether every set of matchers has a path matcher that does not match the path.
func excludesPath(sets caddyhttp.MatcherSets, path string) bool {
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}).WithContext(ctx)
	excluded := func(matcher any) bool {
		paths, ok := matcher.(*caddyhttp.MatchPath)
		if !ok {
			return false
		}
		matches, err := paths.MatchWithError(r)
		return err == nil && !matches
	}
	return len(sets) > 0 && !slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return !slices.ContainsFunc(set, excluded) })
}

// ServeHTTP responds to requests for the metadata and passes all others on.
func (p *ProtectedResource) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	called := strings.TrimPrefix(r.URL.Path, oauth.WellKnown)
	if called == r.URL.Path || r.URL.Path != p.path && called != "" && !p.resource.hasMetadata(called) {
		return next.ServeHTTP(w, r)
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
		header.Set("Access-Control-Allow-Headers", "*")
		header.Set("Access-Control-Max-Age", "86400")
		header.Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		header.Set("Allow", "GET, HEAD, OPTIONS")
		respond.WriteProblem(w, http.StatusMethodNotAllowed, "Method not allowed", "Use GET or HEAD.")
		return nil
	}
	issuers, address := p.AuthorizationServers, p.resource.urlFor(r)
	if p.login != nil {
		issuer, _, err := p.login.TokenIssuer(r.Context())
		if err != nil {
			header.Set("Retry-After", "5")
			respond.WriteProblem(w, http.StatusServiceUnavailable, "The identity provider cannot be reached", "Try again in a few seconds.")
			return nil //nolint:nilerr // the client has got the error
		}
		issuers = []string{issuer}
		if p.login.Issues() && p.resource.hasMetadata(called) {
			address = p.resource.originOf(r) + called // clients compare it with the URL that they have called (RFC 9728, section 3.3)
		}
	}
	scopes := p.ScopesSupported
	if of := p.resource.site; len(scopes) == 0 || !of.Fixed && slices.Equal(scopes, of.Required) {
		scopes = of.Scopes(cmp.Or(called, p.resource.path))
	}
	metadata := oauth.Metadata{
		Resource:             address,
		AuthorizationServers: issuers,
		Scopes:               scopes,
		Name:                 p.Name,
		Documentation:        p.Documentation,
	}
	body := metadata.Append(nil)
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "public, max-age="+strconv.Itoa(metadataMaxAge))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}
	return nil
}

// resource is what tokens are issued for: a URL, or a path on the host of each request.
type resource struct {
	origin string // scheme and host; "" for those of the request
	path   string // without a trailing slash; "" for a whole site

	site  *site.Resource // what the handlers of the site know of it
	login string         // origin of the site's login, whose tokens are accepted; "" for none
}

// join sets what the handlers of the site know of the resource. Login issues its tokens; nil if others do.
func (s *resource) join(ctx caddy.Context, login site.Login) {
	known := new(site.Resources)
	if agents := agentsOf(ctx); agents != nil {
		known = &agents.Resources
	}
	s.site = known.At(site.At(ctx), s.origin, s.path, login != nil)
	if login != nil {
		s.login = login.Origin()
	}
}

// endpoints finds the tool endpoints in a configuration.
var endpoints = regexp.MustCompile(`"handler"\s*:\s*"(mcp|otc)"`)

// agentsOf returns the agents app. It returns nil if the configuration has neither the app nor, on this server, a handler that loads it.
func agentsOf(ctx caddy.Context) *site.App {
	agents, err := ctx.AppIfConfigured("agents")
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); err != nil && ok {
		for _, route := range server.Routes {
			for _, raw := range route.HandlersRaw {
				if agents == nil && endpoints.Match(raw) {
					agents, _ = ctx.App("agents") // the endpoint reports the error
				}
			}
		}
	}
	known, _ := agents.(*site.App)
	return known
}

// hasMetadata reports whether a path has metadata of its own: a path that clients call to reach an endpoint, if tokens are those of the site's login,
// which knows to which resource such a path belongs.
func (s resource) hasMetadata(path string) bool {
	if s.login == "" || !isUnambiguousPath(path) || (&url.URL{Path: path}).EscapedPath() != path {
		return false
	}
	return s.site.Part(path) != "" || s.path != "" && oauth.IsWithin(path, s.path)
}

// parseResource parses an option that is a path or a URL.
func parseResource(source string) (resource, error) {
	if source == "" {
		return resource{}, nil
	}
	if strings.HasPrefix(source, "/") {
		if strings.ContainsAny(source, "*?#{} ") || strings.HasPrefix(source, "//") {
			return resource{}, errors.New("the path of a resource must not contain wildcards, placeholders or spaces; write it as /mcp")
		}
		return resource{path: strings.TrimRight(source, "/")}, nil
	}
	if err := oauth.CheckResource(source); err != nil {
		return resource{}, err
	}
	u, err := url.Parse(source)
	if err != nil {
		return resource{}, err
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return resource{origin: u.Scheme + "://" + u.Host, path: path}, nil
}

// isRelative reports whether the resource is a path on the host of the request.
func (s resource) isRelative() bool { return s.origin == "" }

// urlFor returns the URL of the resource for a request.
func (s resource) urlFor(r *http.Request) string {
	return s.originOf(r) + s.path
}

// metadataURL returns the URL of the resource's metadata for a request.
func (s resource) metadataURL(r *http.Request) string {
	if s.hasMetadata(r.URL.Path) {
		return s.originOf(r) + oauth.WellKnown + r.URL.Path
	}
	return s.originOf(r) + oauth.MetadataPath(s.path)
}

// originOf returns the scheme and host of the resource for a request. If the host is that of the site's login, the login knows the scheme, also
// behind a proxy that ends TLS.
func (s resource) originOf(r *http.Request) string {
	if s.origin != "" {
		return s.origin
	}
	called := oauth.OriginOf(r)
	if _, of, _ := strings.Cut(s.login, "://"); strings.HasSuffix(called, "://"+of) {
		return s.login
	}
	return called
}

// hostIsKnown reports whether the module that is being provisioned only gets requests for
// certain hosts. This is so if there is a host matcher before it, at the server or in a
// subroute.
func hostIsKnown(ctx caddy.Context) bool {
	return slices.ContainsFunc(currentRoutes(ctx), func(route *caddyhttp.Route) bool {
		return len(route.MatcherSets) > 0 && !slices.ContainsFunc(route.MatcherSets, func(set caddyhttp.MatcherSet) bool { return !setHasHost(set) })
	})
}

// setHasHost reports whether a matcher set has a host matcher for certain hosts.
func setHasHost(set caddyhttp.MatcherSet) bool {
	for _, matcher := range set {
		hosts, ok := matcher.(*caddyhttp.MatchHost)
		if ok && !containsAnyHost(*hosts) {
			return true
		}
	}
	return false
}

// hostOf returns the host of the site that is being provisioned, if the site has exactly one.
func hostOf(ctx caddy.Context) (string, bool) {
	for _, around := range currentRoutes(ctx) {
		for _, set := range around.MatcherSets {
			for _, matcher := range set {
				if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
					return (*hosts)[0], len(*hosts) == 1 && !strings.ContainsAny((*hosts)[0], "*{")
				}
			}
		}
	}
	return "", false
}

// PublicOrigin returns the origin of the site that is being provisioned, if the site has exactly one host and listens on port 443.
func PublicOrigin(ctx caddy.Context) (string, bool) {
	host, ok := hostOf(ctx)
	server, isServed := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	isPublic := ok && isServed && slices.ContainsFunc(server.Listen, func(address string) bool { return strings.HasSuffix(address, ":443") })
	return "https://" + host, isPublic
}

// containsAnyHost reports whether one of the names is a wildcard in every label.
func containsAnyHost(hosts caddyhttp.MatchHost) bool {
	for _, host := range hosts {
		if strings.Trim(host, "*.") == "" {
			return true
		}
	}
	return false
}

// Interface guards
var (
	_ caddy.Provisioner           = (*ProtectedResource)(nil)
	_ caddyhttp.MiddlewareHandler = (*ProtectedResource)(nil)
)
