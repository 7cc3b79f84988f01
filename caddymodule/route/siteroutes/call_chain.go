package siteroutes

import (
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
)

// CallChain finds the handlers that the tool calls of hosted agents pass. No request of a client
// carries these calls, so that there are no next handlers to continue with.
type CallChain struct {
	at       []position
	site     app.Site
	siteName string
}

// CallChainOf returns the chain around the handler that is being provisioned. It returns nil if the
// position of the handler cannot be determined, see positionsOf.
func CallChainOf(ctx caddy.Context) *CallChain {
	at := positionsOf(ctx)
	if at == nil {
		return nil
	}
	return &CallChain{at: at, site: app.SiteOf(ctx), siteName: SiteName(ctx)}
}

// Hosts returns the hosts that the routes around the handler match, in the order of the configuration; none for
// any host.
func (c *CallChain) Hosts() (hosts []string) {
	for _, p := range c.at {
		hosts = append(hosts, hostsOf(p.route())...)
	}
	return hosts
}

// Site returns the site of the handler.
func (c *CallChain) Site() app.Site { return c.site }

// SiteName returns the name of the site of the handler, for the log of recent calls. See SiteName.
func (c *CallChain) SiteName() string { return c.siteName }

// Compile returns the handlers that a tool call passes. It begins after the last handler before the
// handler of CallChainOf that authenticates POST requests for path, or is a tool endpoint. If there
// is none, it begins with the innermost list of routes around the handler. All routes must be
// provisioned.
func (c *CallChain) Compile(path string) (caddyhttp.Handler, error) {
	inside := make([]int, len(c.at))
	for i, p := range c.at {
		inside[i] = slices.IndexFunc(p.route().Handlers, func(h caddyhttp.MiddlewareHandler) bool { return any(p.inside) == any(h) })
		if inside[i] < 0 {
			return nil, errors.New("the handler is not in the routes of its server")
		}
	}
	level, start := c.start(inside, path)
	next := caddyhttp.Handler(caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
	for i, p := range c.at[:level] {
		next = p.after(inside[i]+1, next)
	}
	return start(next), nil
}

// start returns the index of the list of routes in which the chain begins, and a function that compiles
// the chain from there to the end of that list.
func (c *CallChain) start(inside []int, path string) (level int, compile func(next caddyhttp.Handler) caddyhttp.Handler) {
	for level = len(c.at) - 1; level >= 0; level-- {
		p := c.at[level]
		handlers := p.route().Handlers
		for i := inside[level] - 1; i >= 0; i-- {
			if handlerAuthenticates(handlers[i], path) || isEndpoint(handlers[i]) {
				return level, func(next caddyhttp.Handler) caddyhttp.Handler { return p.after(i+1, next) }
			}
		}
		for i := p.index - 1; i >= 0; i-- {
			if p.isBefore(i) && (routeAuthenticates(&p.routes[i], path) || slices.ContainsFunc(p.routes[i].Handlers, isEndpoint)) {
				return level, p.routes[i+1:].Compile
			}
		}
	}
	level = len(c.at) - 1
	return level, c.at[level].routes.Compile
}

// isBefore reports whether requests that reach the position may have passed an earlier route.
func (p position) isBefore(earlier int) bool {
	route, present := &p.routes[earlier], p.route()
	alternative := route.Group != "" && route.Group == present.Group
	return !alternative && !route.Terminal && sameHosts(route, present)
}

// after returns the chain from a handler of the position's route to the end of the list of routes.
func (p position) after(handler int, next caddyhttp.Handler) caddyhttp.Handler {
	route := p.route()
	if !route.Terminal {
		rest := slices.DeleteFunc(slices.Clone(p.routes[p.index+1:]), func(r caddyhttp.Route) bool {
			return r.Group != "" && r.Group == route.Group
		})
		next = rest.Compile(next)
	}
	for _, h := range slices.Backward(route.Handlers[handler:]) {
		following := next
		next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, following) })
	}
	return next
}

// isEndpoint reports whether a handler is a tool endpoint.
func isEndpoint(h caddyhttp.MiddlewareHandler) bool {
	module, ok := h.(caddy.Module)
	return ok && slices.Contains(endpointNames, module.CaddyModule().ID.Name())
}
