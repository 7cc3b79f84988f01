package agentauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/problem"
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

	// The issuers of tokens for the resource. Default: none.
	AuthorizationServers []string `json:"authorization_servers,omitempty"`

	// The scopes that clients may request. Default: omitted.
	ScopesSupported []string `json:"scopes_supported,omitempty"`

	// The display name of the resource. Default: omitted.
	Name string `json:"resource_name,omitempty"`

	// The URL of a page for developers. Default: omitted.
	Documentation string `json:"resource_documentation,omitempty"`

	resource Resource
	path     string
}

// CaddyModule returns the Caddy module information.
func (*ProtectedResource) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.protected_resource",
		New: func() caddy.Module { return new(ProtectedResource) },
	}
}

// Provision resolves placeholders.
func (p *ProtectedResource) Provision(caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	if p.resource, err = parseResource(repl.ReplaceKnown(p.Resource, "")); err != nil {
		return fmt.Errorf("resource %q: %w", agents.RedactURL(p.Resource), err)
	}
	for i := range p.AuthorizationServers {
		p.AuthorizationServers[i] = repl.ReplaceKnown(p.AuthorizationServers[i], "")
	}
	p.path = oauth.MetadataPath(p.resource.path)
	return nil
}

// ServeHTTP responds to requests for the metadata and passes all others on.
func (p *ProtectedResource) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path != p.path && r.URL.Path != oauth.WellKnown {
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
		problem.Write(w, http.StatusMethodNotAllowed, "Method not allowed", "Use GET or HEAD.")
		return nil
	}
	metadata := oauth.Metadata{
		Resource:             p.resource.urlFor(r),
		AuthorizationServers: p.AuthorizationServers,
		Scopes:               p.ScopesSupported,
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

// Resource is what tokens are issued for: a URL, or a path on the host of each request.
type Resource struct {
	origin string // scheme and host; "" for those of the request
	path   string // without a trailing slash; "" for a whole site
}

// parseResource parses an option that is a path or a URL.
func parseResource(text string) (Resource, error) {
	if text == "" {
		return Resource{}, nil
	}
	if strings.HasPrefix(text, "/") {
		if strings.ContainsAny(text, "*?#{} ") || strings.HasPrefix(text, "//") {
			return Resource{}, errors.New("the path of a resource must not contain wildcards, placeholders or spaces; write it as /mcp")
		}
		return Resource{path: strings.TrimRight(text, "/")}, nil
	}
	if err := oauth.CheckResource(text); err != nil {
		return Resource{}, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return Resource{}, err
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return Resource{origin: u.Scheme + "://" + u.Host, path: path}, nil
}

// isRelative reports whether the resource is a path on the host of the request.
func (s Resource) isRelative() bool { return s.origin == "" }

// urlFor returns the URL of the resource for a request.
func (s Resource) urlFor(r *http.Request) string {
	return s.OriginOf(r) + s.path
}

// metadataURL returns the URL of the resource's metadata for a request.
func (s Resource) metadataURL(r *http.Request) string {
	return s.OriginOf(r) + oauth.MetadataPath(s.path)
}

// OriginOf returns the scheme and host of the resource for a request.
func (s Resource) OriginOf(r *http.Request) string {
	if s.origin != "" {
		return s.origin
	}
	scheme, defaultPort := "http", ":80"
	if r.TLS != nil {
		scheme, defaultPort = "https", ":443"
	}
	return scheme + "://" + strings.TrimSuffix(strings.ToLower(r.Host), defaultPort)
}

// hostIsKnown reports whether the module that is being provisioned only gets requests for
// certain hosts. This is so if there is a host matcher before it, at the server or in a
// subroute.
func hostIsKnown(ctx caddy.Context) bool {
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && currentRouteHasHost(server.Routes) {
		return true
	}
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok && currentRouteHasHost(subroute.Routes) {
			return true
		}
	}
	return false
}

// currentRouteHasHost inspects the first route whose handlers are not provisioned yet, which is
// the current one.
func currentRouteHasHost(routes caddyhttp.RouteList) bool {
	for i := range routes {
		if routes[i].HandlersRaw == nil {
			continue
		}
		for _, set := range routes[i].MatcherSets {
			if !setHasHost(set) {
				return false
			}
		}
		return len(routes[i].MatcherSets) > 0
	}
	return false
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
