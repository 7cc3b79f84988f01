package siteroutes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
)

func init() {
	caddy.RegisterModule(last{})
}

// last is a handler that Caddy provisions after the other handlers of a server, because it is in a named route, which no request
// invokes. The one of the last server tries all endpoints.
type last struct{}

// CaddyModule returns the Caddy module information.
func (last) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.agents_try", New: func() caddy.Module { return new(last) }}
}

// ServeHTTP passes the request on.
func (last) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// Provision tries the endpoints if all servers are provisioned.
func (last) Provision(ctx caddy.Context) error {
	agents, err := ctx.App("agents")
	if err != nil {
		return err
	}
	return registryOf(agents.(*app.App)).try(agents.(*app.App))
}

// tryLater adds the handler last to the servers.
func (r *registry) tryLater(ctx caddy.Context) {
	for _, ancestor := range ctx.Modules() {
		servers, ok := ancestor.(*caddyhttp.App)
		if !ok || r.servers != nil {
			continue
		}
		r.servers = servers.Servers
		for _, server := range r.servers {
			r.named = r.named || len(server.NamedRoutes) > 0
			if server.NamedRoutes == nil {
				server.NamedRoutes = make(map[string]*caddyhttp.Route)
			}
			server.NamedRoutes["agents_try"] = &caddyhttp.Route{HandlersRaw: []json.RawMessage{json.RawMessage(`{"handler":"agents_try"}`)}}
		}
	}
}

// try returns an error if every call of a toolset of an endpoint is refused, and logs warnings about endpoints of which some calls are.
func (r *registry) try(agents *app.App) error {
	for _, server := range r.servers {
		if currentRouteIndex(server.Routes) >= 0 {
			return nil // the last server does it
		}
	}
	if !r.named { // a named route can have an oagent that is not provisioned yet
		if err := agents.CheckAgents(); err != nil {
			return err
		}
	}
	warned := make(map[any]bool)
	for _, e := range r.all {
		for t, set := range e.Served() {
			calls := []*Call{e.call(t, nil)}
			if set != nil {
				calls = calls[:0]
				for _, tool := range set.Tools() {
					calls = append(calls, e.call(t, tool))
				}
			}
			if err := e.try(t, calls); err != nil {
				return err
			}
			e.warnIfBypassed(calls, warned)
		}
	}
	return nil
}

// Refusal is why a handler refuses a tool call.
type Refusal struct {
	Reason string // a sentence that begins with "it", for the call
	Write  string // what to change in the configuration
	Always bool   // of every caller, as long as the configuration stays the same
	OfTool bool   // it is normal that some tools are refused so
}

// try follows one call of each tool of a toolset.
func (e *Endpoint) try(t *app.Toolset, calls []*Call) error {
	var refused, unanswered []string
	var first *Refusal // preferably one that does not depend on the tool
	reviewed := len(calls) == 0
	for _, c := range calls {
		got := e.tryCall(c)
		reviewed = reviewed || got.reviewed
		if got.refusal != nil {
			refused = append(refused, c.Tool.Name)
			if first == nil || first.OfTool {
				first = got.refusal
			}
		}
		if !got.answered {
			unanswered = append(unanswered, c.name())
		}
	}
	log := e.Logger.With(zap.String("directive", e.Protocol), zap.String("path", e.Path), zap.String("toolset", t.Name))
	switch {
	case first == nil || first.OfTool && len(refused) < len(calls):
	case first.Always && len(refused) == len(calls):
		return fmt.Errorf("%s: every call of a tool of toolset %s is refused: %s; %s", e, t.Name, first.Reason, first.Write)
	default:
		log.Warn("tool calls are refused; "+first.Write, zap.String("reason", first.Reason), zap.Strings("tools", shown(refused)))
	}
	if len(unanswered) > 0 {
		log.Warn("no handler after the endpoint responds to these tool calls, so they will fail; "+
			"add a handler for the API, such as reverse_proxy, after it in the same block", zap.Strings("tools", shown(unanswered)))
	}
	if !reviewed && t.Inspect.Reviewers() != nil {
		log.Warn("an inspector of the toolset requires reviews, and no oagent handler after the endpoint has them, so the calls are refused: add oagent")
	}
	return nil
}

// shown returns the names of tools that a log line has.
func shown(names []string) []string { return names[:min(len(names), 10)] }

// name returns the name of the tool.
func (c *Call) name() string {
	if c.Tool == nil {
		return "all"
	}
	return c.Tool.Name
}

// trial is what becomes of an imaginary call.
type trial struct {
	refusal  *Refusal
	answered bool // a handler may respond
	reviewed bool // an oagent handler may get it
}

// tryCall follows a call. It runs no handlers.
func (e *Endpoint) tryCall(c *Call) (got trial) {
	own := e.guards(func(g *guard) bool { return c.Agent != "" && g.HasAgent(c.Agent) })
	checked := len(own) == 0
	w := way{matches: c.matches, visit: func(h caddyhttp.MiddlewareHandler, reached certainty) certainty {
		got.answered = got.answered || mayRespond(h)
		if g := guardOf(e.registry.guards, h); g != nil {
			got.reviewed = true
			checked = checked || guardOf(own, h) != nil
			if c.Tool != nil && reached == always && got.refusal == nil {
				got.refusal = g.Try(c)
			}
		}
		switch moduleName(h) {
		case "error", "file_server", "static_response":
			return maybe
		}
		return never
	}}
	w.after(e.positions)
	if got.refusal == nil && !checked {
		got.refusal = &Refusal{Reason: "it does not pass the oagent handler of agent " + c.Agent, Always: true,
			Write: "let the routes and matchers around oagent cover the tool's path, and put it before the handlers that respond"}
	}
	return got
}

// mayRespond reports whether a handler may respond to tool calls itself. Handlers of other projects may.
func mayRespond(h caddyhttp.MiddlewareHandler) bool {
	switch moduleName(h) {
	case "subroute", // its handlers follow
		"mcp", "otc", "ocp", "oagent", "agent_auth", "protected_resource", "tools_only", // respond only at paths of their own
		"agent_connections", "agent_login", "agents_console", "agents_health",
		"authentication", "copy_response_headers", "encode", "headers", "intercept", "log_append", "map", "push",
		"request_body", "rewrite", "templates", "tracing", "vars":
		return false
	}
	return !handlerAuthenticates(h, "") // forward_auth
}

// checks are the handlers that may refuse or change requests.
var checks = []string{"agent_auth", "authentication", "error", "request_body", "reverse_proxy", "rewrite", "static_response"}

// warnIfBypassed logs a warning for each handler before the endpoint that checks or changes plain requests to the operations of
// tools, but not requests to the endpoint. Such a handler does not see the tool calls, because they begin after the endpoint.
func (e *Endpoint) warnIfBypassed(calls []*Call, warned map[any]bool) {
	before := func(c *Call, least certainty) (passed []caddyhttp.MiddlewareHandler) {
		w := way{matches: c.matches, visit: func(h caddyhttp.MiddlewareHandler, reached certainty) certainty {
			if reached >= least && slices.Contains(checks, moduleName(h)) {
				passed = append(passed, h)
			}
			return never
		}}
		for _, p := range e.positions {
			for i := range p.routes[:p.index] {
				if p.isBefore(i) {
					w.routes(p.routes[i:i+1], always)
				}
			}
		}
		return passed
	}
	seen := before(e.plainRequest(http.MethodPost, e.callPath()), maybe)
	for _, c := range calls {
		if c.Tool == nil {
			continue
		}
		plain := *c
		plain.Tool = nil
		for _, h := range before(&plain, always) {
			if slices.Contains(seen, h) || warned[h] {
				continue
			}
			warned[h] = true
			e.Logger.Warn("handler does not see tool calls for its paths, because it runs before the endpoint; "+
				"to apply it to tool calls, move it after the endpoint, into a handle or route block with the handler that responds",
				zap.String("handler", moduleName(h)), zap.String("tool", c.Tool.Name), zap.String("tool_path", c.request.URL.Path),
				zap.String("directive", e.Protocol), zap.String("endpoint", e.Path))
		}
	}
}
