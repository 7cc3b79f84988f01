package toolcall

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
)

// contextLayer is the part of an ocp handler that processes the tool calls of a request. The
// handler runs before the tool endpoint and so does not see the inner requests. It stores its
// contextLayer in the variable ContextVar, and dispatch runs each inner request through it.
type contextLayer interface {
	// WrapCalls returns a handler that applies the layer to a tool call and then calls next.
	WrapCalls(next caddyhttp.Handler) caddyhttp.Handler
	// MarkToolEndpoint records that a tool endpoint, not the API, responds to the request.
	MarkToolEndpoint()
}

// ContextVar is the request variable that holds the contextLayer.
const ContextVar = "fairway.ocp"

// handlerChain returns the handlers that a tool call passes.
func (d *dispatch) handlerChain() caddyhttp.Handler {
	if layer, ok := d.vars[ContextVar].(contextLayer); ok {
		return layer.WrapCalls(d.next)
	}
	return d.next
}

// callContext returns the OCP context that came with the tool call itself. It returns nil if the
// call only has the context of the client's request.
func (d *dispatch) callContext(r *http.Request) *ocp.Incoming {
	in := ocp.IncomingFromContext(r.Context())
	if in == nil || in == ocp.IncomingFromContext(d.clientRequest.Context()) {
		return nil
	}
	return in
}

// MarkToolEndpoint informs an ocp handler before the endpoint, if there is one, that a tool
// endpoint responds to the request.
func MarkToolEndpoint(r *http.Request) {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		if layer, ok := vars[ContextVar].(contextLayer); ok {
			layer.MarkToolEndpoint()
		}
	}
}
