package siteroutes

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

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
		for _, h := range route.Handlers {
			name := moduleName(h)
			if name != "agent_auth" && name != "authentication" {
				continue
			}
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
