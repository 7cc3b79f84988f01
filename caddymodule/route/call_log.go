package route

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
)

// callEntryKey is the context key of the entry that the log of calls gets.
type callEntryKey struct{}

// CallEntry returns the entry of the log of calls for the tool call that an inner request belongs to. Handlers may
// set fields of it until they return. It returns nil if the request is not a tool call, or if calls are not recorded.
func CallEntry(ctx context.Context) *keptcall.Call {
	entry, _ := ctx.Value(callEntryKey{}).(*keptcall.Call)
	return entry
}

// CallsOf returns what records the calls of a configuration.
func CallsOf(agents *app.App) keptcall.Source {
	if kept, ok, err := site.Find[keptcall.Source](agents.Site); ok && err == nil {
		return kept
	}
	return noCalls{}
}

// noCalls keeps no calls.
type noCalls struct{}

// Active implements keptcall.Source.
func (noCalls) Active() keptcall.Recorder { return nil }

// logged is run for a call that the log of calls has while it is in progress.
func (r callRun) logged(ctx context.Context, recorder keptcall.Recorder) tools.Outcome {
	c := r.caller
	t, _ := r.set.Tool(r.call.Name)
	call := c.loggedCall(r.call.ID, c.toolset, t, "")
	logged := r.call.Arguments
	if c.inspectors != nil {
		logged = shownArguments(ctx, logged)
	}
	call.Would = r.would
	recorder.Begin(call, logged)
	outcome := r.run(context.WithValue(ctx, callEntryKey{}, call))
	if call.Would.Effect != "" {
		r.conclude(ctx, call, &outcome)
	}
	if c.conceal(&outcome); outcome.AwaitsAccount(ctx) {
		recorder.Forget(call)
		return outcome
	}
	recordOutcome(recorder, call, &outcome)
	return outcome
}

// recordOutcome records how a call has ended.
func recordOutcome(recorder keptcall.Recorder, call *keptcall.Call, outcome *tools.Outcome) {
	call.Outcome, call.Took = outcome.Name(), float64(outcome.Duration)/float64(time.Millisecond)
	call.Reason = outcome.Failure.Reason()
	var body []byte
	if outcome.Result != nil {
		body = outcome.Result.Body
		if call.Status, call.Size = outcome.Result.Status, len(body); outcome.Result.Private {
			body = nil
		}
	}
	recorder.Record(call, nil, body)
}

// loggedCall returns the fields that the log of calls has for every call.
func (c *Caller) loggedCall(id callid.ID, toolset string, t *tools.Tool, outcome string) *keptcall.Call {
	user := UserOf(c.client.Request)
	call := &keptcall.Call{
		ID: id.String(), Site: c.endpoint.SiteName, Endpoint: c.endpoint.Path, Protocol: c.protocol, Toolset: toolset, Outcome: outcome,
		User: user.ID, Groups: user.Groups, Agent: c.Agent, Trace: traceID(c.client.Request),
	}
	if t != nil {
		call.Tool = t.Name
		if t.Builtin == "" {
			call.Request = t.Operation()
		}
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
