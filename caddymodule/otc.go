package caddymodule

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/otcadapter"
)

func init() {
	caddy.RegisterModule(new(OTC))
}

// OTC offers the operations of an OpenAPI document as the tools of an Open Tool
// Calling server: GET /health, GET /tools and POST /call below one path of the
// site, all of which is its own. A tool call is an ordinary request to the
// handlers that stand behind this one, which see the API's own method, path and
// body, and the headers by which the caller identifies itself. Requests for other
// paths pass by untouched.
//
// Tool calls do not run the site's error routes (handle_errors): what a handler
// refuses becomes the result of the call.
//
// Placeholders, in this request and in those of its tool calls:
//
// Placeholder | Description
// ------------|------------
// `{http.tool.name}` | The tool that is called
// `{http.tool.toolset}` | The toolset
// `{http.tool.protocol}` | `otc`
//
// The request's access log has the fields `tool`, `toolset` and `protocol`.
type OTC struct {
	// The path below which the endpoints are. Default: /otc.
	Path string `json:"path,omitempty"`

	// What is offered: the name of a toolset of the agents app, or else the
	// address of an OpenAPI document as in `openapi` of a toolset. Default: the
	// only toolset there is.
	Toolset string `json:"toolset,omitempty"`

	// The toolset's options, where it is not one of the agents app.
	Document *ToolsetConfig `json:"document,omitempty"`

	// The first part of tool ids, Toolkit.Tool@Version. Default: the document's
	// title.
	Toolkit string `json:"toolkit,omitempty"`

	// The last part of tool ids. Default: the document's version as x.y.z.
	Version string `json:"version,omitempty"`

	// The largest request body, in bytes. Default: 4 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	endpoint *endpoint
	server   *otcadapter.Server
}

// CaddyModule returns the Caddy module information.
func (*OTC) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.otc",
		New: func() caddy.Module { return new(OTC) },
	}
}

// Provision finds the toolset and makes the server.
func (o *OTC) Provision(ctx caddy.Context) (err error) {
	if o.Path == "" {
		o.Path = "/otc"
	}
	if o.endpoint, err = newEndpoint(ctx, "otc", o.Path, o.Toolset, o.Document); err != nil {
		return err
	}
	o.server = otcadapter.New(otcadapter.Options{
		Toolkit:    o.Toolkit,
		Version:    o.Version,
		MaxBody:    o.MaxBody,
		RetryAfter: o.endpoint.retryAfter,
	})
	return nil
}

// Validate refuses options that make no sense.
func (o *OTC) Validate() error {
	if o.endpoint.path == "" {
		return errors.New("path / would take the whole site: give the endpoints a path of their own, such as /otc")
	}
	return notNegative("max_body", o.MaxBody)
}

func notNegative(option string, value int64) error {
	if value < 0 {
		return fmt.Errorf("%s %d is negative", option, value)
	}
	return nil
}

// ServeHTTP answers requests for the endpoints and passes all others on.
func (o *OTC) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	rest, owned := o.endpoint.owns(r)
	if !owned {
		return next.ServeHTTP(w, r)
	}
	tools := o.endpoint.tools(r, next)
	var calls ocp.Caller
	if tools != nil {
		calls = o.endpoint.caller(r, next, tools)
	}
	o.server.ServeHTTP(w, r, rest, tools, calls)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*OTC)(nil)
	_ caddy.Validator             = (*OTC)(nil)
	_ caddyhttp.MiddlewareHandler = (*OTC)(nil)
)
