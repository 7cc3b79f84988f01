package mcpadapter

import (
	"context"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// beginSpan starts the span of a tools/call.
func (q *request) beginSpan() (context.Context, *calltrace.Call) {
	r := calltrace.Request{Version: q.version.String(), ID: string(q.id)}
	if q.id.Kind() == '"' {
		r.ID = strictjson.Text(q.id)
	}
	if t, ok := q.tools.Tool(strictjson.Text(q.params.name)); ok {
		r.Tool = t.Name
	}
	if q.session != nil {
		r.Session = q.header.Get(sessionHeader)
	}
	if q.params.meta != nil {
		r.Parent = strictjson.Text(strictjson.MemberOf(q.params.meta, "traceparent"))
		r.State = strictjson.Text(strictjson.MemberOf(q.params.meta, "tracestate"))
	}
	return calltrace.BeginMCP(q.ctx, &r)
}
