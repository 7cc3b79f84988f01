package siteroutes

import (
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
)

// Guard is an oagent handler.
type Guard interface {
	// HasAgent reports whether one of its documents defines the agent.
	HasAgent(name string) bool
	// Try returns why the handler refuses a tool call, whatever its arguments are. It returns nil if it lets the call pass, or
	// if that depends on the caller.
	Try(call *Call) *Refusal
}

// guard is a Guard in the routes of its server.
type guard struct {
	Guard
	at []position
}

// AddGuard registers the oagent handler that is being provisioned.
func AddGuard(ctx caddy.Context, agents *app.App, added Guard) {
	if at := positionsOf(ctx); at != nil {
		r := registryOf(agents)
		r.guards = append(r.guards, &guard{added, at})
	}
}

// IsGuarded reports whether a tool call of the endpoint, as an agent, passes an oagent handler that defines
// the agent. It returns true if the site has no such handler, or if its routes cannot be inspected. All
// routes must be provisioned.
func (e *Endpoint) IsGuarded(call *http.Request, agent string) bool {
	guards := e.guards(func(g *guard) bool { return g.HasAgent(agent) })
	return len(guards) == 0 || e.passes(call, guards)
}

// Reaches reports whether a tool call of the endpoint passes an oagent handler for certain. All routes must be provisioned.
func (e *Endpoint) Reaches(call *http.Request) bool {
	return e.passes(call, e.guards(func(*guard) bool { return true }))
}

// guards returns the oagent handlers of the site for which matches returns true.
func (e *Endpoint) guards(matches func(*guard) bool) (guards []*guard) {
	if e.positions == nil {
		return nil
	}
	for _, g := range e.registry.guards {
		from, to := e.positions[0], g.at[0]
		sameSite := from.sameList(to) && (from.index == to.index || sameHosts(to.route(), from.route()))
		if sameSite && matches(g) {
			guards = append(guards, g)
		}
	}
	return guards
}

// passes reports whether a tool call passes one of the oagent handlers for certain, and no API before it.
func (e *Endpoint) passes(call *http.Request, guards []*guard) (passes bool) {
	w := way{matches: func(sets caddyhttp.MatcherSets, rewritten bool) certainty {
		matches, err := sets.AnyMatchWithError(call)
		switch {
		case rewritten:
			return maybe
		case err == nil && matches:
			return always
		}
		return never
	}, visit: func(h caddyhttp.MiddlewareHandler, reached certainty) certainty {
		passes = passes || reached == always && guardOf(guards, h) != nil
		return never
	}}
	w.after(e.positions)
	return passes
}

// guardOf returns the guard that is the handler, or nil.
func guardOf(guards []*guard, h caddyhttp.MiddlewareHandler) *guard {
	for _, g := range guards {
		if any(g.at[len(g.at)-1].inside) == any(h) {
			return g
		}
	}
	return nil
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
