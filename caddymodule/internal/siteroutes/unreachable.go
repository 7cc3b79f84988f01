package siteroutes

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
)

// registry has the endpoints and the oagent handlers of one configuration, in the order in which they are
// provisioned.
type registry struct {
	all    []*Endpoint
	guards []*guard
	warned map[string]bool // configurations of reverse_proxy that a warning has named
}

// registryKey is the key of registry in app.Share.
type registryKey struct{}

func registryOf(agents *app.App) *registry {
	return app.Share(agents, registryKey{}, func() *registry { return &registry{warned: make(map[string]bool)} })
}

// add adds the endpoint that is being provisioned. It returns an error if another
// endpoint responds to all of its requests. If the routes do not show whether this is so, there
// is no error.
func (r *registry) add(added *Endpoint) error {
	if added.positions == nil {
		return nil
	}
	for _, earlier := range r.all {
		if earlier.Responds(added.callPath()) && r.shadows(earlier, added) {
			return fmt.Errorf("%s can never be reached: %s runs before it and handles its requests; "+
				"remove one of them, or give them different paths or matchers", added, earlier)
		}
	}
	r.all = append(r.all, added)
	return nil
}

// shadows reports whether every request to the later endpoint reaches the earlier one first,
// with the same path.
func (r *registry) shadows(earlier, later *Endpoint) bool {
	e, l := earlier.positions, later.positions
	if !e[0].sameList(l[0]) {
		return false // different servers
	}
	common := commonPositions(e, l)
	e, l = e[common:], l[common:]
	for i, at := range e {
		inGroup := i == 0 && len(l) > 0 && at.sameList(l[0]) && at.route().Group == l[0].route().Group
		if isAlternative(at) && !inGroup {
			return false
		}
		implied := func(other position) bool { return sameMatchers(at.route(), other.route()) }
		if len(at.route().MatcherSets) > 0 && !slices.ContainsFunc(l, implied) {
			return false
		}
	}
	return !r.rewrittenBetween(earlier, later, common)
}

// commonPositions returns the number of outer positions that two handlers of one server have in common.
func commonPositions(a, b []position) (common int) {
	for common < min(len(a), len(b)) && a[common].sameList(b[common]) && a[common].index == b[common].index {
		common++
	}
	return common
}

// isAlternative reports whether the route only runs if no earlier route of its group matches,
// as `handle` blocks do.
func isAlternative(p position) bool {
	group := p.route().Group
	return group != "" && slices.ContainsFunc(p.routes[:p.index], func(r caddyhttp.Route) bool { return r.Group == group })
}

// rewrittenBetween reports whether a handler between the endpoints may change the path. The
// positions of the endpoints are equal up to the index common.
func (r *registry) rewrittenBetween(earlier, later *Endpoint, common int) bool {
	if common > 0 && common == len(earlier.positions) || common == len(later.positions) || !earlier.positions[common].sameList(later.positions[common]) {
		// Both are in one route, which still has its raw handlers.
		raw := later.positions[common-1].route().HandlersRaw
		from, to := 0, len(raw)
		if common == len(earlier.positions) {
			from = r.rawIndex(earlier, raw) + 1
		}
		if common == len(later.positions) {
			to = r.rawIndex(later, raw)
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
func (r *registry) rawIndex(e *Endpoint, raw []json.RawMessage) int {
	last := e.positions[len(e.positions)-1]
	nth := 0
	for _, other := range r.all {
		at := other.positions[len(other.positions)-1]
		if other != e && at.sameList(last) && at.index == last.index && len(other.positions) == len(e.positions) {
			nth++
		}
		if other == e {
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
func handlersFrom(p position) []caddyhttp.MiddlewareHandler {
	return p.route().Handlers[max(p.insideIndex(), 0):]
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
	return anyRaw(raw, func(h rawHandler) bool { return h.Handler == "rewrite" })
}
