package siteroutes

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"go.uber.org/zap"
)

// WarnIfOpen logs a warning if no handler before the endpoint authenticates its callers, and its tool calls carry
// credentials of the gateway or a handler after it authenticates. Injected says whether the endpoint's own
// configuration adds credentials. There is no warning if the routes cannot be inspected. If all
// listeners of the server are on this machine, the level is info.
func (e *Endpoint) WarnIfOpen(ctx caddy.Context, injected bool, logger *zap.Logger) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || e.positions == nil || len(server.Listen) == 0 {
		return
	}
	injected = injected || e.anyAfter(func(_ *caddyhttp.Route, raw json.RawMessage) bool { return injectsAuthorization(raw) })
	if !injected && !e.anyAfter(e.authenticatesCalls) || e.IsAuthenticated(ctx) {
		return
	}
	log := logger.Warn
	if !slices.ContainsFunc(server.Listen, IsPublicListener) {
		log = logger.Info
	}
	if !injected {
		log("authentication after the endpoint protects its tool calls, but anyone can list the tools; "+
			"put it before the endpoint, or set allow_anonymous if this is intended",
			zap.String("directive", e.Protocol), zap.String("path", e.Path), zap.String("toolset", e.Toolsets()))
		return
	}
	log("endpoint is open to anonymous callers, and its tool calls use the gateway's credentials; "+
		"add agent_auth without optional, basic_auth or forward_auth before it, or set allow_anonymous if this is intended",
		zap.String("directive", e.Protocol), zap.String("path", e.Path), zap.String("toolset", e.Toolsets()))
}

// IsAuthenticated reports whether handlers before the endpoint that is being provisioned, or client certificates, authenticate all its callers. It
// returns false if this cannot be determined.
func (e *Endpoint) IsAuthenticated(ctx caddy.Context) bool {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return ok && e.positions != nil && (e.isAuthenticated() || needsClientCertificate(server, e.positions))
}

// isAuthenticated reports whether handlers before the endpoint authenticate its callers.
func (e *Endpoint) isAuthenticated() bool {
	paths := []string{e.callPath()}
	if e.Protocol == "otc" {
		paths = append(paths, e.Path+"/tools/call")
	}
	for _, path := range paths {
		guarded := false
		for i, p := range e.positions {
			guarded = guarded || authenticatedAt(p, p.route().HandlersRaw[:e.rawIndexAt(i)], path)
		}
		if !guarded {
			return false
		}
	}
	return true
}

// rawIndexAt returns the index, in the raw route at the endpoint's i-th position, of the
// handler that is the endpoint or contains it.
func (e *Endpoint) rawIndexAt(i int) int {
	raw := e.positions[i].route().HandlersRaw
	if i == len(e.positions)-1 {
		return e.registry.rawIndex(e, raw)
	}
	return currentHandlerIndex(raw)
}

// IsAuthenticatedBefore reports whether handlers before the one that is being provisioned authenticate
// requests for a path. Name is the module name of that handler. It returns false if this cannot be
// determined.
func IsAuthenticatedBefore(ctx caddy.Context, name, path string) bool {
	return anyBefore(ctx, name, func(p position, before []json.RawMessage) bool { return authenticatedAt(p, before, path) })
}

// anyBefore reports whether a condition holds for one of the positions of the handler that is being provisioned, with
// the raw handlers before it in the route there. Name is the module name of that handler.
func anyBefore(ctx caddy.Context, name string, condition func(position, []json.RawMessage) bool) bool {
	isOrContains := func(raw json.RawMessage) bool {
		return anyRaw(raw, func(h rawHandler) bool { return h.Handler == name })
	}
	for _, p := range positionsOf(ctx) {
		raw := p.route().HandlersRaw
		if condition(p, raw[:max(slices.IndexFunc(raw, isOrContains), 0)]) {
			return true
		}
	}
	return false
}

// authenticatedAt reports whether a handler before the position authenticates requests for the path.
// The handler is in an earlier route, or before the endpoint in the same route.
func authenticatedAt(p position, before []json.RawMessage, path string) bool {
	return slices.ContainsFunc(p.earlier(before), func(route *caddyhttp.Route) bool {
		return anyHandlerAuthenticates(route, path) && (sameMatchers(route, p.route()) || !excludesCalls(route.MatcherSets, path))
	})
}

// earlier returns the routes before the position whose handlers may see the same requests. The last one has the raw
// handlers before the position in its own route.
func (p position) earlier(before []json.RawMessage) (routes []*caddyhttp.Route) {
	present := p.route()
	for i := range p.routes[:p.index] {
		route := &p.routes[i]
		alternative := route.Group != "" && route.Group == present.Group
		if !alternative && sameHosts(route, present) {
			routes = append(routes, route)
		}
	}
	return append(routes, &caddyhttp.Route{HandlersRaw: before})
}

// sameHosts reports whether a route is for all hosts or has the same matchers as the current
// one. Routes of other sites do not protect this one.
func sameHosts(route, present *caddyhttp.Route) bool {
	return len(hostsOf(route)) == 0 || sameMatchers(route, present)
}

// routeAuthenticates reports whether a route authenticates requests for the path. Its handlers may be
// provisioned or raw.
func routeAuthenticates(route *caddyhttp.Route, path string) bool {
	return !excludesCalls(route.MatcherSets, path) && !excludesCallsRaw(route.MatcherSetsRaw, path) && anyHandlerAuthenticates(route, path)
}

// anyHandlerAuthenticates reports whether a handler of the route authenticates requests for the path,
// provided that the route's matchers match them.
func anyHandlerAuthenticates(route *caddyhttp.Route, path string) bool {
	return slices.ContainsFunc(route.Handlers, func(h caddyhttp.MiddlewareHandler) bool { return handlerAuthenticates(h, path) }) ||
		slices.ContainsFunc(route.HandlersRaw, func(h json.RawMessage) bool { return rawHandlerAuthenticates(h, path) })
}

// handlerAuthenticates reports whether a handler authenticates requests for the path.
func handlerAuthenticates(handler any, path string) bool {
	switch h := handler.(type) {
	case interface {
		Anonymous() (bool, *caddyhttp.MatchPath)
	}: // agent_auth
		all, paths := h.Anonymous()
		return !all && !matchesCall(paths, path)
	case *caddyauth.Authentication:
		return true
	case *reverseproxy.Handler: // forward_auth
		return h.Rewrite != nil && slices.ContainsFunc(h.HandleResponse, func(r caddyhttp.ResponseHandler) bool {
			return r.Match != nil && slices.Contains(r.Match.StatusCode, 2)
		})
	case *caddyhttp.Subroute:
		return slices.ContainsFunc(h.Routes, func(r caddyhttp.Route) bool { return routeAuthenticates(&r, path) })
	}
	return false
}

// rawHandlerAuthenticates is handlerAuthenticates for a handler that is not provisioned.
func rawHandlerAuthenticates(raw json.RawMessage, path string) bool {
	return handlerAuthenticates(decodeHandler(raw), path)
}

// decodeHandler returns a handler that is not provisioned. It returns nil for handlers that no check looks at.
func decodeHandler(raw json.RawMessage) (handler any) {
	name := handlerName(raw)
	if !slices.Contains([]string{"agent_auth", "authentication", "headers", "reverse_proxy", "subroute"}, name) {
		return nil
	}
	info, err := caddy.GetModule("http.handlers." + name)
	if err != nil {
		return nil
	}
	if handler = info.New(); json.Unmarshal(raw, handler) != nil {
		return nil
	}
	return handler
}

// excludesCalls reports whether some POST requests for the path do not match. A set excludes
// requests by the path, by the method, or by headers, cookies or the query, which clients
// choose. Other matchers, such as remote_ip and expression, count as matching.
func excludesCalls(sets caddyhttp.MatcherSets, path string) bool {
	excluded := func(set caddyhttp.MatcherSet) bool {
		return slices.ContainsFunc(set, func(m any) bool { return excludesCall(m, path) })
	}
	return len(sets) > 0 && !slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return !excluded(set) })
}

// excludesCall is excludesCalls for one matcher.
func excludesCall(matcher any, path string) bool {
	switch m := matcher.(type) {
	case *caddyhttp.MatchPath:
		return !matchesCall(m, path)
	case *caddyhttp.MatchPathRE:
		return !matchesCall(m, path)
	case *caddyhttp.MatchMethod:
		return !slices.Contains(*m, http.MethodPost)
	case *caddyhttp.MatchNot:
		return slices.ContainsFunc(m.MatcherSets, func(set caddyhttp.MatcherSet) bool {
			return !slices.ContainsFunc(set, func(inner any) bool {
				p, ok := inner.(*caddyhttp.MatchPath)
				return !isChosenByClient(inner) && (!ok || !matchesCall(p, path))
			})
		})
	}
	return isChosenByClient(matcher)
}

// isChosenByClient reports whether a matcher depends on what clients may send or omit in any
// request for a path.
func isChosenByClient(matcher any) bool {
	return slices.Contains(clientMatchers, moduleName(matcher))
}

// clientMatchers are the names of the matchers that depend on what clients send.
var clientMatchers = []string{"header", "header_regexp", "query"}

// excludesCallsRaw is excludesCalls for matchers that are not provisioned. It does not inspect
// `not`.
func excludesCallsRaw(sets caddyhttp.RawMatcherSets, path string) bool {
	excluded := func(set caddy.ModuleMap) bool { return excludesCallRaw(set, path) }
	return len(sets) > 0 && !slices.ContainsFunc(sets, func(set caddy.ModuleMap) bool { return !excluded(set) })
}

// excludesCallRaw is excludesCalls for one set of raw matchers.
func excludesCallRaw(set caddy.ModuleMap, path string) bool {
	if slices.ContainsFunc(clientMatchers, func(name string) bool { return set[name] != nil }) {
		return true
	}
	var methods caddyhttp.MatchMethod
	if json.Unmarshal(set["method"], &methods) == nil && excludesCall(&methods, path) {
		return true
	}
	var paths caddyhttp.MatchPath
	return json.Unmarshal(set["path"], &paths) == nil && paths.Provision(caddy.Context{}) == nil && excludesCall(&paths, path)
}

// matchesCall reports whether a path matcher matches a POST request for the path.
func matchesCall(matcher caddyhttp.RequestMatcherWithError, path string) bool {
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}}).WithContext(ctx)
	matches, err := matcher.MatchWithError(r)
	return err == nil && matches
}

// IsPublicListener reports whether other machines may reach a listener.
func IsPublicListener(address string) bool {
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil {
		return true
	}
	ip := net.ParseIP(parsed.Host)
	return !parsed.IsUnixNetwork() && parsed.Host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// needsClientCertificate reports whether TLS requires a client certificate for all of the
// endpoint's hosts.
func needsClientCertificate(server *caddyhttp.Server, at []position) bool {
	hosts := hostsOf(at[0].route())
	if len(hosts) == 0 {
		hosts = []string{""} // any
	}
	return !slices.ContainsFunc(hosts, func(host string) bool { return !hostNeedsCertificate(server.TLSConnPolicies, host) })
}

// hostNeedsCertificate reports whether all TLS policies that may apply to a host require a
// client certificate. An empty host means any host.
func hostNeedsCertificate(policies caddytls.ConnectionPolicies, host string) bool {
	for _, policy := range policies {
		var names []string
		_ = json.Unmarshal(policy.MatchersRaw["sni"], &names) // the matcher's Provision reports it
		isFor := func(name string) bool { return certificateName(name, host) }
		if len(names) > 0 && host != "" && !slices.ContainsFunc(names, isFor) {
			continue
		}
		authHandler := policy.ClientAuthentication
		if authHandler == nil || !authHandler.Active() || authHandler.Mode != "" && !strings.HasPrefix(authHandler.Mode, "require") {
			return false
		}
		if host != "" && len(policy.MatchersRaw) == min(len(names), 1) {
			return true // the first matching policy applies
		}
	}
	return len(policies) > 0
}

// certificateName reports whether a server name matches a host. The first label of the name may
// be *.
func certificateName(name, host string) bool {
	if parent, wild := strings.CutPrefix(name, "*."); wild {
		_, rest, _ := strings.Cut(host, ".")
		return strings.EqualFold(rest, parent)
	}
	return strings.EqualFold(name, host)
}

// anyAfter reports whether a condition holds for one of the handlers after the endpoint.
func (e *Endpoint) anyAfter(condition func(route *caddyhttp.Route, raw json.RawMessage) bool) bool {
	for i, p := range e.positions {
		for j := range p.routes[p.index:] {
			route := &p.routes[p.index+j]
			raw := route.HandlersRaw
			if j == 0 {
				raw = raw[min(e.rawIndexAt(i)+1, len(raw)):]
			}
			if slices.ContainsFunc(raw, func(h json.RawMessage) bool { return condition(route, h) }) {
				return true
			}
		}
	}
	return false
}

// authenticatesCalls reports whether a handler of a route after the endpoint would authenticate calls of the endpoint if
// it was before it.
func (e *Endpoint) authenticatesCalls(route *caddyhttp.Route, raw json.RawMessage) bool {
	isLater := !slices.ContainsFunc(e.positions, func(p position) bool { return p.route() == route })
	return (!isLater || route.Group == "" && !excludesCalls(route.MatcherSets, e.callPath())) && rawHandlerAuthenticates(raw, e.callPath())
}

// injectsAuthorization reports whether a handler sets an Authorization header whose value does not come from the
// request, as header_up of reverse_proxy does.
func injectsAuthorization(raw json.RawMessage) bool {
	return anyRaw(raw, func(h rawHandler) bool {
		for _, fields := range []http.Header{h.Request.Set, h.Request.Add, h.Headers.Request.Set, h.Headers.Request.Add} {
			for name, values := range fields {
				isOwn := func(value string) bool { return value != "" && !strings.Contains(value, "{http.") }
				if strings.EqualFold(name, "Authorization") && slices.ContainsFunc(values, isOwn) {
					return true
				}
			}
		}
		return false
	})
}
