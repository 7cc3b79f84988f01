package ocp

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
)

// WrapCalls makes the handler the layer for tool calls of a request without OCP headers.
//
// Inner requests of tool calls start after the ocp handler, which runs before the tool
// endpoint. The handler leaves them one of three layers (see toolcall): itself for a request
// without OCP headers, or the response writer of the request, which is an exchange or a
// varyingResponse.

func (h *Handler) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextual{h, nil, next}
}

// MarkToolEndpoint does nothing: the handler does not change responses to requests without OCP
// headers.
func (*Handler) MarkToolEndpoint() {}

// WrapCalls makes the exchange the layer for tool calls of its request.
func (x *exchange) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextual{x.handler, x, next}
}

// MarkToolEndpoint records that a tool endpoint responds. Its response is not enhanced.
func (x *exchange) MarkToolEndpoint() {
	x.ofTools = true
	if x.varying != nil {
		x.varying.ofTools = true
	}
}

// WrapCalls makes the writer the layer for tool calls of its request.
func (v *varyingResponse) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextual{v.handler, nil, next}
}

// MarkToolEndpoint records that a tool endpoint responds. Its response does not get Vary.
func (v *varyingResponse) MarkToolEndpoint() { v.ofTools = true }

// contextual applies an ocp handler to a tool call.
type contextual struct {
	handler *Handler
	outer   *exchange // exchange of the request that makes the call; nil if there is none
	next    caddyhttp.Handler
}

// ServeHTTP runs the call with its context. This is the call's own context if the tool protocol
// carried one. Otherwise it is the context of the client's request, whose headers have already
// been checked and forwarded.
func (c *contextual) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	h := c.handler
	tool := ocp.CallFromContext(r.Context()).Tool
	in := ocp.IncomingFromContext(r.Context())
	x := &exchange{handler: h, in: in, outer: c.outer}
	switch {
	case in == nil && h.Require && requiresContext(tool):
		return refuseWithoutContext(w, tool, nil)
	case in == nil:
		return c.next.ServeHTTP(w, r)
	case c.outer == nil || in != c.outer.in:
		x.outer = nil
		if h.Strict {
			x.in = reread(in, h.read)
			r = r.WithContext(ocp.ContextWithIncoming(r.Context(), x.in))
		}
		h.accept(x.in)
		h.forward(x.in, r.Header)
		defer h.countLate(x.in)
	}
	return x.serve(w, r, c.next, tool)
}

// reread reads headers again with stricter options.
func reread(in *ocp.Incoming, options ocp.ReadOptions) *ocp.Incoming {
	header := make(http.Header)
	in.Set(header)
	if strict := ocp.ReadIncoming(header, options); strict != nil {
		strict.Faults = append(strict.Faults, in.Faults...)
		return strict
	}
	return in
}
