package route

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
	"github.com/fairwayhq/fairway/tools"
)

// runLogged is run for a call that the log of recent calls shows while it is in progress.
func (c *Caller) runLogged(ctx context.Context, recorder *calllog.Recorder, set *tools.Toolset, name string, arguments []byte) tools.Outcome {
	t, _ := set.Tool(name)
	call := c.loggedCall(c.toolset, t, "")
	recorder.Begin(&call, arguments)
	outcome := c.run(ctx, set, name, arguments)
	setOutcome(&call, &outcome)
	recorder.Record(&call, nil)
	return outcome
}

// logCall records a call that began before the log of recent calls was enabled.
func (c *Caller) logCall(recorder *calllog.Recorder, outcome *tools.Outcome, arguments []byte) {
	call := c.loggedCall(c.toolset, outcome.Tool, "")
	setOutcome(&call, outcome)
	recorder.Record(&call, arguments)
}

// loggedCall returns the fields that the log of recent calls has for every call.
func (c *Caller) loggedCall(toolset string, t *tools.Tool, outcome string) calllog.Call {
	call := calllog.Call{
		Site: c.endpoint.SiteName, Endpoint: c.endpoint.Path, Protocol: c.protocol, Toolset: toolset, Outcome: outcome,
		User: AuthenticatedUser(c.client.Request), Agent: c.Agent, Trace: traceID(c.client.Request),
	}
	if t != nil {
		call.Tool = t.Name
	}
	return call
}

// traceID returns the id of the trace that a request belongs to: the one of Caddy's tracing, or else the
// one in the header traceparent (W3C Trace Context). It returns "" if there is none.
func traceID(r *http.Request) string {
	if id, ok := caddyhttp.GetVar(r.Context(), "trace_id").(string); ok {
		return id
	}
	const version, digits = 2, 32 // of the header: version-trace-parent-flags
	rest := r.Header.Get("Traceparent")
	if len(rest) <= version+1+digits || rest[version] != '-' || rest[version+1+digits] != '-' {
		return ""
	}
	id := rest[version+1 : version+1+digits]
	if strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

// EndedCall is a tool call of a client's request that has ended.
type EndedCall struct {
	// Name is the name of the outcome, as in logs.
	Name string

	// Trace is the id of the trace that the request belongs to, "" if there is none.
	Trace string

	// Outcome is what the Caller returned. Its result is valid until the listener returns. It is nil if the adapter ended
	// the call without the Caller; the reason is only in the response then.
	Outcome *tools.Outcome
}

// callListenerKey is the context key of ContextWithCallListener.
type callListenerKey struct{}

// ContextWithCallListener returns a context for a client's request. Listener is called with each of its
// tool calls when it ends, provided that the log of recent calls records.
func ContextWithCallListener(ctx context.Context, listener func(EndedCall)) context.Context {
	return context.WithValue(ctx, callListenerKey{}, listener)
}

// setOutcome sets how a call has ended.
func setOutcome(call *calllog.Call, outcome *tools.Outcome) {
	call.Outcome, call.Took = outcome.Name(), float64(outcome.Duration)/float64(time.Millisecond)
	if outcome.Result != nil {
		call.Status, call.Size = outcome.Result.Status, len(outcome.Result.Body)
	}
}

// tellListener calls the listener of a client's request, if it has one.
func tellListener(r *http.Request, name string, outcome *tools.Outcome) {
	if listener, ok := r.Context().Value(callListenerKey{}).(func(EndedCall)); ok {
		listener(EndedCall{name, traceID(r), outcome})
	}
}
