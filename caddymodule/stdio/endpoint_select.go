package stdio

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/caddymodule/otc"
	"github.com/fairwayhq/fairway/caddymodule/route"
)

// endpoint is an endpoint of the configuration.
type endpoint struct {
	server string   // name of the server
	hosts  []string // hosts of the site, may contain wildcards; empty for any host
	prefix string   // that handlers before the endpoint strip from the path, as handle_path does
	tools  *route.Endpoint
	mcp    *mcp.Handler // nil for other protocols
}

// mcpEndpointsOf returns the MCP endpoints of all sites.
func mcpEndpointsOf(app *caddyhttp.App) []endpoint {
	return slices.DeleteFunc(endpointsOf(app), func(e endpoint) bool { return e.mcp == nil })
}

// endpointsOf returns the endpoints of all sites.
func endpointsOf(app *caddyhttp.App) (found []endpoint) {
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		server := app.Servers[name]
		search := endpointSearch{server: name, named: server.NamedRoutes}
		search.routes(server.Routes, nil)
		found = append(found, search.found...)
	}
	return found
}

// endpointSearch collects the endpoints in the routes of a server.
type endpointSearch struct {
	server string
	prefix string // that is stripped from the path here
	named  map[string]*caddyhttp.Route
	found  []endpoint
}

// routes searches routes that requests for the hosts reach.
func (s *endpointSearch) routes(routes caddyhttp.RouteList, hosts []string) {
	defer func(outside string) { s.prefix = outside }(s.prefix)
	for i := range routes {
		inner := hosts
		if matched := hostsOf(routes[i].MatcherSets); len(matched) > 0 {
			inner = matched
		}
		s.handlers(routes[i].Handlers, inner)
	}
}

// handlers searches handlers that requests for the hosts reach.
func (s *endpointSearch) handlers(handlers []caddyhttp.MiddlewareHandler, hosts []string) {
	for _, handler := range handlers {
		switch handler := handler.(type) {
		case *rewrite.Rewrite:
			s.prefix += strings.TrimRight(handler.StripPathPrefix, "/")
		case *mcp.Handler:
			s.found = append(s.found, endpoint{server: s.server, hosts: hosts, prefix: s.prefix, tools: handler.Endpoint, mcp: handler})
		case *otc.Handler:
			s.found = append(s.found, endpoint{server: s.server, hosts: hosts, prefix: s.prefix, tools: handler.ToolEndpoint()})
		case *caddyhttp.Subroute:
			s.routes(handler.Routes, hosts)
		case *caddyhttp.Invoke:
			if named := s.named[handler.Name]; named != nil {
				delete(s.named, handler.Name) // prevents endless recursion if a named route invokes itself
				s.handlers(named.Handlers, hosts)
				s.named[handler.Name] = named
			}
		}
	}
}

// hostsOf returns the hosts that the matcher sets require. It returns none if one of the sets
// has no host matcher.
func hostsOf(sets caddyhttp.MatcherSets) (hosts []string) {
	for _, set := range sets {
		before := len(hosts)
		for _, matcher := range set {
			if match, ok := matcher.(*caddyhttp.MatchHost); ok {
				hosts = append(hosts, *match...)
			}
		}
		if len(hosts) == before {
			return nil
		}
	}
	return hosts
}

// selectEndpoint returns the endpoint that the site and the path select. Either may be empty. An endpoint
// may be below the start of the path, as in handle_path: the one with the longest path is selected. It is
// an error if they do not select exactly one.
func selectEndpoint(endpoints []endpoint, site, path string) (*endpoint, error) {
	var selected []endpoint
	longest := 0
	for _, e := range endpoints {
		own := e.tools.Path
		if !e.servesHost(site) || path != "" && (!strings.HasSuffix(strings.TrimRight(path, "/"), own) || len(own) < longest) {
			continue
		}
		if path != "" && len(own) > longest {
			selected, longest = nil, len(own)
		}
		selected = append(selected, e)
	}
	switch {
	case len(selected) == 1:
		return &selected[0], nil
	case len(endpoints) == 0:
		return nil, fmt.Errorf("the configuration has no MCP endpoint; add the directive mcp to a site")
	case len(selected) == 0:
		return nil, fmt.Errorf("no MCP endpoint matches --site and --path; the endpoints are: %s", endpointNames(endpoints))
	}
	return nil, fmt.Errorf("several MCP endpoints match; select one with --site and --path: %s", endpointNames(selected))
}

// endpointNames returns the names of the endpoints, for an error message.
func endpointNames(endpoints []endpoint) string {
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.String()
	}
	return strings.Join(names, ", ")
}

// String names the endpoint by its hosts and path, for messages.
func (e endpoint) String() string {
	if len(e.hosts) == 0 {
		return "*" + e.prefix + e.tools.Path
	}
	return strings.Join(e.hosts, "|") + e.prefix + e.tools.Path
}

// servesHost reports whether requests for the host reach the endpoint.
func (e endpoint) servesHost(site string) bool {
	return site == "" || len(e.hosts) == 0 || slices.ContainsFunc(e.hosts, func(host string) bool {
		return matchesHost(host, site)
	})
}

// matchesHost reports whether a host matches the pattern of a host matcher. In a pattern, *
// matches one label.
func matchesHost(pattern, host string) bool {
	if strings.EqualFold(pattern, host) {
		return true
	}
	patterns, labels := strings.Split(pattern, "."), strings.Split(host, ".")
	return len(patterns) == len(labels) && !slices.ContainsFunc(labels, func(label string) bool { return label == "" }) &&
		slices.EqualFunc(patterns, labels, func(p, l string) bool { return p == "*" || strings.EqualFold(p, l) })
}

// url returns the URL at which clients of the site reach the endpoint.
func (e *endpoint) url(secure bool, site, path string) *url.URL {
	u := &url.URL{Scheme: "http", Host: site, Path: path}
	if secure {
		u.Scheme = "https"
	}
	if path == "" {
		u.Path = e.prefix + e.tools.Path
	}
	u.Path = cmp.Or(u.Path, "/")
	if site == "" {
		u.Host = "localhost"
		if i := slices.IndexFunc(e.hosts, func(host string) bool { return !strings.ContainsAny(host, "*{") }); i >= 0 {
			u.Host = e.hosts[i]
		} else if len(e.hosts) > 0 {
			u.Host = strings.ReplaceAll(e.hosts[0], "*", "localhost")
		}
	}
	return u
}
