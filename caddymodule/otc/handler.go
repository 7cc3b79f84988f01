package otc

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/idempotency"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/otcadapter"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler serves the operations of OpenAPI documents as the tools of an Open Tool Calling (OTC)
// server. All paths below one path of the site belong to it:
//
//   - GET /health, GET /tools and POST /call
//   - POST /tools/call, the form of the call in OXP, the later name of OTC
//
// Each tool call becomes an ordinary request to the handlers after this one. They see the API's
// own method, path and body, and the headers that identify the caller. Requests for other paths
// are passed on unchanged.
//
// Tool calls do not run the site's error routes (handle_errors). The error of a handler becomes
// the result of the call.
//
// If an operation has security, its tool needs credentials, which OTC calls requirements. They
// come with the call (context.authorization and context.secrets, by the name of the document's
// security scheme) or in the caller's own headers. If the gateway adds the credentials
// (credentials of the toolset), requirements are neither listed nor checked.
//
// Placeholders, in the client's request and in the requests of its tool calls:
//
// Placeholder | Description
// ------------|------------
// `{http.tool.name}` | The tool that is called
// `{http.tool.toolset}` | The toolset
// `{http.tool.protocol}` | `otc`
// `{http.tool.outcome}` | The outcome of the call: `ok`, or why it failed; empty before its end, and in the requests of tool calls
// `{http.otc.call_id}` | The call's id, set by the client or generated here
// `{http.otc.trace_id}` | The client's trace id
// `{http.otc.user_id_unverified}` | The user that the client claims to call for. It is not verified: do not use it as an identity
//
// The request's access log entry has the fields `tool`, `toolset`, `protocol` and `outcome`.
type Handler struct {
	// The path of the endpoints. Default: /otc.
	Path string `json:"path,omitempty"`

	// The toolset to serve: the name of a toolset of the agents app, or the address of an
	// OpenAPI document as in `openapi` of a toolset. Default: the only toolset of the agents
	// app.
	Toolset string `json:"toolset,omitempty"`

	// Further toolsets to serve, given in the same way. Documents with the same title are
	// versions of one toolkit; if toolkit is set, all documents are. Otherwise each document is
	// a toolkit of its own. The toolkit of an MCP server has the name of its toolset. Default: none.
	Toolsets []string `json:"toolsets,omitempty"`

	// The options of the toolset, if it is not one of the agents app. Default: none.
	Document *app.ToolsetConfig `json:"document,omitempty"`

	// The ids of tools, and what responses contain.
	otcadapter.Options

	// How calls with a call_id from the client are recorded, so that each of them runs once.
	// Default: recorded, with the defaults of its options.
	Idempotency *idempotency.Config `json:"idempotency,omitempty"`

	// A path of the API that responds to GET with 2xx or 3xx while the API is healthy. If set,
	// the server's health is that of the API. The path is requested through the handlers after
	// this one, without the caller's credentials, at most once in five seconds. Default: the
	// API is not checked.
	HealthUpstream string `json:"health_upstream,omitempty"`

	// Whether to disable requirements: they are neither listed nor checked. Use it for an API
	// whose credentials are added by a handler after this one, such as header_up of
	// reverse_proxy. Credentials that come with a call are still sent. Default: false.
	NoRequirements bool `json:"no_requirements,omitempty"`

	// How long a call waits for the work that the API announces with 202 and a Location. The Location
	// is polled with GET, through the handlers after this one. Default: a 202 is the response.
	Poll caddy.Duration `json:"poll,omitempty"`

	// The agent whose tools are served. An oagent handler after this one must define it.
	// Default: all tools are served.
	Agent string `json:"agent,omitempty"`

	// The names of hosted agents that are served as further tools: agents that an oagent handler of the site
	// runs with its model. An empty list means all of them. Default: agents are not served as tools.
	ExposeAgents *[]string `json:"expose_agents,omitempty"`

	// The largest response that a model gets at once, in tokens of about 4 bytes, as in a toolset.
	// Tools with a limit of their own keep it. A negative value ("off" in the Caddyfile) means no
	// limit. Default: as the toolset has it, else 20000.
	MaxTokens int `json:"max_tokens,omitempty"`

	// Suppresses the warning at start about an endpoint that has no authentication and whose
	// tool calls carry the gateway's credentials. It does not change who can call the endpoint.
	// Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`

	endpoint *route.Endpoint
	server   *otcadapter.Server
	toolkits []otcadapter.Toolkit // of the parts of the endpoint, without their tools
}

// agentToolkit is the first part of the ids of agents as tools.
const agentToolkit = "Agents"

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.otc",
		New: func() caddy.Module { return new(Handler) },
	}
}

// ToolEndpoint returns the endpoint whose tools the handler serves.
func (o *Handler) ToolEndpoint() *route.Endpoint { return o.endpoint }

// Provision resolves the toolsets and creates the server.
func (o *Handler) Provision(ctx caddy.Context) (err error) {
	o.Path = cmp.Or(o.Path, "/otc")
	if o.endpoint, err = route.NewEndpoint(ctx, "otc", o.Path, o.Toolset, app.WithResponseSchemas(o.Document)); err != nil {
		return err
	}
	if err := o.endpoint.LimitToAgent(o.Agent); err != nil {
		return err
	}
	if err := o.endpoint.AddToolsets(ctx, o.Toolsets, app.WithResponseSchemas(nil)); err != nil {
		return err
	}
	if err := o.endpoint.ExposeAgents(ctx, o.ExposeAgents); err != nil {
		return err
	}
	o.endpoint.Polling = time.Duration(o.Poll)
	if err := o.endpoint.Parts.SetMaxTokens(o.MaxTokens); err != nil {
		return err
	}
	if !o.AllowAnonymous {
		o.endpoint.Routes.WarnIfOpen(ctx, o.NoRequirements || o.endpoint.Parts.UseCredentials(), o.endpoint.Logger)
	}
	recorded, err := o.Idempotency.Provision(o.endpoint)
	if err != nil {
		return err
	}
	repl, logger, options := caddy.NewReplacer(), o.endpoint.Logger, o.Options
	options.AuthorizationURLs = make(map[string]string, len(o.AuthorizationURLs))
	for id, url := range o.AuthorizationURLs {
		options.AuthorizationURLs[id] = repl.ReplaceAll(url, "")
	}
	options.RetryAfter, options.Idempotency = o.endpoint.Parts.RetryAfter, recorded
	options.Warn = func(message string) { logger.Warn(message, zap.String("path", o.Path)) }
	o.server = otcadapter.New(options)
	for _, part := range o.endpoint.Parts.All {
		toolkit := otcadapter.Toolkit{InjectsCredentials: o.NoRequirements || part.UsesCredentials()}
		switch {
		case part.IsAgents():
			toolkit.Name = agentToolkit
		case part.Toolset.HasMCPServer && len(o.endpoint.Parts.All) > 1: // its title could become that of another toolset
			toolkit.Name = part.Toolset.Key.ShownName()
		}
		o.toolkits = append(o.toolkits, toolkit)
	}
	o.endpoint.Message = func(toolset *tools.Toolset, tool string, arguments []byte) (path string, body []byte) {
		toolkit := otcadapter.Toolkit{Tools: toolset}
		if served, ok := toolset.Tool(tool); ok {
			if part, own := toolset.Original(served); part >= 0 {
				toolkit.Tools, toolkit.Name, tool = toolset.PartOf(served), o.toolkits[part].Name, own.Name
			}
		}
		return otcadapter.CallMessage(options, toolkit, tool, arguments)
	}
	if !o.healthNeedsNext() {
		o.endpoint.App.Site.AddPublicHealth(site.At(ctx), o.endpoint.Path+otcadapter.HealthEndpoint, o.servePublicHealth)
	}
	return nil
}

// Validate returns an error for invalid options.
func (o *Handler) Validate() error {
	if o.endpoint.Path == "" {
		return errors.New("path / would include the whole site; give the endpoints a path such as /otc")
	}
	if o.Version != "" {
		if err := otcadapter.CheckVersion(o.Version); err != nil {
			return err
		}
	}
	if o.Document != nil && o.Document.IdempotencyArgument {
		return errors.New("idempotency_argument has no effect: it is for mcp endpoints, and clients of otc have the call_id")
	}
	if o.Version != "" && len(o.Toolsets) > 0 {
		return fmt.Errorf("version %s requires a single toolset, and there are %d; each has the version of its document", o.Version, len(o.Toolsets)+1)
	}
	return errors.Join(directive.NotNegative("poll", int64(o.Poll)), directive.NotNegative("max_body", o.MaxBody),
		o.checkHealthUpstream(), o.checkAuthorizationURLs(), o.Idempotency.Validate())
}

// checkHealthUpstream returns an error if health_upstream is not a valid path.
func (o *Handler) checkHealthUpstream() error {
	switch path := o.HealthUpstream; {
	case path == "":
		return nil
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("health_upstream %q must begin with a slash; it is a path of the API", path)
	case path == o.endpoint.Path || strings.HasPrefix(path, o.endpoint.Path+"/"):
		return errors.New("health_upstream is below the endpoint itself; give a path of the API")
	}
	return nil
}

// checkAuthorizationURLs returns an error for a URL whose security scheme is in none of the
// documents. It only checks if all documents are files, which have been read at this point. For
// others the server reports the error when they are loaded.
func (o *Handler) checkAuthorizationURLs() error {
	sets := make([]*tools.Toolset, 0, len(o.endpoint.Parts.All))
	for _, part := range o.endpoint.Parts.All {
		set := part.Toolset.Loader.Toolset()
		if part.IsAgents() {
			continue
		}
		if part.Toolset.Key.Kind != app.SourceFile || set == nil {
			return nil
		}
		sets = append(sets, set)
	}
	return otcadapter.CheckAuthorizationURLs(o.AuthorizationURLs, sets...)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
