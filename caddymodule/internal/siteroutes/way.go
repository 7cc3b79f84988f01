package siteroutes

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// certainty says whether something is so for a request.
type certainty int

const (
	never certainty = iota
	maybe           // it depends on what is not known
	always
)

// way follows a request through provisioned routes, as far as it gets.
type way struct {
	// matches reports whether the request matches. If it is rewritten, its path and method are not known.
	matches func(sets caddyhttp.MatcherSets, rewritten bool) certainty
	// visit is called with each handler that the request may reach, in order, and returns whether it ends there. Subroutes
	// come before their handlers.
	visit func(h caddyhttp.MiddlewareHandler, reached certainty) (ends certainty)

	route     *caddyhttp.Route     // the innermost one that is followed
	rewritten bool                 // a handler may have changed the path or the method
	taken     map[string]certainty // the groups of which a route has matched
}

// after follows a tool call that begins after the handler at the positions. Its groups are new, so that it can match
// another route of the group of its endpoint.
func (w *way) after(at []position) {
	reached := always
	for _, p := range slices.Backward(at) {
		reached = min(reached, always-w.handlers(handlersFrom(p)[1:], reached))
		if p.route().Terminal {
			return
		}
		reached = min(reached, always-w.routes(p.routes[p.index+1:], reached))
	}
}

// before follows a request that the handler at the positions gets, up to it. Alternatives are routes of its groups.
func (w *way) before(at []position, alternatives bool) {
	for _, p := range at {
		for i := range p.routes[:p.index] {
			if alternatives || p.isBefore(i) {
				w.routes(p.routes[i:i+1], always)
			}
		}
		w.route = p.route()
		w.handlers(p.route().Handlers[:max(p.insideIndex(), 0)], always)
	}
}

// routes returns whether the request ends in the routes, if it reaches them.
func (w *way) routes(routes []caddyhttp.Route, reached certainty) (ends certainty) {
	for i := range routes {
		route := &routes[i]
		match := always
		if len(route.MatcherSets) > 0 {
			match = w.matches(route.MatcherSets, w.rewritten)
		}
		if route.Group != "" {
			match = min(match, always-w.taken[route.Group])
		}
		here := min(reached, always-ends, match)
		if here == never {
			continue
		}
		if route.Group != "" {
			if w.taken == nil {
				w.taken = make(map[string]certainty)
			}
			w.taken[route.Group] = max(w.taken[route.Group], here)
		}
		w.route = route
		end := w.handlers(route.Handlers, here)
		if route.Terminal {
			end = always
		}
		ends = max(ends, min(end, match))
	}
	return ends
}

// handlers returns whether the request ends in the handlers, if it reaches them.
func (w *way) handlers(handlers []caddyhttp.MiddlewareHandler, reached certainty) (ends certainty) {
	for _, h := range handlers {
		here := min(reached, always-ends)
		if here == never {
			break
		}
		ends = max(ends, w.visit(h, here))
		if subroute, ok := h.(*caddyhttp.Subroute); ok {
			ends = max(ends, w.routes(subroute.Routes, here))
		}
		switch {
		case !callsAPI(h):
		case moduleName(h) == "subroute": // handlers may change what its matchers read
			ends = max(ends, maybe)
		default:
			ends = always
		}
		w.rewritten = w.rewritten || handlersRewrite([]caddyhttp.MiddlewareHandler{h})
	}
	return ends
}

// callsAPI reports whether a handler, or one that it contains, may send the requests that it gets to an API.
// forward_auth does not: it asks another server about them. Handlers of other projects are not known.
func callsAPI(h caddyhttp.MiddlewareHandler) bool {
	switch h := h.(type) {
	case *caddyhttp.Subroute:
		return slices.ContainsFunc(h.Routes, func(r caddyhttp.Route) bool { return slices.ContainsFunc(r.Handlers, callsAPI) })
	case *reverseproxy.Handler:
		return !handlerAuthenticates(h, "")
	}
	return slices.Contains([]string{"invoke", "mcp_servers"}, moduleName(h))
}
