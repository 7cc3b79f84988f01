package toolcall

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall/builtin"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// caller is the ocp.Caller of one incoming request. It runs the request's tool calls through
// the handler chain and records them in the metrics, in the request's access log entry and in
// its placeholders.
type caller struct {
	dispatch
	tools    *tool.Toolset
	endpoint *Endpoint
	metrics  *agents.CallMetrics
	calls    *RequestCalls
	only     RequestCalls        // storage for calls, if they belong to this caller alone
	Conceal  func(string) string // removes the secrets that came with the call from a text; nil if there are none
}

// newCaller returns the caller of the request that d dispatches for, and sets the request's
// {http.tool.*} placeholders and log fields. Calls is nil if the request has no other caller.
func newCaller(d dispatch, e *Endpoint, tools *tool.Toolset, calls *RequestCalls) *caller {
	c := &caller{dispatch: d, endpoint: e, tools: tools, metrics: &e.metrics, calls: calls}
	if calls == nil {
		c.calls = &c.only
	}
	if c.repl != nil {
		for _, name := range toolPlaceholders {
			c.repl.Delete(name) // an endpoint that the request passed before may have set it
		}
		c.repl.Map(c.placeholder)
	}
	c.calls.Begin(AccessLogFields(c.clientRequest), c.toolset, c.protocol)
	return c
}

// newStreamCaller returns the caller of one message of a stream, whose messages are served
// concurrently. The stream has no {http.tool.*} placeholders: they describe a single call.
func newStreamCaller(d dispatch, e *Endpoint, tools *tool.Toolset, calls *RequestCalls) *caller {
	return &caller{dispatch: d, endpoint: e, tools: tools, metrics: &e.metrics, calls: calls}
}

// AccessLogFields returns the fields of the request's access log entry, nil if the server
// writes none.
func AccessLogFields(r *http.Request) *caddyhttp.ExtraLogFields {
	if server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server.Logs == nil {
		return nil
	}
	fields, _ := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	return fields
}

// placeholder returns the {http.tool.*} placeholders of the request. If a request calls several
// tools, name and outcome are those of the latest call.
func (c *caller) placeholder(key string) (any, bool) {
	toolset, name, outcome := c.calls.latest()
	if key == PlaceholderOutcome {
		return outcome, true
	}
	if toolset == "" {
		toolset = c.toolset
	}
	return toolPlaceholder(key, name, toolset, c.protocol)
}

// PlaceholderOutcome is the placeholder for the outcome of a call.
const PlaceholderOutcome = "http.tool.outcome"

// Call runs the tool and records its outcome.
func (c *caller) Call(ctx context.Context, tool string, arguments []byte) tool.Outcome {
	if c.endpoint.parts != nil {
		if called, ok := c.tools.Tool(tool); ok {
			return c.callPart(ctx, called, arguments)
		}
	}
	return c.call(ctx, c.tools, tool, arguments)
}

// callPart runs a tool of an endpoint that serves several toolsets. The call has the limits and the
// credentials of the tool's own toolset. Handlers after the endpoint, metrics and logs see it as a call of that toolset.
func (c *caller) callPart(ctx context.Context, called *tool.Tool, arguments []byte) tool.Outcome {
	part, own := c.partOf(called)
	if part == c.endpoint {
		return c.call(ctx, c.tools, called.Name, arguments)
	}
	d := c.dispatch
	d.serve(part.Toolset)
	p := &caller{dispatch: d, tools: c.tools, endpoint: part, metrics: &part.metrics, calls: c.calls, Conceal: c.Conceal}
	outcome := p.call(ctx, c.tools.PartOf(called), own.Name, arguments)
	if outcome.Tool == own {
		outcome.Tool = called
	}
	return outcome
}

// partOf returns the part of the endpoint that a tool belongs to, and the tool as that part has it. For built-in
// tools and for endpoints of one toolset these are the endpoint and the tool.
func (c *caller) partOf(t *tool.Tool) (*Endpoint, *tool.Tool) {
	if part, own := c.tools.Own(t); part >= 0 {
		return c.endpoint.parts[part], own
	}
	return c.endpoint, t
}

// call runs a tool of a toolset and records the outcome.
func (c *caller) call(ctx context.Context, tools *tool.Toolset, tool string, arguments []byte) tool.Outcome {
	outcome := c.execute(ctx, tools, tool, arguments)
	if c.Conceal != nil && outcome.Failure != nil {
		outcome.Failure.Message = c.Conceal(outcome.Failure.Message)
	}
	c.metrics.Observe(&outcome)
	c.calls.record(c.toolset, outcome.Tool, outcome.Name())
	if entry := c.logger.Check(zapcore.DebugLevel, "tool call"); entry != nil {
		entry.Write(outcomeFields(tool, c.toolset, c.protocol, &outcome)...)
	}
	return outcome
}

// RecordCall records a call that an adapter handled without running it. It implements
// ocp.CallRecorder.
func (c *caller) RecordCall(tool *tool.Tool, outcome string) {
	metrics, toolset := c.metrics, c.toolset
	if tool != nil && c.endpoint.parts != nil {
		part, own := c.partOf(tool)
		metrics, toolset, tool = &part.metrics, part.Toolset.Name, own
	}
	metrics.Count(tool, outcome)
	c.calls.record(toolset, tool, outcome)
}

// AmendCall replaces the recorded outcome of the latest call. It implements ocp.CallRecorder.
func (c *caller) AmendCall(outcome string) {
	c.calls.amend(outcome)
}

// execute runs the tool. A panic, for example of the schema validator, fails this call only, as
// a panic in a handler does.
func (c *caller) execute(ctx context.Context, tools *tool.Toolset, t string, arguments []byte) (outcome tool.Outcome) {
	defer func() {
		if value := recover(); value != nil {
			p := &PanicError{Value: value, Stack: debug.Stack()}
			outcome = tool.Outcome{Failure: c.panicFailure("the call", p)}
		}
	}()
	return tool.Execute(ctx, tools, t, arguments, c)
}

// Invoke runs a built-in tool. It sends the calls of all other tools through the handler chain.
func (c *caller) Invoke(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	switch call.Tool.Builtin {
	case "":
		return c.invokeTool(ctx, call)
	case tool.SearchTools:
		return builtin.Search(c.tools, call, c.endpoint.allowed(c.clientRequest, c.tools)), nil
	case tool.DescribeTools:
		return builtin.Describe(c.tools, call, c.endpoint.allowed(c.clientRequest, c.tools)), nil
	case tool.NextPage:
		return c.nextPage(ctx, call)
	}
	return nil, &tool.Failure{Kind: tool.InvalidArguments, Message: "this endpoint calls tools by their own names: call the tool itself instead of " + call.Tool.Name}
}

// outcomeFields returns the fields of the debug log line of a call.
func outcomeFields(tool, toolset, protocol string, outcome *tool.Outcome) []zap.Field {
	const longestName = 128 // bytes; the client chooses the name
	fields := []zap.Field{
		zap.String("tool", tool[:min(len(tool), longestName)]),
		zap.String("toolset", toolset),
		zap.String("protocol", protocol),
		zap.String("outcome", outcome.Name()),
		zap.Duration("duration", outcome.Duration),
	}
	if outcome.Result != nil {
		fields = append(fields, zap.Int("status", outcome.Result.Status), zap.Int("size", len(outcome.Result.Body)))
	}
	if outcome.Failure != nil {
		fields = append(fields, zap.String("message", outcome.Failure.Message))
	}
	return fields
}

// Interface guards
var (
	_ tool.Caller       = (*caller)(nil)
	_ tool.CallRecorder = (*caller)(nil)
	_ tool.Invoker      = (*caller)(nil)
)
