package siteroutes

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
)

// guard is an oagent handler in the routes of its server.
type guard struct {
	at       []position
	hasAgent func(name string) bool
}

// AddGuard registers the oagent handler that is being provisioned. hasAgent reports whether one of its
// documents defines an agent.
func AddGuard(ctx caddy.Context, agents *app.App, hasAgent func(name string) bool) {
	if at := positionsOf(ctx); at != nil {
		r := registryOf(agents)
		r.guards = append(r.guards, &guard{at, hasAgent})
	}
}

// IsGuarded reports whether a tool call of the endpoint, as an agent, passes an oagent handler that defines
// the agent. It returns true if the site has no such handler, or if its routes cannot be inspected. All
// routes must be provisioned.
func (e *Endpoint) IsGuarded(call *http.Request, agent string) bool {
	if e.positions == nil {
		return true
	}
	passes, found := e.passesGuard(call, func(g *guard) bool { return g.hasAgent(agent) })
	return passes || !found
}

// Reaches reports whether a tool call of the endpoint passes an oagent handler for certain. All routes must be provisioned.
func (e *Endpoint) Reaches(call *http.Request) bool {
	if e.positions == nil {
		return false
	}
	passes, _ := e.passesGuard(call, func(*guard) bool { return true })
	return passes
}

// WarnIfUnguarded logs a warning if no oagent handler is after the endpoint, so that its tool calls cannot have reviews.
func (e *Endpoint) WarnIfUnguarded(logger *zap.Logger) {
	guards := func(h rawHandler) bool { return h.Handler == "oagent" }
	if e.positions == nil || !e.anyAfter(func(_ *caddyhttp.Route, raw json.RawMessage) bool { return anyRaw(raw, guards) }) {
		logger.Warn("an inspector of the toolset requires reviews, and no oagent handler after the endpoint has them, so the calls are refused: add oagent",
			zap.String("directive", e.Protocol), zap.String("path", e.Path))
	}
}

// passesGuard reports whether a tool call passes one of the oagent handlers of the site for which matches returns true, and
// whether there is one.
func (e *Endpoint) passesGuard(call *http.Request, matches func(*guard) bool) (passes, found bool) {
	for _, g := range e.registry.guards {
		from, to := e.positions[0], g.at[0]
		sameSite := from.sameList(to) && (from.index == to.index || sameHosts(to.route(), from.route()))
		if !sameSite || !matches(g) {
			continue
		}
		if (&way{call: call}).leads(e.positions, g.at) {
			return true, true
		}
		found = true
	}
	return false, found
}

// way follows a request through the routes from an endpoint to an oagent handler.
type way struct {
	call      *http.Request
	rewritten bool // a handler may have changed the path or the method, so that matchers have an unknown result
}

// leads reports whether the request passes the handler at the positions to, and no API before it. It begins after
// the handler at the positions from.
func (w *way) leads(from, to []position) bool {
	fork := commonPositions(from, to)
	sameRoute := fork == min(len(from), len(to)) || !from[fork].sameList(to[fork])
	if sameRoute {
		fork--
	}
	for _, p := range slices.Backward(from[fork+1:]) {
		if p.route().Terminal || !w.pass(handlersFrom(p)[1:]) || !w.passRoutes(p.routes[p.index+1:], "") {
			return false
		}
	}
	start, end := from[fork], to[fork]
	switch {
	case sameRoute:
		first, last := start.insideIndex()+1, end.insideIndex()
		if first > last || !w.pass(end.route().Handlers[first:last]) {
			return false
		}
	case start.index > end.index || start.route().Terminal || start.route().Group != "" && start.route().Group == end.route().Group,
		!w.pass(handlersFrom(start)[1:]), !w.reaches(end, start.index+1):
		return false
	}
	return !slices.ContainsFunc(to[fork+1:], func(p position) bool { return !w.reaches(p, 0) })
}

// reaches reports whether the request passes the routes from first on to the handler at the position.
func (w *way) reaches(p position, first int) bool {
	present := p.route()
	return w.passRoutes(p.routes[first:p.index], present.Group) && (len(present.MatcherSets) == 0 || !w.rewritten && w.mayMatch(present)) &&
		w.pass(present.Handlers[:max(p.insideIndex(), 0)])
}

// passRoutes reports whether the request passes the routes. A route of the group would end its way, as `handle` does.
func (w *way) passRoutes(routes []caddyhttp.Route, group string) bool {
	return !slices.ContainsFunc(routes, func(route caddyhttp.Route) bool {
		return w.mayMatch(&route) && (route.Terminal || route.Group != "" && route.Group == group || !w.pass(route.Handlers))
	})
}

// mayMatch reports whether the request may match a route.
func (w *way) mayMatch(route *caddyhttp.Route) bool {
	matches, err := route.MatcherSets.AnyMatchWithError(w.call)
	return w.rewritten || err == nil && matches
}

// pass reports whether none of the handlers sends requests to an API.
func (w *way) pass(handlers []caddyhttp.MiddlewareHandler) bool {
	w.rewritten = w.rewritten || handlersRewrite(handlers)
	return !slices.ContainsFunc(handlers, callsAPI)
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
	return len(handlerNames([]caddyhttp.MiddlewareHandler{h}, "invoke", "mcp_servers")) > 0
}

// refusal refuses the tool calls that a handler before oagent would send to an API.
type refusal struct{}

func (refusal) ServeHTTP(http.ResponseWriter, *http.Request, caddyhttp.Handler) error {
	return caddyhttp.Error(http.StatusInternalServerError, errors.New("a handler before oagent sends the call to an API, so that its agent would not be checked: move oagent before that handler"))
}

// withoutAPI returns the handler that replaces h before oagent for the tool calls of hosted agents.
func withoutAPI(h caddyhttp.MiddlewareHandler) caddyhttp.MiddlewareHandler {
	if callsAPI(h) {
		return refusal{}
	}
	return h
}

// beforeGuard returns the route followed by next, for the tool calls of hosted agents. It refuses calls that it
// would send to an API.
func beforeGuard(route caddyhttp.Route, next caddyhttp.Handler) caddyhttp.Handler {
	compiled := caddyhttp.RouteList{route}.Compile(next)
	if !slices.ContainsFunc(route.Handlers, callsAPI) {
		return compiled
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		matches, err := route.MatcherSets.AnyMatchWithError(r)
		if err != nil {
			return err
		}
		if matches {
			return refusal{}.ServeHTTP(w, r, nil)
		}
		return next.ServeHTTP(w, r)
	})
}
