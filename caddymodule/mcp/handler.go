package mcp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/mcpadapter"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler offers the operations of an OpenAPI document as the tools of a Model
// Context Protocol server, at one path of the site. A tool call is an ordinary
// request to the handlers that stand behind this one, which see the API's own
// method, path and body, and the headers by which the caller identifies itself.
// Requests for other paths pass by untouched.
//
// Tool calls do not run the site's error routes (handle_errors): what a handler
// refuses becomes the result of the call.
//
// Placeholders, in this request and in those of its tool calls:
//
// Placeholder | Description
// ------------|------------
// `{http.tool.name}` | The tool that is called, of several the latest
// `{http.tool.toolset}` | The toolset
// `{http.tool.protocol}` | `mcp`
// `{http.tool.outcome}` | How the call ended: `ok`, or why it failed; empty before its end, and in the requests of tool calls
//
// In requests that are neither for the endpoint nor tool calls, the first three are empty.
//
// The request's access log has the fields `tool`, `toolset`, `protocol` and `outcome`. A request
// with several calls (a batch, a stream) has `tool_call_count` and `tool_calls` as well.
type Handler struct {
	// The path of the endpoint, with or without a slash at its end. Default:
	// /mcp.
	Path string `json:"path,omitempty"`

	// What is offered: the name of a toolset of the agents app, or else the
	// address of an OpenAPI document as in `openapi` of a toolset. Default: the
	// only toolset there is.
	Toolset string `json:"toolset,omitempty"`

	// The toolset's options, where it is not one of the agents app.
	Document *agents.ToolsetConfig `json:"document,omitempty"`

	// The name of the server in serverInfo. Default: the name of the toolset of the agents app,
	// or else the document's title in lower case with dashes, such as github-rest-api.
	Name string `json:"name,omitempty"`

	// The title that people are shown. Default: the document's.
	Title string `json:"title,omitempty"`

	// The version that the server calls itself. Default: the document's.
	Version string `json:"version,omitempty"`

	// What models are told of how to use the server. Default: the document's
	// description.
	Instructions string `json:"instructions,omitempty"`

	// Origins of web pages that may call and read the answers (CORS), such as
	// https://app.example.com, beside those of the site's own host; "*" stands for
	// all. Default: none, and no CORS headers.
	Origins []string `json:"origins,omitempty"`

	// Host names whose pages may call over a loopback address, where a name that
	// is not this machine's is otherwise refused as DNS rebinding: name the
	// public host if a proxy on this machine passes its pages' requests on. "*"
	// stands for all. Requests that no page sends are not asked for it.
	Hosts []string `json:"hosts,omitempty"`

	// How many tools a page of tools/list has at most. A page takes no more than
	// 4 MiB, unless a single tool does. Default: 0, as many as fit, because many
	// clients never ask for a second page.
	PageSize int `json:"page_size,omitempty"`

	// The largest request body, in bytes. Default: 4 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// The revisions of the protocol that are spoken, such as 2025-11-25. Default:
	// all.
	Versions []string `json:"versions,omitempty"`

	// Signs the ids of sessions and seals what clients keep for the server, in at
	// least 16 bytes; placeholders such as {env.MCP_SECRET} are replaced. Nodes
	// that share the work, and so accept each other's sessions, need the same
	// secret, path and toolset. Default: one that is made once and kept in
	// Caddy's storage, which such nodes have in common.
	Secret string `json:"secret,omitempty"`

	// How long a session lasts. Default: 24h.
	SessionTTL caddy.Duration `json:"session_ttl,omitempty"`

	// How many streams may be open at once. Default: 10000.
	MaxStreams int `json:"max_streams,omitempty"`

	// How many of them may be of one user or, where nobody is authenticated, of
	// one client address. Default: 64.
	MaxClientStreams int `json:"max_client_streams,omitempty"`

	// How often a quiet stream shows a sign of life. Default: 25s.
	KeepAlive caddy.Duration `json:"keep_alive,omitempty"`

	// How long a client, and often the person in front of it, may take to answer
	// what the server asks. Default: 5m.
	AskTimeout caddy.Duration `json:"ask_timeout,omitempty"`

	// How often a resource that a client has subscribed to is looked at. Default:
	// 10s.
	WatchInterval caddy.Duration `json:"watch_interval,omitempty"`

	// How many requests a second watching makes to the API at most, of all clients
	// together. Clients of the same user share them, and where they are too few each
	// resource is polled less often. Default: 20.
	WatchRate int `json:"watch_rate,omitempty"`

	// How long a client may take a list for fresh, where the revision has that.
	// Default: 1m. Negative ("off" in the Caddyfile) means it must not.
	ListTTL caddy.Duration `json:"list_ttl,omitempty"`

	// Lets caches share lists between users. Set it only if whoever may reach the
	// server may know all of its tools.
	PublicLists bool `json:"public_lists,omitempty"`

	// What tools/list says of answers: "off", nothing; "loose", what the document
	// says in a form that describes and demands nothing; "strict", the document's
	// schemas, and an answer that departs from its own becomes an error that says
	// where. Clients refuse answers that miss what they were told. Default: off.
	OutputSchema string `json:"output_schema,omitempty"`

	// Who may call a tool and see it in the list, where agent_auth stands before
	// the server: "document", those whose access token has the scopes that the
	// document asks for; "off", whoever was let through. Default: document.
	ToolScopes string `json:"tool_scopes,omitempty"`

	// Experimental: serves what clients find the server by. Default: not.
	Discovery *Discovery `json:"discovery,omitempty"`

	// Offers only what the agent of this name may use, of an oagent handler behind.
	// Default: all tools.
	Agent string `json:"agent,omitempty"`

	// Says that anonymous callers may use the gateway's own credentials, and so
	// silences the warning at start about an endpoint without authentication before
	// it. It opens and closes nothing. Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`

	// What is offered beside the tools.
	Library

	Endpoint *toolcall.Endpoint `json:"-"`
	server   *mcpadapter.Server
	forget   func() // ends the subscription to changes of the document

	memory     *mcpMemory
	endStreams func() // when the configuration ends; does nothing the second time
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision finds the toolset and makes the server.
func (m *Handler) Provision(ctx caddy.Context) (err error) {
	if m.Path == "" {
		m.Path = "/mcp"
	}
	if m.Endpoint, err = toolcall.NewEndpoint(ctx, "mcp", m.Path, m.Toolset, m.document()); err != nil {
		return err
	}
	m.Endpoint.Bind(m.Agent)
	if !m.AllowAnonymous {
		m.Endpoint.WarnIfOpen(ctx, len(m.Endpoint.Toolset.Credentials) > 0)
	}
	toolcall.WarnIfHalfGuarded(ctx, "mcp", m.Endpoint.Path, toolcall.EndpointPaths[1:], m.Endpoint.Logger)
	options, err := m.options(ctx)
	if err != nil {
		return err
	}
	m.remember(&options)
	m.server = mcpadapter.New(options)
	m.endStreams = sync.OnceFunc(func() { m.replace(ctx) })
	if err := m.provisionLibrary(ctx, m.server); err != nil {
		return err
	}
	if b := m.Endpoint.Binding; b != nil {
		b.Changed = func() { m.server.Notify(mcpadapter.ToolsChanged) }
	}
	m.forget = m.Endpoint.Toolset.Loader.OnChange(m.changeTeller(ctx.Logger()))
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		// A server that is replaced or stops waits for its requests, and would
		// wait for streams forever.
		server.RegisterOnShutdown(m.endStreams)
	}
	return nil
}

// Cleanup ends what streams are left.
func (m *Handler) Cleanup() error {
	if m.forget != nil {
		m.forget()
	}
	if m.endStreams != nil {
		m.endStreams()
	}
	if m.memory != nil {
		m.memory.release()
	}
	return nil
}

// Validate refuses options that make no sense.
func (m *Handler) Validate() error {
	for _, origin := range m.Origins {
		if err := checkOrigin(origin); err != nil {
			return err
		}
	}
	for _, host := range m.Hosts {
		if host != "*" && strings.ContainsAny(host, "/*") {
			return fmt.Errorf("hosts %q is not the name of a host: write it as app.example.com", host)
		}
	}
	return m.validateOptions()
}

// checkOrigin refuses what no browser sends as its Origin and so would never match.
func checkOrigin(origin string) error {
	if origin == "*" {
		return nil
	}
	u, err := url.Parse(strings.TrimSuffix(origin, "/"))
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || strings.Contains(u.Host, "*") {
		return fmt.Errorf("origins %q is not a web origin: write it as https://app.example.com, or * for all", origin)
	}
	return nil
}

// ServeHTTP answers requests for the endpoint and passes all others on.
func (m *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if m.Discovery != nil && m.isDiscovery(r) {
		return m.discover(w, r, next)
	}
	rest, owned := m.Endpoint.Owns(r)
	if !owned || !toolcall.IsEndpoint(rest) {
		return toolcall.PassBy(w, r, next)
	}
	if line := stdioOf(r); line != nil {
		line.serve(m, r, next)
		return nil
	}
	tools := m.Endpoint.Tools(r, next)
	if tools == nil {
		return m.Endpoint.Unavailable(w)
	}
	calls := new(toolcall.RequestCalls)
	defer calls.End()
	m.server.ServeHTTP(w, r, m.site(r, next, rest, tools, calls))
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
