package mcp

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/siteroutes"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
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

	// Further toolsets to serve, given in the same way. A tool keeps its name if no other toolset has a
	// tool with that name. Otherwise the name of its toolset and an underscore precede it. Default:
	// none.
	Toolsets []string `json:"toolsets,omitempty"`

	// The options of the toolset, if it is not one of the agents app and the only one. Default: none.
	Document *agents.ToolsetConfig `json:"document,omitempty"`

	// The name of the server in serverInfo. Default: the name of the toolset of the agents app.
	// For other toolsets, the document's title in lower case with dashes, such as
	// github-rest-api.
	Name string `json:"name,omitempty"`

	// The display title of the server. Default: the document's title.
	Title string `json:"title,omitempty"`

	// The version of the server in serverInfo. Default: the document's version.
	Version string `json:"version,omitempty"`

	// Instructions that tell models how to use the server. Default: the document's description.
	Instructions string `json:"instructions,omitempty"`

	// Origins of web pages that may call the endpoint and read its responses (CORS), such as
	// https://app.example.com. Pages of the site's own host are always allowed. "*" allows all
	// origins. Default: none, and no CORS headers.
	Origins []string `json:"origins,omitempty"`

	// Host names whose pages may call the endpoint over a loopback address. As a protection
	// against DNS rebinding, other names than those of this machine are rejected there. Set the
	// public host if a proxy on this machine forwards requests of its pages. "*" allows all
	// hosts. Requests that do not come from a page are not checked. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// The maximum number of tools on a page of tools/list. A page has at most 4 MiB, unless a
	// single tool is larger. 0 means as many as fit, because many clients do not request a
	// second page. Default: 0.
	PageSize int `json:"page_size,omitempty"`

	// Whether the server lists tools that search for tools, instead of all tools: "auto", "on" or
	// "off", as in a toolset. Default: as the toolset has it, else auto.
	Search agents.SearchMode `json:"search,omitempty"`

	// The names of tools that the server lists in addition to the tools that search. A name
	// without a tool is a configuration error; if the document is loaded later, it is a warning.
	// Default: as the toolset has it.
	Pins []string `json:"pins,omitempty"`

	// The largest request body, in bytes. Default: 4 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// The protocol revisions that the server supports, such as 2025-11-25. Default: all.
	Versions []string `json:"versions,omitempty"`

	// The secret that signs session ids and seals the state that clients keep for the server.
	// It has at least 16 bytes. Placeholders such as {env.MCP_SECRET} are replaced. Nodes
	// behind one load balancer must accept each other's sessions, so they need the same secret,
	// path and toolset. Default: a random secret in Caddy's storage, which nodes that share the
	// storage have in common.
	Secret string `json:"secret,omitempty"`

	// How long a session is valid. Default: 24h.
	SessionTTL caddy.Duration `json:"session_ttl,omitempty"`

	// The maximum number of open streams. Default: 10000.
	MaxStreams int `json:"max_streams,omitempty"`

	// The maximum number of open streams of one user, or of one client address if the caller is
	// not authenticated. Default: 64.
	MaxClientStreams int `json:"max_client_streams,omitempty"`

	// How often a keep-alive is sent on an idle stream. Default: 25s.
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

	// How often a resource that a client has subscribed to is polled. Default: 10s.
	WatchInterval caddy.Duration `json:"watch_interval,omitempty"`

	// The maximum number of polling requests to the API per second, for all clients together.
	// Clients of the same user share a request. If the limit is reached, each resource is
	// polled less often. Default: 20.
	WatchRate int `json:"watch_rate,omitempty"`

	// How long a client may cache a list, in revisions of the protocol that support this. A
	// negative value ("off" in the Caddyfile) forbids caching. Default: 1m.
	ListTTL caddy.Duration `json:"list_ttl,omitempty"`

	// Whether caches may share lists between users. Set it only if everyone who can reach the
	// server may see all of its tools. Default: false.
	PublicLists bool `json:"public_lists,omitempty"`

	// What tools/list contains about responses. "off": nothing. "loose": the document's schemas
	// in a form that describes responses and requires nothing. "strict": the document's
	// schemas; a response that does not match its schema becomes an error that names the
	// mismatch. Clients reject responses that do not match the listed schema. Default: off.
	OutputSchema string `json:"output_schema,omitempty"`

	// Which callers may see and call a tool if agent_auth runs before the server. "document":
	// callers whose access token has the scopes that the document requires for the operation.
	// "off": all authenticated callers. Default: document.
	ToolScopes string `json:"tool_scopes,omitempty"`

	// Experimental: whether and how to serve documents by which clients find the server.
	// Default: not served.
	Discovery *Discovery `json:"discovery,omitempty"`

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

	Endpoint    *toolcall.Endpoint `json:"-"`
	server      *mcpadapter.Server
	unsubscribe func() // ends the subscription to changes of the document

	memory     *sharedMemory
	endStreams func() // ends all streams when the configuration ends; later calls do nothing
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision resolves the toolset and creates the server.
func (m *Handler) Provision(ctx caddy.Context) (err error) {
	if m.Path == "" {
		m.Path = "/mcp"
	}
	if m.Endpoint, err = toolcall.NewEndpoint(ctx, "mcp", m.Path, m.Toolset, m.toolsetConfig()); err != nil {
		return err
	}
	m.Endpoint.LimitToAgent(m.Agent)
	m.Endpoint.IgnoreScopes = m.ToolScopes == toolScopesOff
	m.Endpoint.Hidden = library.IsHidden
	if len(m.Toolsets) > 0 && m.Document != nil {
		return errors.New("document cannot be set for several toolsets; define the toolsets in the agents app")
	}
	if err := m.Endpoint.AddToolsets(ctx, m.Toolsets, m.toolsetConfig()); err != nil {
		return err
	}
	if err := m.Endpoint.ExposeAgents(m.ExposeAgents); err != nil {
		return err
	}
	if err := m.Endpoint.Parts.SetMaxTokens(m.MaxTokens); err != nil {
		return err
	}
	m.openMemory()
	if err := m.Endpoint.Parts.Merge(m.memory.names); err != nil {
		return err
	}
	if err := m.Endpoint.Listings.SetSearch(m.Search, m.Pins); err != nil {
		return err
	}
	if !m.AllowAnonymous {
		m.Endpoint.Routes.WarnIfOpen(ctx, m.Endpoint.Parts.Injects(), m.Endpoint.Logger)
	}
	siteroutes.WarnIfPartlyAuthenticated(ctx, "mcp", m.Endpoint.Path, toolcall.MCPPaths[1:], m.Endpoint.Logger)
	options, err := m.options(ctx)
	if err != nil {
		return err
	}
	m.shareMemory(&options)
	m.server = mcpadapter.New(options)
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
	}
	return nil
}

// Cleanup ends the remaining streams.
func (m *Handler) Cleanup() error {
	if m.unsubscribe != nil {
		m.unsubscribe()
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
	for _, origin := range m.Origins {
		if err := checkOrigin(origin); err != nil {
			return err
		}
	}
	for _, host := range m.Hosts {
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
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || strings.Contains(u.Host, "*") {
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
