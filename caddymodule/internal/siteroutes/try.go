package siteroutes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

func init() {
	caddy.RegisterModule(Last{})
}

// Last tries the tool calls of the endpoints when the other handlers are provisioned. The endpoints add it to each server by
// themselves, in a named route that no request invokes, since Caddy provisions named routes last. It has no use in a configuration.
type Last struct{}

// CaddyModule returns the Caddy module information.
func (Last) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.agents_try", New: func() caddy.Module { return new(Last) }}
}

// ServeHTTP passes the request on.
func (Last) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// Provision tries the endpoints, if this is the last server.
func (Last) Provision(ctx caddy.Context) error {
	agents, err := app.Of(ctx)
	if err != nil {
		return err
	}
	return registryOf(agents).try(agents)
}

// tryLater adds Last to the servers.
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

// try returns an error if every call of an endpoint is refused, and logs warnings about endpoints of which some calls are.
func (r *registry) try(agents *app.App) error {
	for _, server := range r.servers {
		if site.CurrentRoute(server.Routes) >= 0 {
			return nil // the last server does it
		}
	}
	if !r.named { // a named route can have an oagent that is not provisioned yet
		checked, ok, err := site.Find[interface{ Check() error }](agents.Site)
		if ok && err == nil {
			err = checked.Check()
		}
		if err != nil {
			return err
		}
	}
	all := r.all
	r.all = nil // a server without routes may follow
	for _, e := range all {
		if err := e.checkReached(all); err != nil {
			return err
		}
		e.warnIfPartlyAuthenticated()
		e.reportPrefix()
		var problems []error
		toolsets := 0
		for t, set := range e.Served() {
			calls := []*Call{e.call(t, nil)}
			if set != nil {
				calls = calls[:0]
				for _, tool := range set.Tools() {
					calls = append(calls, e.call(t, tool))
				}
			}
			problem, err := e.try(t, calls)
			if err != nil {
				return err
			}
			if problem != nil {
				problems = append(problems, problem)
			}
			e.warnIfBypassed(calls, r.warned)
			toolsets++
		}
		if len(problems) == toolsets {
			return fmt.Errorf("%s %s: %w", e.Protocol, e.Path, errors.Join(problems...))
		}
		for _, problem := range problems {
			e.Logger.Warn("tool calls are refused", zap.String("directive", e.Protocol), zap.String("path", e.Path), zap.Error(problem))
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

// try follows one call of each tool of a toolset. It returns a problem if each of them is refused, and an error if no mcp_servers
// gets the calls of a toolset with mcp_server.
func (e *Endpoint) try(t *app.Toolset, calls []*Call) (problem, err error) {
	var refused, unanswered, unreviewed []string
	var first *Refusal // preferably one that does not depend on the tool
	for _, c := range calls {
		got := e.tryCall(c)
		if t.HasMCPServer && !got.served {
			return nil, fmt.Errorf("%s: toolset %s has the option mcp_server, and no mcp_servers after the endpoint answers its calls: add the directive mcp_servers to the same block", e, t.Name)
		}
		if got.refusal != nil {
			refused = append(refused, c.Tool.Name)
			if first == nil || first.OfTool {
				first = got.refusal
			}
		}
		if !got.answered {
			unanswered = append(unanswered, c.name())
		}
		if !got.reviewed {
			unreviewed = append(unreviewed, c.name())
		}
	}
	log := e.Logger.With(zap.String("directive", e.Protocol), zap.String("path", e.Path), zap.String("toolset", t.Name))
	switch {
	case first == nil || first.OfTool && len(refused) < len(calls):
	case first.Always && len(refused) == len(calls):
		problem = fmt.Errorf("every tool call of toolset %s is refused: %s; %s", t.Name, first.Reason, first.Write)
	default:
		log.Warn("tool calls are refused", zap.String("reason", first.Reason+"; "+first.Write), zap.Strings("tools", shown(refused)))
	}
	if len(unanswered) > 0 {
		log.Warn("no handler after the endpoint responds to these tool calls, so they will fail; "+
			"add a handler for the API, such as reverse_proxy, after it in the same block", zap.Strings("tools", shown(unanswered)))
	}
	if len(unreviewed) > 0 && t.Inspect.Reviewers() != nil {
		log.Warn("an inspector of the toolset requires reviews, and no oagent handler after the endpoint has them, so the calls are refused: add oagent",
			zap.Strings("tools", shown(unreviewed)))
	}
	return problem, nil
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
	served   bool // mcp_servers may respond
	reviewed bool // an oagent handler may get it
}

// tryCall follows a call. It runs no handlers.
func (e *Endpoint) tryCall(c *Call) (got trial) {
	own := e.guards(func(g *guard) bool { return c.Agent != "" && g.HasAgent(c.Agent) })
	checked := len(own) == 0
	w := way{matches: c.matches, visit: func(h caddyhttp.MiddlewareHandler, reached certainty) certainty {
		got.answered = got.answered || mayRespond(h)
		e.warnAboutProxy(h)
		if g := guardOf(e.registry.guards, h); g != nil {
			got.reviewed = true
			checked = checked || guardOf(own, h) != nil
			if c.Tool != nil && reached == always && got.refusal == nil {
				got.refusal = g.Try(c)
			}
		}
		switch moduleName(h) {
		case "mcp_servers", "invoke":
			got.served = true
		case "error", "static_response":
			checked = true
			return always
		case "file_server":
			return maybe
		}
		return never
	}}
	w.after(e.positions)
	if got.refusal == nil && !checked {
		got.refusal = &Refusal{
			Reason: "it does not pass the oagent handler of agent " + c.Agent, Always: true,
			Write: "let the routes and matchers around oagent cover the tool's path, and put it before the handlers that respond",
		}
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
