package mcpadapter

import (
	"context"
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// An Operation describes a request of a client that was served, for metrics. None of its values is
// chosen by the client.
type Operation struct {
	Method   string // of the request, one that the server knows
	Tool     string // that the request called; "" for none, or if it does not exist
	Error    string // outcome of the tool call, or else the code of the JSON-RPC error; "" for a success
	Revision string // of MCP
	Duration time.Duration
}

const methodCallTool = "tools/call"

// observe serves a request, reports it to Options.Observe, and makes a span for a tool call that is traced.
func (m *message) observe(served *method) (f *jsonrpc.Fault) {
	callsTool := served.name == methodCallTool
	traced := callsTool && calltrace.Active(m.ctx)
	report := m.server.options.Observe
	if report == nil && !traced {
		return served.serve(m)
	}
	began := time.Now()
	if callsTool {
		outer := m.ctx
		m.observed = observedCaller{Caller: m.caller}
		m.caller = &m.observed
		if traced {
			m.ctx, m.observed.span = m.beginSpan(outer)
		}
		defer func() {
			m.observed.span.End()
			m.ctx, m.caller = outer, m.observed.Caller
		}()
	}
	f = served.serve(m)
	o := Operation{Method: served.name, Revision: m.version.String()}
	if callsTool {
		o.Tool, o.Error = m.observed.tool, calltrace.ErrorType(m.observed.outcome)
	}
	if f != nil {
		if m.observed.span.Fault(f.Code); o.Error == "" {
			o.Error = strconv.Itoa(f.Code)
		}
	}
	if report != nil {
		o.Duration = time.Since(began)
		report(o)
	}
	return f
}

// beginSpan starts the span of a tools/call.
func (m *message) beginSpan(ctx context.Context) (context.Context, *calltrace.Call) {
	r := calltrace.Request{Version: m.version.String(), ID: string(m.id)}
	if m.id.Kind() == '"' {
		r.ID = wire.Text(m.id)
	}
	if t, ok := m.tools.Tool(wire.Text(m.params.name)); ok {
		r.Tool = t.Name
	}
	if m.session != nil {
		r.Session = m.header.Get(sessionHeader)
	}
	if m.params.meta != nil {
		r.Parent = wire.Text(wire.MemberOf(m.params.meta, "traceparent"))
		r.State = wire.Text(wire.MemberOf(m.params.meta, "tracestate"))
	}
	return calltrace.BeginMCP(ctx, &r)
}

// observedCaller is a Caller that notes the outcome of the latest call.
type observedCaller struct {
	tool.Caller
	span    *calltrace.Call // nil if the call is not traced
	tool    string          // "" if the client named a tool that does not exist
	outcome string
}

// Call implements tool.Caller.
func (c *observedCaller) Call(ctx context.Context, name string, arguments []byte) tool.Outcome {
	outcome := c.Caller.Call(ctx, name, arguments)
	c.note(outcome.Tool, outcome.Name())
	return outcome
}

// RecordCall implements tool.CallRecorder.
func (c *observedCaller) RecordCall(t *tool.Tool, outcome string) {
	tool.RecordCall(c.Caller, t, outcome)
	c.note(t, outcome)
}

// AmendCall implements tool.CallRecorder.
func (c *observedCaller) AmendCall(outcome string) {
	tool.AmendCall(c.Caller, outcome)
	c.outcome = outcome
	c.span.Ended(c.tool, outcome)
}

func (c *observedCaller) note(t *tool.Tool, outcome string) {
	if c.tool, c.outcome = "", outcome; t != nil {
		c.tool = t.Name
	}
	c.span.Ended(c.tool, outcome)
}

// detach gives an attempt, which may outlive its request, a caller of its own that is observed like the
// request's.
func (a *attempt) detach(request *message) {
	if request.observed.Caller == nil {
		return
	}
	if a.caller == tool.Caller(&request.observed) {
		a.caller = request.observed.Caller
	}
	a.observed = observedCaller{Caller: a.caller, span: request.observed.span}
	a.caller = &a.observed
}
