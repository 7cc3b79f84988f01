package toolcall

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/calllog"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// runLogged is run for a call that the log of recent calls shows while it is in progress.
func (c *Caller) runLogged(ctx context.Context, recorder *calllog.Recorder, tools *tool.Toolset, name string, arguments []byte) tool.Outcome {
	t, _ := tools.Tool(name)
	call := c.loggedCall(c.toolset, t, "")
	recorder.Begin(&call, arguments)
	outcome := c.run(ctx, tools, name, arguments)
	c.logOutcome(recorder, &call, &outcome, nil)
	return outcome
}

// logCall records a call that has begun before the log of recent calls did.
func (c *Caller) logCall(recorder *calllog.Recorder, outcome *tool.Outcome, arguments []byte) {
	call := c.loggedCall(c.toolset, outcome.Tool, "")
	c.logOutcome(recorder, &call, outcome, arguments)
}

// logOutcome records how a call has ended.
func (c *Caller) logOutcome(recorder *calllog.Recorder, call *calllog.Call, outcome *tool.Outcome, arguments []byte) {
	call.Outcome, call.Took = outcome.Name(), float64(outcome.Duration)/float64(time.Millisecond)
	if outcome.Result != nil {
		call.Status, call.Size = outcome.Result.Status, len(outcome.Result.Body)
	}
	recorder.Record(call, arguments)
	c.reportCall(call)
}

// logEnded records a call that an adapter handled without running it.
func (c *Caller) logEnded(recorder *calllog.Recorder, toolset string, t *tool.Tool, outcome string) {
	call := c.loggedCall(toolset, t, outcome)
	recorder.Record(&call, nil)
	c.reportCall(&call)
}

// loggedCall returns what the log of recent calls has of every call.
func (c *Caller) loggedCall(toolset string, t *tool.Tool, outcome string) calllog.Call {
	call := calllog.Call{
		Site: c.endpoint.SiteName, Endpoint: c.endpoint.Path, Protocol: c.protocol, Toolset: toolset, Outcome: outcome,
		User: AuthenticatedUser(c.clientRequest), Agent: c.Agent, Trace: traceID(c.clientRequest),
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

// callListenerKey is the context key of ContextWithCallListener.
type callListenerKey struct{}

// ContextWithCallListener returns a context for a client's request. Listener is called with each of its
// tool calls when it ends, provided that the log of recent calls records.
func ContextWithCallListener(ctx context.Context, listener func(calllog.Call)) context.Context {
	return context.WithValue(ctx, callListenerKey{}, listener)
}

// reportCall calls the listener of the client's request, if it has one.
func (c *Caller) reportCall(call *calllog.Call) {
	if listener, ok := c.clientRequest.Context().Value(callListenerKey{}).(func(calllog.Call)); ok {
		listener(*call)
	}
}
