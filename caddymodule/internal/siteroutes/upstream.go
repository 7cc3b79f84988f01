package siteroutes

import (
	"encoding/json"
	"net"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/tools"
)

// warnIfNoUpstream logs a warning if no handler after the one being provisioned responds to
// requests, since every tool call would fail then. There is no warning if this cannot be
// determined.
//
// While Caddy provisions a list of routes, later routes and the handlers of the current one
// still have their raw configuration. The first route with a raw configuration is the current
// one.
func warnIfNoUpstream(ctx caddy.Context, handler string, logger *zap.Logger) {
	if mayReachUpstream(ctx, nil) {
		return
	}
	known := false
	for _, ancestor := range ctx.Modules() {
		switch ancestor := ancestor.(type) {
		case *caddyhttp.Subroute:
		case *caddyhttp.App:
			known = true
		case caddyhttp.MiddlewareHandler:
			if caddy.GetModuleID(ancestor) != "http.handlers."+handler {
				return // routes inside other handlers cannot be inspected
			}
		}
	}
	if known {
		logger.Warn("no handler after the endpoint responds to requests, so every tool call will fail; "+
			"add a handler for the API, such as reverse_proxy, after it in the same block", zap.String("directive", handler))
	}
}

// WarnIfUnreached logs a warning if handlers after the one being provisioned respond to requests, but not for the paths of a
// toolset.
func WarnIfUnreached(ctx caddy.Context, set []*tools.Tool, logger *zap.Logger) {
	if len(set) > 0 && !mayReachUpstream(ctx, set) && mayReachUpstream(ctx, nil) {
		logger.Warn("no handler after the endpoint responds to the paths of its tools, so every tool call will fail: "+
			"let the handler of the API have them, as in: reverse_proxy localhost:9000 without a path", zap.String("tool_path", set[0].Plan.Template))
	}
}

// mayReachUpstream reports whether a handler after the current one may respond: in the current
// route, or in a later route that can be reached. If there are tools, the route must be for the path of one.
func mayReachUpstream(ctx caddy.Context, set []*tools.Tool) bool {
	return slices.ContainsFunc(routeLists(ctx), func(routes caddyhttp.RouteList) bool { return mayReachIn(routes, set) })
}

func mayReachIn(routes caddyhttp.RouteList, set []*tools.Tool) bool {
	present := true
	for i := range routes {
		raw := routes[i].HandlersRaw
		if raw == nil {
			continue
		}
		if present {
			raw = raw[min(currentHandlerIndex(raw)+1, len(raw)):]
		}
		isFor := func(t *tools.Tool) bool { return !forOtherPaths(routes[i].MatcherSets, t.Plan.Base+t.Plan.Template) }
		if set != nil && slices.ContainsFunc(raw, rawRewrites) ||
			slices.ContainsFunc(raw, mayRespond) && (set == nil || present || slices.ContainsFunc(set, isFor)) {
			return true
		}
		if present && routes[i].Terminal {
			return false
		}
		present = false
	}
	return false
}

// mayRespond reports whether a handler may respond to requests itself. Unknown handlers may.
func mayRespond(raw json.RawMessage) bool {
	var h rawHandler
	if json.Unmarshal(raw, &h) != nil {
		return true
	}
	switch h.Handler {
	case "subroute":
		for _, route := range h.Routes {
			if slices.ContainsFunc(route.Handle, mayRespond) {
				return true
			}
		}
		return false
	case "mcp", "otc", "ocp", "oagent", "agent_auth", "protected_resource", "tools_only", // respond only at paths of their own
		"authentication", "copy_response_headers", "encode", "headers", "intercept", "log_append", "map", "push",
		"request_body", "rewrite", "templates", "tracing", "vars":
		return false
	}
	return true
}

// warnAboutProxies logs a warning if a reverse_proxy after the endpoint has no upstream, or sends calls to the site itself.
// Several endpoints before one reverse_proxy get one warning.
func (e *Endpoint) warnAboutProxies(ctx caddy.Context, logger *zap.Logger) {
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	isPart := func(p position) bool { return len(p.route().MatcherSets) > 0 && len(hostsOf(p.route())) == 0 }
	isPartial := e.Prefix() != "" || slices.ContainsFunc(e.positions, isPart)
	e.anyAfter(func(_ *caddyhttp.Route, raw json.RawMessage) bool {
		return anyRaw(raw, func(h rawHandler) bool {
			if h.Handler != "reverse_proxy" || h.DynamicUpstreams != nil || h.HandleResponse != nil {
				return false
			}
			for _, upstream := range append(h.Upstreams, struct{ Dial string }{})[:max(len(h.Upstreams), 1)] {
				dial := caddy.NewReplacer().ReplaceKnown(upstream.Dial, "")
				isUnset := dial == "" || dial[0] == ':' && upstream.Dial != dial
				_, port, _ := net.SplitHostPort(dial)
				isOwn := slices.Contains(server.Listen, dial) || !IsPublicListener(dial) && slices.Contains(server.Listen, ":"+port)
				isLoop := isOwn && !isPartial && h.Rewrite == nil && h.Headers.Request.Set["Host"] == nil
				if (isUnset || isLoop) && !e.registry.warned[string(raw)] {
					e.registry.warned[string(raw)] = true
					logger.Warn("reverse_proxy sends tool calls to no address, or to this site itself: write the address of the API, as in: reverse_proxy localhost:9000; "+
						"if it is a variable, set that", zap.String("address", upstream.Dial), zap.String("directive", e.Protocol), zap.String("path", e.Path))
				}
			}
			return false
		})
	})
}
