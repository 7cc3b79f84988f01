package siteroutes

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

// registry has the endpoints and the oagent handlers of one configuration, in the order in which they are
// provisioned.
type registry struct {
	all     []*Endpoint
	guards  []*guard
	servers map[string]*caddyhttp.Server // nil until tryLater
	named   bool                         // there are named routes
	warned  map[any]bool                 // handlers that a warning has named
}

// registryKey is the key of registry in site.Share.
type registryKey struct{}

func registryOf(agents *app.App) *registry {
	return site.Share(agents.Site, registryKey{}, func() *registry { return &registry{warned: make(map[any]bool)} })
}

// checkReached returns an error if another endpoint responds to all requests that would reach the endpoint.
func (e *Endpoint) checkReached(all []*Endpoint) (err error) {
	w := way{matches: func(sets caddyhttp.MatcherSets, _ bool) certainty {
		texts := matcherTexts(sets)
		if slices.ContainsFunc(e.positions, func(p position) bool { return slices.Equal(texts, matcherTexts(p.route().MatcherSets)) }) {
			return always
		}
		return maybe
	}, visit: func(h caddyhttp.MiddlewareHandler, reached certainty) certainty {
		if handlersRewrite([]caddyhttp.MiddlewareHandler{h}) {
			err = nil // the endpoints before it get another path
		}
		for _, earlier := range all {
			if reached == always && any(earlier.handler()) == any(h) && earlier.Responds(e.callPath()) {
				err = fmt.Errorf("%s can never be reached: %s runs before it and handles its requests; "+
					"remove one of them, or give them different paths or matchers", e, earlier)
			}
		}
		return never
	}}
	w.before(e.positions, true)
	return err
}

// handler returns the handler of the endpoint.
func (e *Endpoint) handler() caddy.Module { return e.positions[len(e.positions)-1].inside }

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
		return moduleName(h) == "rewrite"
	})
}
