package siteroutes

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// warnIfBypassed logs a warning for each handler before the endpoint that checks or changes
// requests for certain paths only, if the endpoint's path is not one of them. Such a handler
// does not see tool calls for those paths, because inner requests start after the endpoint.
func warnIfBypassed(ctx caddy.Context, endpoint, path string, logger *zap.Logger) {
	for _, route := range earlierRoutes(ctx) {
		if !forOtherPaths(route.MatcherSets, path) {
			continue
		}
		for _, name := range handlerNames(route.Handlers, "agent_auth", "authentication", "reverse_proxy", "rewrite", "request_body") {
			logger.Warn("handler does not see tool calls for its paths, because it runs before the endpoint; "+
				"to apply it to tool calls, move it after the endpoint, into a handle or route block with the handler that responds",
				zap.String("handler", name), zap.Strings("handler_paths", matchedPaths(route.MatcherSets)), zap.String("directive", endpoint), zap.String("endpoint", path))
		}
	}
}

// WarnIfPartlyAuthenticated logs a warning for each handler before the endpoint that authenticates only
// some of the paths at which the endpoint responds. For example, basic_auth /mcp leaves /mcp/
// open.
func WarnIfPartlyAuthenticated(ctx caddy.Context, endpoint, path string, below []string, logger *zap.Logger) {
	for _, route := range earlierRoutes(ctx) {
		guarded, unguarded := 0, ""
		for _, rest := range append([]string{""}, below...) {
			if forOtherPaths(route.MatcherSets, path+rest) {
				unguarded = path + rest
			} else {
				guarded++
			}
		}
		if guarded == 0 || unguarded == "" {
			continue
		}
		for _, name := range handlerNames(route.Handlers, "agent_auth", "authentication") {
			logger.Warn("handler authenticates only some paths of the endpoint; make its matcher select all of them",
				zap.String("handler", name), zap.String("open", unguarded), zap.String("directive", endpoint), zap.String("suggested_matcher", path+"*"))
		}
	}
}

// earlierRoutes returns the routes before the current one, in each list of routes around the handler that is being
// provisioned. These routes are already provisioned and so have no raw configuration.
func earlierRoutes(ctx caddy.Context) (earlier []*caddyhttp.Route) {
	for _, routes := range routeLists(ctx) {
		for i := range routes {
			if routes[i].HandlersRaw != nil {
				break
			}
			earlier = append(earlier, &routes[i])
		}
	}
	return earlier
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
		if !slices.ContainsFunc(set, func(m any) bool {
			paths, ok := m.(*caddyhttp.MatchPath)
			return ok && !matchesCall(paths, path)
		}) {
			return false
		}
	}
	return len(sets) > 0
}
