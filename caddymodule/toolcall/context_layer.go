package toolcall

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
)

// contextLayer is what an ocp handler in front of a tool endpoint does for the tool
// calls of a request. The handler leaves it in the variable contextVar, since tool
// calls begin behind that handler.
type contextLayer interface {
	// wrapCalls returns the handler that tool calls go through before next.
	WrapCalls(next caddyhttp.Handler) caddyhttp.Handler
	// markToolEndpoint says that the response to the request is one of a tool
	// endpoint and not of the API.
	MarkToolEndpoint()
}

// ContextVar is the request variable with the contextLayer.
const ContextVar = "fairway.ocp"

// chain returns the handlers that a tool call goes through.
func (d *dispatch) chain() caddyhttp.Handler {
	if layer, ok := d.vars[ContextVar].(contextLayer); ok {
		return layer.WrapCalls(d.next)
	}
	return d.next
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

// MarkToolEndpoint tells the ocp handler in front, if there is one, that a tool
// endpoint responds to the request.
func MarkToolEndpoint(r *http.Request) {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		if layer, ok := vars[ContextVar].(contextLayer); ok {
			layer.MarkToolEndpoint()
		}
	}
}
