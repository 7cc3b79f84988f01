package siteroutes

import (
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// warnIfNoUpstream logs a warning if no handler after the one being provisioned responds to
// requests, since every tool call would fail then. There is no warning if this cannot be
// determined.
//
// While Caddy provisions a list of routes, later routes and the handlers of the current one
// still have their raw configuration. The first route with a raw configuration is the current
// one.
func warnIfNoUpstream(ctx caddy.Context, handler string, logger *zap.Logger) {
	if slices.ContainsFunc(routeLists(ctx), mayReachUpstream) {
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

// mayReachUpstream reports whether a handler after the current one may respond: in the current
// route, or in a later route that can be reached.
func mayReachUpstream(routes caddyhttp.RouteList) bool {
	present := true
	for i := range routes {
		raw := routes[i].HandlersRaw
		if raw == nil {
			continue
		}
		if present {
			raw = raw[min(currentHandlerIndex(raw)+1, len(raw)):]
		}
		if slices.ContainsFunc(raw, mayRespond) {
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
