package route

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/respond"
)

// tracingID is the id of Caddy's handler `tracing`. All of these handlers share one tracer provider, which is
// accessible only through the context of their requests.
const tracingID = "http.handlers.tracing"

// VisitTracing sends a request of the gateway through the first handler `tracing` of a server, and calls visit
// with the context that the handler gives to its next handler. It does nothing if the server has no such
// handler. All routes must be provisioned.
func VisitTracing(server *caddyhttp.Server, visit func(context.Context)) {
	h := findTracing(server.Routes)
	if h == nil {
		return
	}
	r, err := http.NewRequestWithContext(calltrace.ContextUnsampled(context.Background()), http.MethodGet, "/", http.NoBody)
	if err != nil {
		return // impossible with this method and URL
	}
	w := respond.NewRecorder(0)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, server)
	_ = h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error { // returns the error of the next handler
		visit(r.Context())
		return nil
	}))
}

// findTracing returns the first handler `tracing` of the routes, nil if there is none.
func findTracing(routes caddyhttp.RouteList) caddyhttp.MiddlewareHandler {
	for i := range routes {
		for _, h := range routes[i].Handlers {
			if sub, ok := h.(*caddyhttp.Subroute); ok {
				if found := findTracing(sub.Routes); found != nil {
					return found
				}
			}
			if m, ok := h.(caddy.Module); ok && m.CaddyModule().ID == tracingID {
				return h
			}
		}
	}
	return nil
}
