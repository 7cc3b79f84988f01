// Package calltrace makes the OpenTelemetry spans of tool calls and of their requests to the API.
//
// The spans follow the semantic conventions for MCP, generative AI and HTTP clients. They never have
// arguments, responses or queries. A call has spans only if the context of the client's request has a
// span, which Caddy's handler tracing adds. For other calls, Active is the only cost.
package calltrace

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope names the instrumentation in spans.
const scope = "github.com/fairwayhq/fairway"

// Limits of what a client sends.
const (
	maxParent = 128 // bytes of traceparent
	maxState  = 512 // bytes of tracestate (W3C Trace Context, section 3.3.1.5)
	maxID     = 128 // bytes of an id of a request or a session
)

// Names of attributes (OpenTelemetry semantic conventions: MCP, GenAI, JSON-RPC, HTTP).
const (
	keyMethod        = attribute.Key("mcp.method.name")
	keyOperation     = attribute.Key("gen_ai.operation.name")
	keyTool          = attribute.Key("gen_ai.tool.name")
	keySession       = attribute.Key("mcp.session.id")
	keyVersion       = attribute.Key("mcp.protocol.version")
	keyRequestID     = attribute.Key("jsonrpc.request.id")
	keyCall          = attribute.Key("fairway.call.id")
	keyCode          = attribute.Key("rpc.response.status_code")
	keyError         = attribute.Key("error.type")
	keyRequestMethod = attribute.Key("http.request.method")
	keyTemplate      = attribute.Key("url.template")
	keyStatus        = attribute.Key("http.response.status_code")
)

// propagator is the only format of trace contexts that Fairway reads and writes.
var propagator propagation.TraceContext

// Active reports whether a context has a span, so that calls are traced.
func Active(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }

// Request describes a request tools/call of an MCP client.
type Request struct {
	Tool    string // "" if the client named a tool that does not exist
	Session string // id of the session; "" for none
	Version string // revision of MCP; "" if unknown
	ID      string // of the JSON-RPC request
	Parent  string // traceparent in _meta; "" for none
	State   string // tracestate in _meta
}

// Call is the span of a tool call. Its methods may be called concurrently, and on a nil Call. After End
// they do nothing.
type Call struct {
	span   trace.Span
	method string // of MCP; "" for a call of another protocol

	mu      sync.Mutex
	tool    string
	outcome string
	ended   bool
}

// callKey is the context key of a Call.
type callKey struct{}

// FromContext returns the Call that a context belongs to, nil if there is none or if it has ended.
func FromContext(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	return c
}

// BeginMCP starts the span of a tools/call. Its parent is the trace context that the client sent with the
// request, if that is valid; the span links to the HTTP request then. Otherwise the HTTP request is the
// parent (Semantic conventions for MCP, Context propagation).
func BeginMCP(ctx context.Context, r *Request) (context.Context, *Call) {
	const method = "tools/call"
	attributes := []attribute.KeyValue{keyMethod.String(method), keyOperation.String("execute_tool")}
	for _, a := range []struct {
		key   attribute.Key
		value string
	}{{keyTool, r.Tool}, {keySession, r.Session}, {keyVersion, r.Version}, {keyRequestID, r.ID}} {
		if a.value != "" && len(a.value) <= maxID {
			attributes = append(attributes, a.key.String(a.value))
		}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...)}
	parent := ctx
	if remote := remoteParent(r); remote.IsValid() {
		parent = trace.ContextWithRemoteSpanContext(ctx, remote)
		options = append(options, trace.WithLinks(trace.Link{SpanContext: trace.SpanContextFromContext(ctx)}))
	}
	return begin(ctx, parent, &Call{method: method, tool: r.Tool}, options)
}

// Begin starts the span of a tool call of another protocol. Tool is "" if it does not exist.
func Begin(ctx context.Context, tool string) (context.Context, *Call) {
	attributes := []attribute.KeyValue{keyOperation.String("execute_tool")}
	if tool != "" {
		attributes = append(attributes, keyTool.String(tool))
	}
	options := []trace.SpanStartOption{trace.WithAttributes(attributes...)}
	if origin, ok := ctx.Value(originKey{}).(trace.SpanContext); ok {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: origin}))
	}
	return begin(ctx, ctx, &Call{tool: tool}, options)
}

// originKey is the context key of the trace.SpanContext that the span of a call links to.
type originKey struct{}

// ContextWithOrigin returns a context for a call that continues an earlier one: its span links to the span
// of the earlier call. Origin is a result of Parent. If it is "", the result is ctx.
func ContextWithOrigin(ctx context.Context, origin string) context.Context {
	if of := remoteParent(&Request{Parent: origin}); of.IsValid() {
		return context.WithValue(ctx, originKey{}, of)
	}
	return ctx
}

// ContextWithoutCall returns a context in which a call gets a span of its own, below that of ctx.
func ContextWithoutCall(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, (*Call)(nil))
}

// Link links the span in ctx to an earlier one. Origin is a value of the function Parent. It does nothing if
// that is "", or if there is no span.
func Link(ctx context.Context, origin string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if of := remoteParent(&Request{Parent: origin}); of.IsValid() {
		span.AddLink(trace.Link{SpanContext: of})
	}
}

// begin starts the span of a call with the tracer provider of the span in ctx.
func begin(ctx, parent context.Context, c *Call, options []trace.SpanStartOption) (context.Context, *Call) {
	parent, c.span = tracer(ctx).Start(parent, c.name(), options...)
	return context.WithValue(parent, callKey{}, c), c
}

// remoteParent returns the trace context that a client sent, an invalid one if it sent none.
func remoteParent(r *Request) trace.SpanContext {
	if r.Parent == "" || len(r.Parent) > maxParent {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": r.Parent}
	if len(r.State) <= maxState {
		carrier["tracestate"] = r.State
	}
	return trace.SpanContextFromContext(propagator.Extract(context.Background(), carrier))
}

// tracer returns the tracer of the span in ctx.
func tracer(ctx context.Context) trace.Tracer {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(scope)
}

// name returns the name of the span.
func (c *Call) name() string {
	operation := cmp.Or(c.method, "execute_tool")
	if c.tool == "" {
		return operation
	}
	return operation + " " + c.tool
}

// Identify records the id of the call, by which the log of calls has it.
func (c *Call) Identify(id string) { c.span.SetAttributes(keyCall.String(id)) }

// Ended records the outcome of the call. Tool is the name of the tool that was called, "" if it does not
// exist. A later outcome replaces an earlier one.
func (c *Call) Ended(tool, outcome string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.outcome = outcome
	if tool != "" && tool != c.tool {
		c.tool = tool
		c.span.SetName(c.name())
		c.span.SetAttributes(keyTool.String(tool))
	}
}

// Fault records the code of a JSON-RPC error.
func (c *Call) Fault(code int) {
	if c == nil {
		return
	}
	c.span.SetAttributes(keyCode.String(strconv.Itoa(code)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcome = cmp.Or(c.outcome, strconv.Itoa(code))
}

// End ends the span.
func (c *Call) End() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	fail(c.span, ErrorType(c.outcome))
	c.span.End()
}

// ErrorType returns the attribute error.type of an outcome of a tool call, "" if it is no error.
func ErrorType(outcome string) string {
	switch outcome {
	case "ok", "replayed", "pending", "input_required":
		return ""
	}
	return outcome
}

// fail marks a span as failed, unless the type of the error is "".
func fail(span trace.Span, errorType string) {
	if errorType == "" {
		return
	}
	span.SetAttributes(keyError.String(errorType))
	span.SetStatus(codes.Error, errorType)
}

// BeginRequest starts the span of the inner request of a tool call, and adds the header traceparent to the
// request. Template is the path of the operation, or "" if the request does not belong to an operation.
// The context of the request keeps the span of the call, so that events of later handlers belong to it.
func BeginRequest(ctx context.Context, r *http.Request, template string) trace.Span {
	ctx, span := BeginClientRequest(ctx, r.Method, template)
	delete(r.Header, "Tracestate")
	propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return span
}

// BeginClientRequest is BeginRequest for a request that does not exist yet. Inject adds its headers.
func BeginClientRequest(ctx context.Context, method, template string) (context.Context, trace.Span) {
	name, attributes := method, []attribute.KeyValue{keyRequestMethod.String(method)}
	if template != "" {
		name, attributes = name+" "+template, append(attributes, keyTemplate.String(template))
	}
	return tracer(ctx).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// EndRequest ends the span of a request. Status is the status of the response, or 0 if there is none.
// Failure is the reason why there is no response, or "".
func EndRequest(span trace.Span, status int, failure string) {
	if status != 0 {
		span.SetAttributes(keyStatus.Int(status))
		if status >= http.StatusBadRequest {
			failure = strconv.Itoa(status)
		}
	}
	fail(span, failure)
	span.End()
}

// Names of the events of a span.
const (
	EventDecision = "fairway.agent.decision" // an agent's document allows or refuses a call
	EventReview   = "fairway.review"         // a reviewer decides
	EventWould    = "fairway.would"          // a rule in log only would have decided otherwise
)

// Decision adds an event to the span of the context: the decision of an agent's document or of a reviewer
// about a call. Rule is the path of the deciding rule in the document, or "".
func Decision(ctx context.Context, name, agent, decision, rule string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{keyAgent.String(agent), attribute.String("fairway.decision", decision)}
	if rule != "" {
		attributes = append(attributes, attribute.String("fairway.rule", rule))
	}
	span.AddEvent(name, trace.WithAttributes(attributes...))
}
