package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/idempotency"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler serves the operations of one or more OpenAPI documents as the tools of a Model Context Protocol
// server, at one path of the site. Each tool call becomes an ordinary request to the handlers
// after this one. They see the API's own method, path and body, and the headers that identify
// the caller. Requests for other paths are passed on unchanged.
//
// Tool calls do not run the site's error routes (handle_errors). The error of a handler becomes
// the result of the call.
//
// Placeholders, in the client's request and in the requests of its tool calls:
//
// Placeholder | Description
// ------------|------------
// `{http.tool.name}` | The tool that is called, by its name in its toolset; if there are several, the latest
// `{http.tool.toolset}` | The toolset of the tool; before a call, all toolsets of the endpoint, separated by commas
// `{http.tool.protocol}` | `mcp`
// `{http.tool.outcome}` | The outcome of the call: `ok`, or why it failed; empty before its end, and in the requests of tool calls
//
// In requests that are neither for the endpoint nor tool calls, the first three are empty.
//
// The request's access log entry has the fields `tool`, `toolset`, `protocol` and `outcome`.
// For a request with several calls (a batch or a stream) it also has `tool_call_count` and
// `tool_calls`.
type Handler struct {
	// The path of the endpoint, with or without a trailing slash. Default: /mcp.
	Path string `json:"path,omitempty"`

	// The toolset to serve: the name of a toolset of the agents app, or the address of an
	// OpenAPI document as in `openapi` of a toolset. Default: the only toolset of the agents
	// app.
	Toolset string `json:"toolset,omitempty"`

	// Further toolsets to serve, given in the same way. Of several tools with a name, one keeps it: that of a
	// document rather than that of an MCP server, and then the first. The name of its toolset and an underscore precede
	// the others. Default: none.
	Toolsets []string `json:"toolsets,omitempty"`

	// The options of the toolset, if it is not one of the agents app and the only one. Default: none.
	Document *app.ToolsetConfig `json:"document,omitempty"`

	// Whether the server lists tools that search for tools, instead of all tools: "auto", "on" or
	// "off", as in a toolset. Default: as the toolset has it, else auto.
	Search app.SearchMode `json:"search,omitempty"`

	// The names of tools that the server lists in addition to the tools that search. A name
	// without a tool is a configuration error; if the document is loaded later, it is a warning.
	// Default: as the toolset has it.
	Pins []string `json:"pins,omitempty"`

	// The identity of the server, its limits, and its lists.
	mcpadapter.Options

	// The secret that signs session ids, and seals the state that clients and tasks keep for the
	// server. It has at least 16 bytes. Placeholders such as {env.MCP_SECRET} are replaced. Nodes
	// behind one load balancer must accept each other's sessions, so they need the same secret,
	// path and toolset. Default: random keys. If nodes share the store of the agents app, the keys
	// that sign are in the store. All others are in Caddy's storage.
	Secret string `json:"secret,omitempty"`

	// The secret before the current one. What it signed or sealed stays valid. An empty value, such as
	// that of a placeholder, means none. Default: none.
	PreviousSecret string `json:"previous_secret,omitempty"`

	// How long a session is valid. Default: 24h.
	SessionTTL caddy.Duration `json:"session_ttl,omitempty"`

	// How often a keep-alive is sent on an idle stream, and while a call takes longer than that: its response then becomes a
	// stream, if the client accepts one. -1 ("off" in the Caddyfile) disables keep-alives. Default: 25s.
	KeepAlive caddy.Duration `json:"keep_alive,omitempty"`

	// How long a client, and often its user, may take to respond to a request of the server.
	// Default: 5m.
	AskTimeout caddy.Duration `json:"ask_timeout,omitempty"`

	// How long a call runs before it becomes a task, if the client takes tasks. With this option, calls
	// of all clients also wait for the work that an API announces with 202 and a Location. Default: no
	// tasks.
	TaskAfter caddy.Duration `json:"task_after,omitempty"`

	// How long a task and its result are kept after its creation. Default: 1h.
	TaskTTL caddy.Duration `json:"task_ttl,omitempty"`

	// How calls with an idempotency key from the client are recorded, so that each of them runs once.
	// Default: recorded, with the defaults of its options.
	Idempotency *idempotency.Config `json:"idempotency,omitempty"`

	// How often a resource that a client has subscribed to is polled. Default: 10s.
	WatchInterval caddy.Duration `json:"watch_interval,omitempty"`

	// How long a client may cache a list, in revisions of the protocol that support this. A
	// negative value ("off" in the Caddyfile) forbids caching. Default: 1m.
	ListTTL caddy.Duration `json:"list_ttl,omitempty"`

	// Which callers may see and call a tool if agent_auth runs before the server. "document":
	// callers whose access token has the scopes that the document requires for the operation.
	// "off": all authenticated callers. Default: document.
	ToolScopes string `json:"tool_scopes,omitempty"`

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

	// Resources, prompts, apps and client hints.
	Library

	parts []Part // with further options

	// Beside serves requests that are not for the endpoint, such as those for documents about it. It reports whether it has served the
	// request. A part sets it; may be nil.
	Beside func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (served bool, err error) `json:"-"`

	Endpoint    *route.Endpoint `json:"-"`
	server      *mcpadapter.Server
	unsubscribe func() // ends the subscription to changes of the document
	removeUse   func() // ends the export of the use of streams and sessions

	memory     *sharedMemory
	endStreams func() // ends all streams when the configuration ends; later calls do nothing
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp",
		New: func() caddy.Module { return newHandler() },
	}
}

// Provision resolves the toolset and creates the server.
func (m *Handler) Provision(ctx caddy.Context) (err error) {
	m.Path = cmp.Or(m.Path, "/mcp")
	if m.Endpoint, err = route.NewEndpoint(ctx, "mcp", m.Path, m.Toolset, m.toolsetConfig()); err != nil {
		return err
	}
	if err := m.Endpoint.LimitToAgent(m.Agent); err != nil {
		return err
	}
	m.Endpoint.Message = callMessage
	m.Endpoint.IgnoreScopes = m.ToolScopes == toolScopesOff
	m.Endpoint.Hidden, m.Endpoint.Listings.Hidden = library.IsHidden, library.IsHidden
	m.Endpoint.Listings.ResponseSchemas = m.listsResponses()
	if len(m.Toolsets) > 0 && m.Document != nil {
		return errors.New("document cannot be set for several toolsets; define the toolsets in the agents app")
	}
	if err := m.Endpoint.AddToolsets(ctx, m.Toolsets, m.toolsetConfig()); err != nil {
		return err
	}
	if err := m.Endpoint.ExposeAgents(ctx, m.ExposeAgents); err != nil {
		return err
	}
	if err := m.Endpoint.Parts.SetMaxTokens(m.MaxTokens); err != nil {
		return err
	}
	m.openMemory()
	if err := m.Endpoint.Parts.CheckNames(); err != nil {
		return err
	}
	if err := m.Endpoint.Listings.SetSearch(m.Search, m.Pins); err != nil {
		return err
	}
	if !m.AllowAnonymous {
		m.Endpoint.Routes.WarnIfOpen(ctx, m.Endpoint.Parts.UseCredentials(), m.Endpoint.Logger)
	}
	for _, p := range m.parts {
		if err := p.Provision(ctx, m); err != nil {
			return err
		}
	}
	options, err := m.options(ctx)
	if err != nil {
		return err
	}
	m.shareMemory(&options)
	m.server = mcpadapter.New(options)
	m.Endpoint.LibraryScopes = m.server.LibraryScopes
	m.removeUse = metrics.All.ExportUse(m.server.Usage)
	m.endStreams = sync.OnceFunc(func() { m.closeStreams(ctx) })
	if err := m.provisionLibrary(ctx, m.server); err != nil {
		return err
	}
	if b := m.Endpoint.AgentLimit; b != nil {
		b.ToolsChanged = func() { m.server.Notify(mcpadapter.ToolsChanged) }
	}
	m.unsubscribe = m.Endpoint.Parts.OnChange(m.documentObserver(ctx.Logger()))
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		// Caddy waits for running requests when it stops or replaces a server. Streams would
		// never end by themselves.
		server.RegisterOnShutdown(m.endStreams)
		server.RegisterOnStop(m.drain)
	}
	return nil
}

// Cleanup ends the remaining streams.
func (m *Handler) Cleanup() error {
	if m.unsubscribe != nil {
		m.unsubscribe()
	}
	if m.removeUse != nil {
		m.removeUse()
	}
	if m.endStreams != nil {
		m.endStreams()
	}
	if m.memory != nil {
		m.memory.release()
	}
	return nil
}

// Validate returns an error for invalid options.
func (m *Handler) Validate() error {
	for _, origin := range m.AllowedOrigins {
		if err := checkOrigin(origin); err != nil {
			return err
		}
	}
	for _, host := range m.AllowedHosts {
		if host != "*" && strings.ContainsAny(host, "/*") {
			return fmt.Errorf("hosts %q is not a host name; write it as app.example.com", host)
		}
	}
	return m.validateOptions()
}

// checkOrigin returns an error for a text that no browser sends as an Origin and that would
// therefore never match.
func checkOrigin(origin string) error {
	if origin == "*" {
		return nil
	}
	u, err := url.Parse(strings.TrimSuffix(origin, "/"))
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || strings.Contains(u.Host, "*") {
		return fmt.Errorf("origins %q is not a web origin; write it as https://app.example.com, or * for all", origin)
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
