package calltrace

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of attributes of agents and models (OpenTelemetry semantic conventions for generative AI).
const (
	keyAgent        = attribute.Key("gen_ai.agent.name")
	keyConversation = attribute.Key("gen_ai.conversation.id")
	keyProvider     = attribute.Key("gen_ai.provider.name")
	keyModel        = attribute.Key("gen_ai.request.model")
	keyInputTokens  = attribute.Key("gen_ai.usage.input_tokens")
	keyOutputTokens = attribute.Key("gen_ai.usage.output_tokens")
)

// Values of gen_ai.operation.name.
const (
	operationAgent = "invoke_agent"
	operationChat  = "chat"
)

// Parent returns the trace context of the span in ctx as the value of the header traceparent (W3C Trace
// Context). It returns "" if there is none. It contains no credentials, so it can be stored.
func Parent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// Inject adds the trace context of the span in ctx to the header of a request. It does nothing if there
// is none.
func Inject(ctx context.Context, header http.Header) {
	propagator.Inject(ctx, propagation.HeaderCarrier(header))
}

// Source starts the spans of work that continues after the end of its request: runs of hosted agents, and
// requests to agents that review. It uses the tracer provider of the latest call of Note. Before the first
// call it makes no spans.
type Source struct {
	provider atomic.Pointer[trace.TracerProvider]
}

// unsampled is the parent of a span that is not exported. Samplers by the ratio of trace ids do not choose
// its trace id either.
var unsampled = trace.NewSpanContext(trace.SpanContextConfig{
	TraceID: trace.TraceID(bytes.Repeat([]byte{0xff}, 16)), SpanID: trace.SpanID(bytes.Repeat([]byte{0xff}, 8)), Remote: true,
})

// ContextUnsampled returns a context for a request whose span is not exported.
func ContextUnsampled(ctx context.Context) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, unsampled)
}

// Note keeps the tracer provider of a request, if the request has a span. The span may be one that is not
// exported.
func (s *Source) Note(ctx context.Context) {
	span := trace.SpanFromContext(ctx)
	if of := span.SpanContext(); !of.IsValid() || of.IsRemote() {
		return
	}
	provider := span.TracerProvider()
	if known := s.provider.Load(); known == nil || *known != provider {
		s.provider.Store(&provider)
	}
}

// Span is the span of an agent or of a model. A nil Span does nothing.
type Span struct{ trace.Span }

// BeginRun starts the span of the work on a run of a hosted agent. Parent is a value of the function
// Parent, and engagement the id of the run. The span is nil if parent is "".
func (s *Source) BeginRun(ctx context.Context, parent, agent, engagement string) (context.Context, *Span) {
	return s.begin(ctx, parent, agent, trace.SpanKindInternal, keyConversation.String(engagement))
}

// BeginReview starts the span of a request to an agent that reviews a call. Parent is that of the call.
// The span is nil if parent is "".
func (s *Source) BeginReview(ctx context.Context, parent, agent string) (context.Context, *Span) {
	return s.begin(ctx, parent, agent, trace.SpanKindClient, keyRequestMethod.String(http.MethodPost))
}

// begin starts the span of an agent.
func (s *Source) begin(ctx context.Context, parent, agent string, kind trace.SpanKind, more attribute.KeyValue) (context.Context, *Span) {
	provider := s.provider.Load()
	remote := remoteParent(&Request{Parent: parent})
	if provider == nil || !remote.IsValid() {
		return ctx, nil
	}
	ctx, span := (*provider).Tracer(scope).Start(trace.ContextWithRemoteSpanContext(ctx, remote), operationAgent+" "+agent,
		trace.WithSpanKind(kind), trace.WithAttributes(keyOperation.String(operationAgent), keyAgent.String(agent), more))
	return ctx, &Span{span}
}

// BeginAgent starts the span of a call of an agent of another server, below the span in ctx. The span is
// nil if there is none.
func BeginAgent(ctx context.Context, agent string) (context.Context, *Span) {
	return beginClient(ctx, operationAgent+" "+agent, keyOperation.String(operationAgent), keyAgent.String(agent))
}

// BeginModel starts the span of a request to a model, below the span in ctx. Provider and model are the
// names of the configuration. The span is nil if there is none.
func BeginModel(ctx context.Context, provider, model string) (context.Context, *Span) {
	return beginClient(ctx, operationChat+" "+model, keyOperation.String(operationChat), keyProvider.String(provider), keyModel.String(model))
}

func beginClient(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, *Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, nil
	}
	ctx, span := tracer(ctx).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return ctx, &Span{span}
}

// Used records the tokens of a request to a model, as its API reports them.
func (s *Span) Used(input, output int64) {
	if s != nil {
		s.SetAttributes(keyInputTokens.Int64(input), keyOutputTokens.Int64(output))
	}
}

// Finish ends the span. ErrorType is "" for a success.
func (s *Span) Finish(errorType string) {
	if s != nil {
		fail(s.Span, errorType)
		s.End()
	}
}
