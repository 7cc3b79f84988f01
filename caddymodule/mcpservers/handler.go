package mcpservers

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/yosida95/uritemplate/v3"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/client"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

func init() {
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterHandlerDirective("mcp_servers", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
}

// maxArguments is the largest body of a call, in bytes.
const maxArguments = 8 << 20

// Handler answers the tool calls of toolsets that come from MCP servers (mcp_server of a toolset). All other requests
// are passed on: a client cannot reach the servers except through the tools of an endpoint such as `mcp`.
//
// A call reaches this handler as POST /<toolset>/<tool> with the arguments as a JSON object. Handlers before it, such as
// `oagent`, treat it as any other request. The response is the server's result with the media type
// application/vnd.mcp.result+json, or an event stream that ends with it if the server reports progress.
type Handler struct {
	app    *app.App
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.mcp_servers",
		New: func() caddy.Module { return new(Handler) },
	}
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	mcp_servers [<matcher>]
func (*Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		return d.Errf("unrecognized mcp_servers subdirective '%s': servers are configured with mcp_server of a toolset", d.Val())
	}
	return nil
}

// Provision finds the toolsets.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	agents, err := app.Of(ctx)
	if err != nil {
		return err
	}
	h.app = agents
	for _, t := range h.app.ToolsetsByName {
		if t.HasMCPServer {
			return nil
		}
	}
	return errors.New("mcp_servers has nothing to answer: no toolset has the option mcp_server")
}

// ServeHTTP answers a call of a tool of an MCP server and passes other requests on.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	called := tools.CallFromContext(r.Context())
	if called == nil || called.Tool.Foreign == nil {
		return next.ServeHTTP(w, r)
	}
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	toolset, ok := h.app.Toolset(repl.ReplaceAll("{http.tool.toolset}", ""))
	if !ok || !toolset.HasMCPServer {
		return next.ServeHTTP(w, r)
	}
	if path, _ := called.Path(); r.Method != called.Tool.Plan.Method || r.URL.EscapedPath() != path {
		respond.WriteProblem(w, http.StatusNotFound, "Not found", fmt.Sprintf(
			"A handler before mcp_servers has changed the method or the path of a call: it must be %s %s.", called.Tool.Plan.Method, path))
		return nil
	}
	c, err := readCall(r, called, toolset.ForwardHeaders)
	if err != nil {
		return err
	}
	c.MaxMessage = toolset.Limits.MaxResponse
	answer := responseWriter{ResponseWriter: w}
	if c.ReadHeaders(r.Header); c.Progress || tools.ListenerFromContext(r.Context()) != nil {
		c.Notify = answer.notify
	}
	result, err := toolset.MCPServer.(*server).Call(r.Context(), c)
	if err != nil {
		if r.Context().Err() != nil {
			return caddyhttp.Error(http.StatusGatewayTimeout, err)
		}
		h.logger.Debug("calling a tool of an MCP server failed", zap.String("toolset", toolset.Name), zap.String("tool", called.Tool.Name), zap.Error(err))
		return answer.fail(err)
	}
	return answer.finish(result)
}

// readCall returns the call that a request means. The arguments are those of the request: what handlers before this one
// have read is what the server gets.
func readCall(r *http.Request, called *tools.Call, listed []string) (*client.Call, error) {
	foreign := called.Tool.Foreign
	c := &client.Call{Owner: route.OwnerOf(r), Header: forwardedHeaders(r.Header, listed), Reads: called.Tool.IsRequest() || called.Tool.Hint(build.ReadOnlyHint)}
	switch foreign.Kind {
	case tools.ForeignResource:
		c.Resource = foreign.Name
		return c, nil
	case tools.ForeignTemplate:
		var err error
		c.Resource, err = expand(foreign.Name, r.URL.Query())
		return c, err
	}
	body, err := buffer.ReadLimited(r.Body, maxArguments)
	if err != nil {
		return nil, caddyhttp.Error(http.StatusRequestEntityTooLarge, err)
	}
	if err := strictjson.Check(body); err != nil || jsontext.Value(body).Kind() != '{' {
		return nil, caddyhttp.Error(http.StatusBadRequest, errors.New("the arguments of a call must be a JSON object"))
	}
	switch foreign.Kind {
	case tools.ForeignPrompt:
		c.Prompt, c.Arguments = foreign.Name, body
	case tools.ForeignCompletion:
		c.Completion = body
	default:
		c.Tool, c.Arguments = foreign.Name, body
		c.AddArgumentHeaders(called.Tool)
	}
	return c, nil
}

// expand returns the URI of a template for the query of a call.
func expand(template string, query url.Values) (string, error) {
	parsed, err := uritemplate.New(template)
	if err != nil {
		return "", caddyhttp.Error(http.StatusBadGateway, err)
	}
	values := make(uritemplate.Values)
	for name, given := range query {
		values[name] = uritemplate.String(given[0])
	}
	uri, err := parsed.Expand(values)
	if err != nil {
		return "", caddyhttp.Error(http.StatusBadRequest, err)
	}
	return uri, nil
}

// forwardedHeaders returns the headers that the server gets: credentials of the toolset, and what was forwarded from the
// caller. Those of the message and of the protocol are the client's own. Listed are those of forward_headers.
func forwardedHeaders(from http.Header, listed []string) http.Header {
	to := make(http.Header, len(from))
	for name, values := range from {
		if (name != "User-Agent" || slices.Contains(listed, name)) && httpheader.Forwarded(name, nil, listed...) {
			to[name] = values
		}
	}
	return to
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
