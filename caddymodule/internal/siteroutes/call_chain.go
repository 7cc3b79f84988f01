package siteroutes

import (
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/site"
)

// CallChain finds the handlers that the tool calls of hosted agents pass. No request of a client
// carries these calls, so that there are no next handlers to continue with.
type CallChain struct {
	at       []position
	site     site.Site
	siteName string
}

// CallChainOf returns the chain around the handler that is being provisioned. It returns nil if the
// position of the handler cannot be determined, see positionsOf.
func CallChainOf(ctx caddy.Context) *CallChain {
	at := positionsOf(ctx)
	if at == nil {
		return nil
	}
	return &CallChain{at: at, site: site.At(ctx), siteName: SiteName(ctx)}
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
func (c *CallChain) Site() site.Site { return c.site }

// SiteName returns the name of the site of the handler, for the log of recent calls. See SiteName.
func (c *CallChain) SiteName() string { return c.siteName }

// Compile returns the handlers that tool calls pass, and those that requests for documents of the site pass.
// Both begin after the last handler before the handler of CallChainOf that authenticates POST requests for
// path, or is a tool endpoint. If there is none, they begin with the innermost list of routes around the
// handler. All routes must be provisioned.
//
// Requests for documents pass the routes that match them. Tool calls always reach the handler: the
// matchers of the routes around it do not apply to them, and no handler before it sends them to an API.
func (c *CallChain) Compile(path string) (calls, documents caddyhttp.Handler, err error) {
	inside := make([]int, len(c.at))
	for i, p := range c.at {
		if inside[i] = p.insideIndex(); inside[i] < 0 {
			return nil, nil, errors.New("the handler is not in the routes of its server")
		}
	}
	level, route, handler := c.start(inside, path)
	calls = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	for i, p := range c.at {
		if i == level {
			documents = p.routes[route:].Compile(calls)
			if handler > 0 {
				documents = p.after(handler, calls)
			}
		}
		calls = p.after(inside[i]+1, calls)
	}
	innermost := len(c.at) - 1
	calls = withNext(c.at[innermost].route().Handlers[inside[innermost]], calls)
	for i := innermost; i >= level; i-- {
		p := c.at[i]
		first, from := 0, 0
		if i == level {
			first, from = route, handler
		}
		for _, h := range slices.Backward(p.route().Handlers[from:inside[i]]) {
			calls = withNext(withoutAPI(h), calls)
		}
		for j := p.index - 1; j >= first; j-- {
			calls = beforeGuard(p.routes[j], calls)
		}
	}
	return calls, documents, nil
}

// start returns where the chain begins: the level of the list of routes, the route in it, and the handler in that
// route.
func (c *CallChain) start(inside []int, path string) (level, route, handler int) {
	for level = len(c.at) - 1; level >= 0; level-- {
		p := c.at[level]
		handlers := p.route().Handlers
		for i := inside[level] - 1; i >= 0; i-- {
			if handlerAuthenticates(handlers[i], path) || isEndpoint(handlers[i]) {
				return level, p.index, i + 1
			}
		}
		for i := p.index - 1; i >= 0; i-- {
			if p.isBefore(i) && (routeAuthenticates(&p.routes[i], path) || slices.ContainsFunc(p.routes[i].Handlers, isEndpoint)) {
				return level, i + 1, 0
			}
		}
	}
	return len(c.at) - 1, 0, 0
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
		next = withNext(h, next)
	}
	return next
}

// withNext returns a handler that runs h before next.
func withNext(h caddyhttp.MiddlewareHandler, next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) })
}

// isEndpoint reports whether a handler is a tool endpoint.
func isEndpoint(h caddyhttp.MiddlewareHandler) bool {
	return slices.Contains(endpointNames, moduleName(h))
}
