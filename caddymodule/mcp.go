package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/mcpadapter"
)

func init() {
	caddy.RegisterModule(new(MCP))
}

// MCP offers the operations of an OpenAPI document as the tools of a Model
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
//
// The request's access log has the fields `tool`, `toolset` and `protocol`.
type MCP struct {
	// The path of the endpoint, with or without a slash at its end. Default:
	// /mcp.
	Path string `json:"path,omitempty"`

	// What is offered: the name of a toolset of the agents app, or else the
	// address of an OpenAPI document as in `openapi` of a toolset. Default: the
	// only toolset there is.
	Toolset string `json:"toolset,omitempty"`

	// The toolset's options, where it is not one of the agents app.
	Document *ToolsetConfig `json:"document,omitempty"`

	// The name that the server calls itself by. Default: the toolset's.
	Name string `json:"name,omitempty"`

	// The title that people are shown. Default: the document's.
	Title string `json:"title,omitempty"`

	// The version that the server calls itself. Default: the document's.
	Version string `json:"version,omitempty"`

	// What models are told of how to use the server. Default: the document's
	// description.
	Instructions string `json:"instructions,omitempty"`

	// Origins of web pages that may call, such as https://app.example.com,
	// beside those of the site's own host; "*" stands for all.
	Origins []string `json:"origins,omitempty"`

	// Host names whose pages may call over a loopback address, where a name that
	// is not this machine's is otherwise refused as DNS rebinding: name the
	// public host if a proxy on this machine passes its pages' requests on. "*"
	// stands for all. Requests that no page sends are not asked for it.
	Hosts []string `json:"hosts,omitempty"`

	// How many tools a page of tools/list has. Default: 0, all in one page,
	// because many clients never ask for a second.
	PageSize int `json:"page_size,omitempty"`

	// The largest request body, in bytes. Default: 4 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	endpoint *endpoint
	server   *mcpadapter.Server
}

// CaddyModule returns the Caddy module information.
func (*MCP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp",
		New: func() caddy.Module { return new(MCP) },
	}
}

// Provision finds the toolset and makes the server.
func (m *MCP) Provision(ctx caddy.Context) (err error) {
	if m.Path == "" {
		m.Path = "/mcp"
	}
	if m.endpoint, err = newEndpoint(ctx, "mcp", m.Path, m.Toolset, m.Document); err != nil {
		return err
	}
	m.server = mcpadapter.New(mcpadapter.Options{
		Name:           m.Name,
		Title:          m.Title,
		Version:        m.Version,
		Instructions:   m.Instructions,
		MaxBody:        m.MaxBody,
		AllowedOrigins: m.Origins,
		AllowedHosts:   m.Hosts,
		PageSize:       m.PageSize,
	})
	return nil
}

// Validate refuses options that make no sense.
func (m *MCP) Validate() error {
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
	if err := notNegative("page_size", int64(m.PageSize)); err != nil {
		return err
	}
	return notNegative("max_body", m.MaxBody)
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
func (m *MCP) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	rest, owned := m.endpoint.owns(r)
	if !owned || !isEndpoint(rest) {
		return next.ServeHTTP(w, r)
	}
	tools := m.endpoint.tools(r, next)
	if tools == nil {
		return m.endpoint.unavailable(w)
	}
	m.server.ServeHTTP(w, r, m.site(r, next, rest, tools))
	return nil
}

// isEndpoint reports whether there is something of the protocol at the path below
// the endpoint's.
func isEndpoint(rest string) bool {
	switch rest {
	case "", "/", "/sse", "/message":
		return true
	}
	return false
}

// Interface guards
var (
	_ caddy.Provisioner           = (*MCP)(nil)
	_ caddy.Validator             = (*MCP)(nil)
	_ caddyhttp.MiddlewareHandler = (*MCP)(nil)
)
