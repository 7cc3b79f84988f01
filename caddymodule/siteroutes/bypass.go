package siteroutes

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// warnIfBypassed logs a warning for each handler before the endpoint that checks or changes
// requests for certain paths only, if the endpoint's path is not one of them. Such a handler
// does not see tool calls for those paths, because inner requests start after the endpoint.
func warnIfBypassed(ctx caddy.Context, endpoint, path string, logger *zap.Logger) {
	var before []bypassedHandler
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		before = append(before, bypassedHandlers(server.Routes, path)...)
	}
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok {
			before = append(before, bypassedHandlers(subroute.Routes, path)...)
		}
	}
	for _, handler := range before {
		logger.Warn("handler does not see tool calls for its paths, because it runs before the endpoint; "+
			"to apply it to tool calls, move it after the endpoint, into a handle or route block with the handler that responds",
			zap.String("handler", handler.name), zap.Strings("handler_paths", handler.paths), zap.String("directive", endpoint), zap.String("endpoint", path))
	}
}

// WarnIfPartlyAuthenticated logs a warning for each handler before the endpoint that authenticates only
// some of the paths at which the endpoint responds. For example, basic_auth /mcp leaves /mcp/
// open.
func WarnIfPartlyAuthenticated(ctx caddy.Context, endpoint, path string, below []string, logger *zap.Logger) {
	warn := func(routes caddyhttp.RouteList) {
		for _, open := range partlyAuthenticated(routes, path, below) {
			logger.Warn("handler authenticates only some paths of the endpoint; make its matcher select all of them",
				zap.String("handler", open.handler), zap.String("open", open.path), zap.String("directive", endpoint), zap.String("suggested_matcher", path+"*"))
		}
	}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		warn(server.Routes)
	}
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok {
			warn(subroute.Routes)
		}
	}
}

// An unauthenticatedPath is a path that a handler does not authenticate.
type unauthenticatedPath struct{ handler, path string }

// partlyAuthenticated returns the handlers that WarnIfPartlyAuthenticated warns about.
func partlyAuthenticated(routes caddyhttp.RouteList, path string, below []string) (open []unauthenticatedPath) {
	for i := range routes {
		if routes[i].HandlersRaw != nil {
			break
		}
		guarded, unguarded := 0, ""
		for _, rest := range append([]string{""}, below...) {
			if forOtherPaths(routes[i].MatcherSets, path+rest) {
				unguarded = path + rest
			} else {
				guarded++
			}
		}
		if guarded == 0 || unguarded == "" {
			continue
		}
		for _, name := range handlerNames(routes[i].Handlers, "agent_auth", "authentication") {
			open = append(open, unauthenticatedPath{name, unguarded})
		}
	}
	return open
}

// handlerNames returns the names of those handlers that are in wanted.
func handlerNames(handlers []caddyhttp.MiddlewareHandler, wanted ...string) (names []string) {
	for _, handler := range handlers {
		if module, ok := handler.(caddy.Module); ok {
			if name := module.CaddyModule().ID.Name(); slices.Contains(wanted, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// bypassedHandler is a handler that does not see tool calls, with the paths that it handles.
type bypassedHandler struct {
	name  string
	paths []string
}

// bypassedHandlers returns the handlers that warnIfBypassed warns about. They are in routes before the
// current one. Those routes are already provisioned and so have no raw configuration.
func bypassedHandlers(routes caddyhttp.RouteList, path string) (found []bypassedHandler) {
	for i := range routes {
		if routes[i].HandlersRaw != nil {
			break
		}
		if !forOtherPaths(routes[i].MatcherSets, path) {
			continue
		}
		for _, name := range handlerNames(routes[i].Handlers, "agent_auth", "authentication", "reverse_proxy", "rewrite", "request_body") {
			found = append(found, bypassedHandler{name, matchedPaths(routes[i].MatcherSets)})
		}
	}
	return found
}

// matchedPaths returns the patterns of the path matchers.
func matchedPaths(sets caddyhttp.MatcherSets) (paths []string) {
	for _, set := range sets {
		for _, matcher := range set {
			if path, ok := matcher.(*caddyhttp.MatchPath); ok {
				paths = append(paths, *path...)
			}
		}
	}
	return paths
}

// forOtherPaths reports whether every set has a path matcher that does not match path.
func forOtherPaths(sets caddyhttp.MatcherSets, path string) bool {
	for _, set := range sets {
		if !excludesPath(set, path) {
			return false
		}
	}
	return len(sets) > 0
}

// excludesPath reports whether the set has a path matcher that does not match path.
func excludesPath(set caddyhttp.MatcherSet, path string) bool {
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}}).WithContext(ctx)
	for _, matcher := range set {
		if paths, ok := matcher.(*caddyhttp.MatchPath); ok {
			if matches, err := paths.MatchWithError(r); err == nil && !matches {
				return true
			}
		}
	}
	return false
}
