package ocp

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
)

// Tool calls begin behind the ocp handler that stands in front of the tool endpoint.
// What that handler leaves for them is one of three types of contextLayer: the
// handler itself for a request without OCP headers, or what writes its response.

func (h *Handler) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextual{h, nil, next}
}

func (*Handler) MarkToolEndpoint() {}

func (x *exchange) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextual{x.handler, x, next}
}

func (x *exchange) MarkToolEndpoint() {
	x.ofTools = true
	if x.varying != nil {
		x.varying.ofTools = true
	}
}

func (v *varyingResponse) WrapCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return &contextual{v.handler, nil, next}
}

func (v *varyingResponse) MarkToolEndpoint() { v.ofTools = true }

// contextual is what an ocp handler is to a tool call.
type contextual struct {
	handler *Handler
	outer   *exchange // of the request that makes the call; nil if it has no OCP headers
	next    caddyhttp.Handler
}

// ServeHTTP sees to the context of the call: its own, which it brought along in
// the tool protocol, or that of the request that makes it, whose headers have
// been accepted and forwarded already.
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

// reread reads headers that have been read already, more strictly.
func reread(in *ocp.Incoming, options ocp.ReadOptions) *ocp.Incoming {
	header := make(http.Header)
	in.Set(header)
	if strict := ocp.ReadIncoming(header, options); strict != nil {
		strict.Faults = append(strict.Faults, in.Faults...)
		return strict
	}
	return in
}
