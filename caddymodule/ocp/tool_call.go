package ocp

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/callcontext"
	"github.com/fairwayhq/fairway/tools"
)

// WrapCalls makes the handler the layer for tool calls of a request without OCP headers.
//
// Inner requests of tool calls start after the ocp handler, which runs before the tool
// endpoint. The handler leaves them one of three layers (see package route): itself for a request
// without OCP headers, or the response writer of the request, which is a contextWriter or a
// varyWriter.
func (h *Handler) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextCall{h, nil, next}
}

// MarkToolEndpoint does nothing: the handler does not change responses to requests without OCP
// headers.
func (*Handler) MarkToolEndpoint() {}

// WrapCalls makes the writer the layer for tool calls of its request.
func (x *contextWriter) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextCall{x.handler, x, next}
}

// MarkToolEndpoint records that a tool endpoint responds. Its response is not enhanced.
func (x *contextWriter) MarkToolEndpoint() {
	x.toolEndpoint = true
	if x.varyWriter != nil {
		x.varyWriter.toolEndpoint = true
	}
}

// WrapCalls makes the writer the layer for tool calls of its request.
func (v *varyWriter) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextCall{v.handler, nil, next}
}

// MarkToolEndpoint records that a tool endpoint responds. Its response does not get Vary.
func (v *varyWriter) MarkToolEndpoint() { v.toolEndpoint = true }

// contextCall applies an ocp handler to a tool call.
type contextCall struct {
	handler      *Handler
	clientWriter *contextWriter // contextWriter of the request that makes the call; nil if there is none
	next         caddyhttp.Handler
}

// ServeHTTP runs the call with its context. This is the call's own context if the tool protocol
// carried one. Otherwise it is the context of the client's request, whose headers have already
// been checked and forwarded.
func (c *contextCall) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	h := c.handler
	tool := tools.CallFromContext(r.Context()).Tool
	own := ocp.ReadIncoming(callcontext.FromContext(r.Context()), h.readOptions)
	switch {
	case own != nil:
		r = h.withContext(r, own)
		defer h.countLateFault(own)
		return (&contextWriter{handler: h, in: own}).serve(w, r, c.next, tool)
	case c.clientWriter != nil:
		return (&contextWriter{handler: h, in: c.clientWriter.in, clientWriter: c.clientWriter}).serve(w, r, c.next, tool)
	case h.Require && requiresContext(tool):
		return rejectWithoutContext(w, tool, nil)
	}
	return c.next.ServeHTTP(w, r)
}
