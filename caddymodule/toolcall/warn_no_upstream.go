package toolcall

import (
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// warnIfNothingBehind logs a warning if it can be seen that no handler behind the
// one being provisioned answers requests, so that every tool call would fail.
//
// While a list of routes is provisioned, those that are still to come, and the
// handlers of the present one, still have their raw configuration: the first
// route that has it is the present one.
func warnIfNothingBehind(ctx caddy.Context, handler string, logger *zap.Logger) {
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && answersBehind(server.Routes) {
		return
	}
	known := false
	for _, ancestor := range ctx.Modules() {
		switch ancestor := ancestor.(type) {
		case *caddyhttp.Subroute:
			if answersBehind(ancestor.Routes) {
				return
			}
		case *caddyhttp.App:
			known = true
		case caddyhttp.MiddlewareHandler:
			if caddy.GetModuleID(ancestor) != "http.handlers."+handler {
				return // what that handler puts behind its own routes cannot be seen
			}
		}
	}
	if known {
		logger.Warn("nothing behind " + handler + " answers requests, so every tool call will fail: " +
			"put a handler for the API, such as reverse_proxy, behind it in the same block")
	}
}

// answersBehind reports whether a handler behind the present one may answer: in
// the present route, or in one after it that is reached.
func answersBehind(routes caddyhttp.RouteList) bool {
	present := true
	for i := range routes {
		raw := routes[i].HandlersRaw
		if raw == nil {
			continue
		}
		if present {
			raw = raw[min(presentHandler(raw)+1, len(raw)):]
		}
		if slices.ContainsFunc(raw, mayAnswer) {
			return true
		}
		if present && routes[i].Terminal {
			return false
		}
		present = false
	}
	return false
}

// presentHandler returns the position of the first handler of the present route
// that is, or holds, a tool endpoint. Which one is being provisioned cannot be
// told from outside, so a second one in the same route may miss its warning.
func presentHandler(raw []json.RawMessage) int {
	for i, handler := range raw {
		if holdsEndpoint(handler) {
			return i
		}
	}
	return 0
}

// rawHandler is as much of a handler's configuration as is looked at here.
type rawHandler struct {
	Handler string `json:"handler"`
	Routes  []struct {
		Handle []json.RawMessage `json:"handle"`
	} `json:"routes"`
}

func holdsEndpoint(raw json.RawMessage) bool {
	var h rawHandler
	if json.Unmarshal(raw, &h) != nil {
		return false
	}
	for _, route := range h.Routes {
		if slices.ContainsFunc(route.Handle, holdsEndpoint) {
			return true
		}
	}
	return h.Handler == "mcp" || h.Handler == "otc"
}

// mayAnswer reports whether a handler may answer requests itself. Handlers that
// are not known here may.
func mayAnswer(raw json.RawMessage) bool {
	var h rawHandler
	if json.Unmarshal(raw, &h) != nil {
		return true
	}
	switch h.Handler {
	case "subroute":
		for _, route := range h.Routes {
			if slices.ContainsFunc(route.Handle, mayAnswer) {
				return true
			}
		}
		return false
	case "mcp", "otc", "ocp", "oagent", "agent_auth", "protected_resource", "tools_only", // answer for paths of their own only
		"authentication", "copy_response_headers", "encode", "headers", "intercept", "log_append", "map", "push",
		"request_body", "rewrite", "templates", "tracing", "vars":
		return false
	}
	return true
}
