package toolcall

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
)

// positionedEndpoint is an endpoint with its position in the routes of the server.
type positionedEndpoint struct {
	*Endpoint
	positions []routePosition // from the outermost list of routes to the innermost; never empty
}

// endpointRegistry are the endpoints of one configuration, in the order in which they are
// provisioned.
type endpointRegistry struct{ all []positionedEndpoint }

// endpointRegistryKey is the key of endpointRegistry in agents.Share.
type endpointRegistryKey struct{}

func endpointRegistryOf(app *agents.App) *endpointRegistry {
	return agents.Share(app, endpointRegistryKey{}, func() *endpointRegistry { return new(endpointRegistry) })
}

// addReachable adds the endpoint that is being provisioned. It returns an error if another
// endpoint responds to all of its requests. If the routes do not show whether this is so, there
// is no error.
func (p *endpointRegistry) addReachable(ctx caddy.Context, e *Endpoint) error {
	at := routePositions(ctx)
	if at == nil {
		return nil
	}
	added := positionedEndpoint{e, at}
	for _, earlier := range p.all {
		if earlier.servesPath(added.callPath()) && p.shadows(earlier, added) {
			return fmt.Errorf("%s can never be reached: %s runs before it and handles its requests; "+
				"remove one of them, or give them different paths or matchers", added, earlier)
		}
	}
	p.all = append(p.all, added)
	return nil
}

// String names the endpoint as the Caddyfile does.
func (e positionedEndpoint) String() string {
	return fmt.Sprintf("%s %s (toolset %s)", e.Protocol, e.Path, e.Parts.Name())
}

// callPath returns the path that tool calls are sent to.
func (e positionedEndpoint) callPath() string {
	switch {
	case e.Protocol == "otc":
		return e.Path + "/call"
	case e.Path == "":
		return "/"
	}
	return e.Path
}

// servesPath reports whether the endpoint responds to requests for a path.
func (e positionedEndpoint) servesPath(path string) bool {
	rest, below := e.relativePath(path)
	return below && (e.Protocol == "otc" || IsMCPPath(rest))
}

// shadows reports whether every request to the later endpoint reaches the earlier one first,
// with the same path.
func (p *endpointRegistry) shadows(earlier, later positionedEndpoint) bool {
	e, l := earlier.positions, later.positions
	if !e[0].sameList(l[0]) {
		return false // different servers
	}
	common := 0
	for common < min(len(e), len(l)) && e[common].sameList(l[common]) && e[common].index == l[common].index {
		common++
	}
	e, l = e[common:], l[common:]
	for i, at := range e {
		inGroup := i == 0 && len(l) > 0 && at.sameList(l[0]) && at.route().Group == l[0].route().Group
		if isAlternative(at) && !inGroup {
			return false
		}
		implied := func(other routePosition) bool { return sameMatchers(at.route(), other.route()) }
		if len(at.route().MatcherSets) > 0 && !slices.ContainsFunc(l, implied) {
			return false
		}
	}
	return !p.rewrittenBetween(earlier, later, common)
}

// isAlternative reports whether the route only runs if no earlier route of its group matches,
// as `handle` blocks do.
func isAlternative(p routePosition) bool {
	group := p.route().Group
	return group != "" && slices.ContainsFunc(p.routes[:p.index], func(r caddyhttp.Route) bool { return r.Group == group })
}

// rewrittenBetween reports whether a handler between the endpoints may change the path. The
// positions of the endpoints are equal up to the index common.
func (p *endpointRegistry) rewrittenBetween(earlier, later positionedEndpoint, common int) bool {
	if common > 0 && common == len(earlier.positions) || common == len(later.positions) || !earlier.positions[common].sameList(later.positions[common]) {
		// Both are in one route, which still has its raw handlers.
		raw := later.positions[common-1].route().HandlersRaw
		from, to := 0, len(raw)
		if common == len(earlier.positions) {
			from = p.rawIndex(earlier, raw) + 1
		}
		if common == len(later.positions) {
			to = p.rawIndex(later, raw)
		}
		if slices.ContainsFunc(raw[min(from, to):to], rawRewrites) {
			return true
		}
	}
	for i, at := range later.positions[common:] {
		from := 0
		if i == 0 && common < len(earlier.positions) && earlier.positions[common].sameList(at) {
			from = earlier.positions[common].index + 1
			if handlersRewrite(handlersFrom(earlier.positions[common])) {
				return true
			}
		}
		for _, route := range at.routes[from:at.index] {
			if handlersRewrite(route.Handlers) {
				return true
			}
		}
		raw := at.route().HandlersRaw
		if slices.ContainsFunc(raw[:currentHandlerIndex(raw)], rawRewrites) {
			return true
		}
	}
	return false
}

// rawIndex returns the index of an endpoint among the raw handlers of its route.
func (p *endpointRegistry) rawIndex(e positionedEndpoint, raw []json.RawMessage) int {
	last := e.positions[len(e.positions)-1]
	nth := 0
	for _, other := range p.all {
		at := other.positions[len(other.positions)-1]
		if other.Endpoint != e.Endpoint && at.sameList(last) && at.index == last.index && len(other.positions) == len(e.positions) {
			nth++
		}
		if other.Endpoint == e.Endpoint {
			break
		}
	}
	if indexes := endpointsIn(raw); nth < len(indexes) {
		return indexes[nth]
	}
	return 0
}

// handlersFrom returns the handlers of a provisioned route, beginning with the one at the
// position.
func handlersFrom(p routePosition) []caddyhttp.MiddlewareHandler {
	handlers := p.route().Handlers
	at := slices.IndexFunc(handlers, func(h caddyhttp.MiddlewareHandler) bool { return any(p.inside) == any(h) })
	return handlers[max(at, 0):]
}

// handlersRewrite reports whether one of the handlers may change the path.
func handlersRewrite(handlers []caddyhttp.MiddlewareHandler) bool {
	return slices.ContainsFunc(handlers, func(h caddyhttp.MiddlewareHandler) bool {
		if subroute, ok := h.(*caddyhttp.Subroute); ok {
			return slices.ContainsFunc(subroute.Routes, func(r caddyhttp.Route) bool { return handlersRewrite(r.Handlers) })
		}
		module, ok := h.(caddy.Module)
		return ok && module.CaddyModule().ID.Name() == "rewrite"
	})
}

// rawRewrites is handlersRewrite for a handler that is not provisioned.
func rawRewrites(raw json.RawMessage) bool {
	var h rawHandler
	if json.Unmarshal(raw, &h) != nil {
		return false
	}
	for _, route := range h.Routes {
		if slices.ContainsFunc(route.Handle, rawRewrites) {
			return true
		}
	}
	return h.Handler == "rewrite"
}
