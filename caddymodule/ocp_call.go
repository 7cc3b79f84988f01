package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
)

// A tool call begins behind the ocp handler that stands before the tool endpoint,
// so the call is led through what that handler does for one request: chain puts
// it between the endpoint and the handlers behind.

// chain returns the handlers that a tool call goes through.
func (d *dispatch) chain() caddyhttp.Handler {
	switch passed := d.vars[ocpVar].(type) {
	case *exchange:
		return &contextual{passed.handler, passed, d.next}
	case *OCP:
		return &contextual{passed, nil, d.next}
	case *varyingResponse:
		return &contextual{passed.handler, nil, d.next}
	}
	return d.next
}

// contextual is what an ocp handler is to a tool call.
type contextual struct {
	handler *OCP
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

// ownContext returns the context that a tool call brings along in the tool
// protocol, nil if it has none but that of the request that makes it.
func (d *dispatch) ownContext(r *http.Request) *ocp.Incoming {
	in := ocp.IncomingFromContext(r.Context())
	if in == nil || in == ocp.IncomingFromContext(d.outer.Context()) {
		return nil
	}
	return in
}

// ofTools notes that a request is answered by a tool endpoint, whose answer is not
// one of the API.
func ofTools(r *http.Request) {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		switch passed := vars[ocpVar].(type) {
		case *exchange:
			passed.ofTools = true
			if passed.varying != nil {
				passed.varying.ofTools = true
			}
		case *varyingResponse:
			passed.ofTools = true
		}
	}
}
