package route

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(ToolsOnly))
	httpcaddyfile.RegisterHandlerDirective("tools_only", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(ToolsOnly)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
}

// ToolsOnly lets nothing but tool calls through to the handlers after it. All other
// requests get a 404 with a problem document (RFC 9457), so that the API behind can
// only be reached through the tools of `mcp` and `otc` endpoints.
//
// The handler recognizes a tool call by how it was made in this process. No header,
// path or parameter of a client has an influence on that. It also lets through what
// the gateway requests for itself: an OpenAPI document of the site and
// `health_upstream` of `otc`.
type ToolsOnly struct{}

// CaddyModule returns the Caddy module information.
func (*ToolsOnly) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.tools_only",
		New: func() caddy.Module { return new(ToolsOnly) },
	}
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	tools_only [<matcher>]
//
// The matcher selects the requests that must be tool calls. Default: all.
func (*ToolsOnly) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		return d.Errf("unrecognized tools_only subdirective '%s'", d.Val())
	}
	return nil
}

// ServeHTTP passes tool calls on and rejects all other requests.
func (*ToolsOnly) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if tools.CallFromContext(r.Context()) != nil || IsGatewayRequest(r.Context()) {
		return next.ServeHTTP(w, r)
	}
	respond.WriteProblem(w, http.StatusNotFound, "Not found", "This path can only be called through the tools of this site.")
	return nil
}

// Interface guards
var (
	_ caddyfile.Unmarshaler       = (*ToolsOnly)(nil)
	_ caddyhttp.MiddlewareHandler = (*ToolsOnly)(nil)
)
