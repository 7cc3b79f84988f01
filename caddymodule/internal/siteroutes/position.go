package siteroutes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/site"
)

// position is the position of a handler in one list of routes.
type position struct {
	routes caddyhttp.RouteList
	index  int          // of the route
	inside caddy.Module // the handler of that route that is the handler itself or contains it
}

// route returns the route at the position.
func (p position) route() *caddyhttp.Route {
	return &p.routes[p.index]
}

// insideIndex returns the index of inside among the handlers of its route, which is provisioned, or -1.
func (p position) insideIndex() int {
	return slices.IndexFunc(p.route().Handlers, func(h caddyhttp.MiddlewareHandler) bool { return any(p.inside) == any(h) })
}

// sameList reports whether both positions are in one list of routes.
func (p position) sameList(other position) bool {
	return &p.routes[0] == &other.routes[0]
}

// positionsOf returns the position of the handler that is being provisioned. The first
// position is in the server's routes. The next ones are in the routes of each subroute around
// the handler, from the outside in. The result is nil if the position cannot be determined: in
// named routes, in error routes, and in routes of handlers other than subroute.
//
// While Caddy provisions a list of routes, the current route and later ones still have their
// raw configuration.
func positionsOf(ctx caddy.Context) []position {
	lists := site.RouteLists(ctx)
	var handlers []caddy.Module
	for _, ancestor := range ctx.Modules() {
		if _, ok := ancestor.(caddyhttp.MiddlewareHandler); ok {
			handlers = append(handlers, ancestor)
		}
	}
	if len(lists) == 0 || len(handlers) != len(lists) {
		return nil
	}
	positions := make([]position, len(lists))
	for i, routes := range lists {
		index := site.CurrentRoute(routes)
		if index < 0 {
			return nil
		}
		positions[i] = position{routes, index, handlers[i]}
	}
	return positions
}

// hostsOf returns the hosts that a route matches. There are none if it matches any host.
func hostsOf(route *caddyhttp.Route) (hosts []string) {
	for _, matcher := range slices.Concat(route.MatcherSets...) {
		if names, ok := matcher.(*caddyhttp.MatchHost); ok {
			hosts = append(hosts, *names...)
		}
	}
	return hosts
}

// sameMatchers reports whether two routes match the same requests. It returns false if this
// cannot be determined.
func sameMatchers(a, b *caddyhttp.Route) bool {
	return slices.Equal(matcherTexts(a.MatcherSets), matcherTexts(b.MatcherSets))
}

// comparableMatchers are the matchers whose provisioned form keeps their whole configuration.
var comparableMatchers = []string{
	"client_ip", "expression", "header", "header_regexp", "host", "method", "path", "path_regexp", "protocol", "query", "remote_ip", "vars",
}

// matcherTexts returns a text for each set of matchers. Sets with the same text match the same
// requests. Sets with different texts may match the same requests too.
func matcherTexts(sets caddyhttp.MatcherSets) []string {
	texts := make([]string, len(sets))
	for i, set := range sets {
		parts := make([]string, len(set))
		for j, m := range set {
			parts[j] = matcherText(m)
		}
		slices.Sort(parts) // Caddy loads them in random order
		texts[i] = strings.Join(parts, "\n")
	}
	return texts
}

// matcherText returns a text that describes one matcher.
func matcherText(m any) string {
	if not, ok := m.(*caddyhttp.MatchNot); ok {
		return fmt.Sprintf("not %q", matcherTexts(not.MatcherSets))
	}
	if name := moduleName(m); slices.Contains(comparableMatchers, name) {
		if text, err := json.Marshal(m); err == nil {
			return name + " " + string(text)
		}
	}
	return fmt.Sprintf("%p", m)
}

// moduleName returns the name of a handler or a matcher in its namespace, or "".
func moduleName(value any) string {
	if module, ok := value.(caddy.Module); ok {
		return module.CaddyModule().ID.Name()
	}
	return ""
}

// SiteName returns a name of the site of the handler that is being provisioned: the name of its server, and
// its hosts or else the addresses that the server listens on. Sites of different servers may have the same host. It is
// the same on all nodes with the same configuration.
func SiteName(ctx caddy.Context) string {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return ""
	}
	if at := positionsOf(ctx); len(at) > 0 {
		for _, set := range at[0].route().MatcherSets {
			for _, m := range set {
				if hosts, ok := m.(*caddyhttp.MatchHost); ok {
					return server.Name() + " " + strings.Join(*hosts, ",")
				}
			}
		}
	}
	return server.Name() + " " + strings.Join(server.Listen, ",")
}

// EachBefore calls visit with the module name and the configuration of each handler that runs before the one that is
// being provisioned. Name is its module name.
func EachBefore(ctx caddy.Context, name string, visit func(handler string, config []byte)) {
	anyBefore(ctx, name, func(p position, before []json.RawMessage) bool {
		for _, route := range p.earlier(before) {
			visitHandlers(route, visit)
		}
		return false
	})
}

func visitHandlers(route *caddyhttp.Route, visit func(handler string, config []byte)) {
	for _, raw := range route.HandlersRaw {
		visit(handlerName(raw), raw)
	}
	for _, handler := range route.Handlers {
		if subroute, ok := handler.(*caddyhttp.Subroute); ok {
			for i := range subroute.Routes {
				visitHandlers(&subroute.Routes[i], visit)
			}
			continue
		}
		if name := moduleName(handler); name != "" {
			config, _ := json.Marshal(handler) // without it, there is nothing to look at
			visit(name, config)
		}
	}
}
