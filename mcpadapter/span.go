package mcpadapter

import (
	"context"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

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

// detach gives an attempt its own observed caller, because the attempt may outlive its request.
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

// startOwnSpan starts a child span for the attempt. The request ends at once, so its own span cannot
// record the outcome of the call.
func (a *attempt) startOwnSpan() {
	if a.observed.span != nil {
		a.observed.span = nil
		a.ctx = calltrace.ContextWithoutCall(a.ctx)
	}
}
