package calltrace

import (
	"context"
	"net/http"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestSource wants spans only below a valid trace context, and only after a request with a span.
func TestSource(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	request, span := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("http").Start(t.Context(), "POST /agents/desk")
	defer span.End()
	remote := trace.ContextWithRemoteSpanContext(t.Context(), remoteParent(&Request{Parent: traceparent}))
	for name, c := range map[string]struct {
		noted  context.Context
		parent string
		want   bool
	}{
		"request":       {request, traceparent, true},
		"no parent":     {request, "", false},
		"wrong parent":  {request, "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", false},
		"long parent":   {request, traceparent + strings.Repeat("-0", 1024), false},
		"no request":    {t.Context(), traceparent, false},
		"remote parent": {remote, traceparent, false}, // the span is of another process
	} {
		t.Run(name, func(t *testing.T) {
			spans.Reset()
			var s Source
			s.Note(c.noted)
			ctx, run := s.BeginRun(t.Context(), c.parent, "desk", "e1")
			run.Used(1, 2)
			run.Finish("limit")
			ended := spans.Ended()
			if (run != nil) != c.want || (len(ended) == 1) != c.want {
				t.Fatalf("span %v, %d spans, want one: %v", run, len(ended), c.want)
			}
			if !c.want {
				if ctx != t.Context() {
					t.Error("the context was changed")
				}
				return
			}
			if got := ended[0].Parent().SpanID().String(); got != traceparent[36:52] {
				t.Errorf("the parent is %s, want that of %s", got, traceparent)
			}
			if got := Parent(ctx); got[:35] != traceparent[:35] || got[36:52] != ended[0].SpanContext().SpanID().String() {
				t.Errorf("the trace context of the span is %s", got)
			}
		})
	}
}

// TestAgent_off wants calls without a span to cost no span and no header.
func TestAgent_off(t *testing.T) {
	ctx, agent := BeginAgent(t.Context(), "desk")
	ctx, chat := BeginModel(ctx, "openai", "gpt")
	header := make(http.Header)
	Inject(ctx, header)
	if agent != nil || chat != nil || ctx != t.Context() {
		t.Errorf("got the spans %v and %v and the context %v, want no span and the context of before", agent, chat, ctx)
	}
	if len(header) != 0 || Parent(ctx) != "" {
		t.Errorf("got the header %v and the trace context %q, want none", header, Parent(ctx))
	}
	agent.Finish("")
	chat.Used(1, 2)
	chat.Finish("timeout")
}
