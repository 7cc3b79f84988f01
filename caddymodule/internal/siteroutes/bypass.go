package siteroutes

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// authentication and checks are the names of handlers that authenticate, and that may refuse or change requests.
var (
	authentication = []string{"agent_auth", "authentication"}
	checks         = append([]string{"error", "request_body", "reverse_proxy", "rewrite", "static_response"}, authentication...)
)

// passed returns the handlers with the names that a plain request passes before the endpoint, and the patterns of the path matchers of
// their routes.
func (e *Endpoint) passed(request *Call, least certainty, names []string) (handlers []caddyhttp.MiddlewareHandler, paths map[any][]string) {
	w := way{matches: request.matches}
	paths = make(map[any][]string)
	w.visit = func(h caddyhttp.MiddlewareHandler, reached certainty) certainty {
		if reached < least || !slices.Contains(names, moduleName(h)) {
			return never
		}
		handlers = append(handlers, h)
		for _, matcher := range slices.Concat(w.route.MatcherSets...) {
			if path, ok := matcher.(*caddyhttp.MatchPath); ok {
				paths[h] = append(paths[h], *path...)
			}
		}
		return never
	}
	w.before(e.positions, false)
	return handlers, paths
}

// warnIfBypassed logs a warning for each handler before the endpoint that checks or changes plain requests to the operations of
// tools, but not requests to the endpoint. Such a handler does not see the tool calls, because they begin after the endpoint.
func (e *Endpoint) warnIfBypassed(calls []*Call, warned map[any]bool) {
	seen, _ := e.passed(e.plainRequest(http.MethodPost, e.callPath()), maybe, checks)
	for _, c := range calls {
		if c.Tool == nil {
			continue
		}
		plain := *c
		plain.Tool = nil
		passed, paths := e.passed(&plain, always, checks)
		for _, h := range passed {
			if slices.Contains(seen, h) || warned[h] {
				continue
			}
			warned[h] = true
			e.Logger.Warn("handler does not see tool calls for its paths, because it runs before the endpoint; "+
				"to apply it to tool calls, move it after the endpoint, into a handle or route block with the handler that responds",
				zap.String("handler", moduleName(h)), zap.Strings("handler_paths", paths[h]), zap.String("tool", c.Tool.Name), zap.String("directive", e.Protocol), zap.String("endpoint", e.Path))
		}
	}
}

// warnIfPartlyAuthenticated logs a warning for each handler before the endpoint that authenticates only some of the paths at which
// the endpoint responds. For example, basic_auth /mcp leaves /mcp/ open.
func (e *Endpoint) warnIfPartlyAuthenticated() {
	open := make(map[caddyhttp.MiddlewareHandler]string)
	passed := make([][]caddyhttp.MiddlewareHandler, len(e.Below))
	for i, below := range e.Below {
		passed[i], _ = e.passed(e.plainRequest(http.MethodPost, e.Path+below), maybe, authentication)
	}
	for _, h := range slices.Concat(passed...) {
		for i, handlers := range passed {
			if _, known := open[h]; !known && !slices.Contains(handlers, h) {
				open[h] = e.Path + e.Below[i]
			}
		}
	}
	for h, path := range open {
		e.Logger.Warn("handler authenticates only some paths of the endpoint; make its matcher select all of them",
			zap.String("handler", moduleName(h)), zap.String("open", path), zap.String("directive", e.Protocol), zap.String("suggested_matcher", e.Path+"*"))
	}
}
