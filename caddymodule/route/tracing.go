package route

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/tools"
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

// traced is execute within the span of the call. It starts the span, unless the adapter for MCP has
// already started it.
func (r callRun) traced(ctx context.Context) tools.Outcome {
	if span := calltrace.FromContext(ctx); span != nil {
		span.Identify(r.call.ID.String())
		return r.execute(ctx) // the adapter ends the span
	}
	called := ""
	if t, ok := r.set.Tool(r.call.Name); ok {
		called = t.Name
	}
	ctx, span := calltrace.Begin(ctx, called)
	defer span.End()
	span.Identify(r.call.ID.String())
	outcome := r.execute(ctx)
	span.Ended(called, outcome.Name())
	return outcome
}

// serveTraced sends an inner request within its own span. Headers of the trace that are arguments stay. Template is the path of its operation, or "" for a
// poll.
func (d *dispatch) serveTraced(ctx context.Context, call *tools.Call, template string, rec *Recorder, r *http.Request) (*tools.Result, error) {
	given := make(http.Header, 2)
	for _, name := range [...]string{"Traceparent", "Tracestate"} {
		if len(r.Header[name]) > 0 && call.GivesHeader(name) {
			given[name] = r.Header[name]
		}
	}
	span := calltrace.BeginRequest(ctx, r, template)
	maps.Copy(r.Header, given)
	failed := string(tools.Internal) // unless the request ends
	defer func() { calltrace.EndRequest(span, rec.Status, failed) }()
	err := Serve(d.handlerChain(), rec, r)
	result, err := d.conclude(ctx, call, rec, err)
	failed = ""
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		failed = string(failure.Kind)
	} else if err != nil {
		failed = string(tools.Internal)
	}
	return result, err
}
