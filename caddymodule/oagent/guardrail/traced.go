package guardrail

import (
	"context"
	"errors"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// beginSpan starts the span of the call of a guardrail's tool. It is nil if the text that is checked belongs to
// no trace.
func beginSpan(ctx context.Context, op *agentset.Operation) (context.Context, *calltrace.Call) {
	if op == nil || !calltrace.Active(ctx) {
		return ctx, nil
	}
	return calltrace.Begin(ctx, op.Tool.Name)
}

// traceDecision adds to the span what the guardrail has decided.
func traceDecision(ctx context.Context, agent string, err error) {
	if calltrace.FromContext(ctx) == nil {
		return
	}
	decision, rule := "allowed", ""
	if refusal, ok := engagement.AsRefusal(err); ok {
		decision, rule = string(refusal.Kind), refusal.Rule
	} else if err != nil {
		decision = string(tool.Internal)
	}
	calltrace.Decision(ctx, calltrace.EventDecision, agent, decision, rule)
}

// invokeTraced sends the request of the call with a span of its own.
func (i resolving) invokeTraced(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	ctx, span := calltrace.BeginClientRequest(ctx, call.Tool.Method, call.Tool.Path)
	result, err := i.HTTPInvoker.Invoke(ctx, call)
	status, failed := 0, ""
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		failed = string(failure.Kind)
	} else if err != nil {
		failed = string(tool.Internal)
	} else {
		status = result.Status
	}
	calltrace.EndRequest(span, status, failed)
	return result, err
}
