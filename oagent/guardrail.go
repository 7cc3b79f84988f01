package oagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Guardrail returns the guardrail of that side, or nil if the agent has none.
func (a *Agent) Guardrail(side engagement.Side) *Guardrail {
	if side == engagement.SideInput {
		return a.Input
	}
	return a.Output
}

// CheckGuardrail evaluates a guardrail's assertion over the output of the guardrail's tool.
// The input guardrail checks the user's message, the output guardrail the model's response
// (OpenAgentSpec v1, guardrails).
//
//   - If the assertion is false, the Engagement ends.
//   - If it cannot be evaluated, because the output is not JSON or lacks a member, the tool
//     has failed: see FailGuardrail.
//   - If the agent has no guardrail of that side, the result is nil.
//
// The error is an *engagement.Refusal.
func (g *Guard) CheckGuardrail(ctx context.Context, b Binding, side engagement.Side, output jsontext.Value) error {
	if b.Agent == nil {
		return unknownAgentRefusal(&b)
	}
	guardrail := b.Agent.Guardrail(side)
	if guardrail == nil {
		return nil
	}
	failed := guardrail.Assertion.CheckOutput(ctx, output)
	if failed != nil && ctx.Err() != nil {
		return refuseUnrecorded(&b, guardrail.Tool, isModelCalled(side), ctx.Err())
	}
	if isToolFailure(failed, output) {
		return g.FailGuardrail(ctx, b, side, failed)
	}
	e := engagement.Entry{Event: engagement.EntryGuardrail, Name: guardrail.Tool, Side: side, Rule: guardrail.Assertion.Rule}
	outputs := checkOutputs(output)
	return g.recordGuardrail(ctx, b, side, func(t *engagement.Tx) *engagement.Refusal {
		e := e
		e.Outputs = t.Keep(outputs)
		if failed == nil {
			t.Prolong = true
			t.Log(e)
			return nil
		}
		e.Kind, e.Why = engagement.KindGuardrail, text.Cut(failed.Error(), engagement.MaxReason)
		t.Log(e)
		t.End(engagement.KindGuardrail, e.Rule, e.Why)
		t.State.Refused++
		return &engagement.Refusal{Kind: engagement.KindGuardrail, Rule: e.Rule, Name: guardrail.Tool, Cause: failed, Message: fmt.Sprintf(
			"the %s does not pass the guardrail %s of the agent %s, so the Engagement has ended", checkedText(side), e.Rule, b.Agent.Name)}
	})
}

// isToolFailure reports whether an assertion failed because the tool returned unusable output:
// the output is not JSON, is text where the assertion expects members, or lacks a member.
func isToolFailure(err error, output jsontext.Value) bool {
	failure, ok := errors.AsType[*assertion.Error](err)
	if !ok || failure.Missing == "" && failure.Cause == nil {
		return false
	}
	return failure.Missing != "" || strictjson.Check(output) != nil || output.Kind() == '"'
}

// isModelCalled reports whether the model has already been called when a guardrail of that side runs.
func isModelCalled(side engagement.Side) bool { return side == engagement.SideOutput }

// checkedText returns the noun for the text that a guardrail checks.
func checkedText(side engagement.Side) string {
	if side == engagement.SideInput {
		return "message"
	}
	return "answer"
}

// FailGuardrail records that the tool of a guardrail failed. The message or response is
// refused, but the Engagement continues, because nothing was decided. The error is always a
// *engagement.Refusal.
func (g *Guard) FailGuardrail(ctx context.Context, b Binding, side engagement.Side, cause error) error {
	if b.Agent == nil {
		return unknownAgentRefusal(&b)
	}
	guardrail := b.Agent.Guardrail(side)
	if guardrail == nil {
		return refuseUnrecorded(&b, "", isModelCalled(side), cause)
	}
	if cause == nil {
		cause = errors.New("the tool did not respond")
	}
	refusal := &engagement.Refusal{
		Kind: engagement.KindUnchecked, Agent: b.Agent.Name, Engagement: b.Engagement, Name: guardrail.Tool, Rule: guardrail.Assertion.Rule,
		RetryAfter: retryStore, Made: isModelCalled(side), Cause: cause, Message: fmt.Sprintf(
			"the %s cannot be checked, because the tool %s of the guardrail returned no usable response; try again later", checkedText(side), guardrail.Tool),
	}
	if err := g.recordGuardrail(ctx, b, side, func(t *engagement.Tx) *engagement.Refusal {
		t.Log(engagement.Entry{Event: engagement.EntryGuardrail, Name: guardrail.Tool, Side: side, Rule: refusal.Rule, Kind: engagement.KindUnchecked, Why: text.Cut(cause.Error(), engagement.MaxReason)})
		t.State.Refused++
		return refusal
	}); err != nil {
		return err
	}
	return refusal
}

// recordGuardrail runs record on an Engagement that has not ended. The error is an *engagement.Refusal.
func (g *Guard) recordGuardrail(ctx context.Context, b Binding, side engagement.Side, record func(*engagement.Tx) *engagement.Refusal) error {
	made := isModelCalled(side)
	if err := b.check(); err != nil {
		return &engagement.Refusal{Kind: engagement.KindInvalid, Agent: b.Agent.Name, Engagement: b.Engagement, Message: err.Error(), Made: made}
	}
	var refusal *engagement.Refusal
	begin := func(now time.Time) *engagement.State { return engagement.NewState(b.ref(), now) }
	err := g.Engagements.Change(ctx, b.Key(), begin, func(t *engagement.Tx) error {
		if refusal = t.Closed(); refusal != nil {
			return engagement.ErrUnchanged
		}
		refusal = record(t)
		return nil
	})
	if err != nil {
		return refuseUnrecorded(&b, "", made, err)
	}
	if refusal == nil {
		return nil
	}
	refusal.Agent, refusal.Engagement, refusal.Made = b.Agent.Name, b.Engagement, made
	g.notifyEnd(refusal, b.User)
	return refusal
}

// CheckActive returns an *engagement.Refusal if the Engagement has ended. Call it before a guardrail's
// tool is invoked.
func (g *Guard) CheckActive(ctx context.Context, b Binding) error {
	if b.Agent == nil {
		return unknownAgentRefusal(&b)
	}
	var refusal *engagement.Refusal
	err := g.Engagements.Read(ctx, b.Key(), func(t *engagement.Tx) error {
		if t.State.Ended != nil {
			refusal = t.State.Refusal()
			refusal.Agent, refusal.Engagement = b.Agent.Name, b.Engagement
		}
		return nil
	})
	switch {
	case errors.Is(err, engagement.ErrNotFound):
		return nil
	case err != nil:
		return refuseUnrecorded(&b, "", false, err)
	case refusal != nil:
		return refusal
	}
	return nil
}

func unknownAgentRefusal(b *Binding) *engagement.Refusal {
	return &engagement.Refusal{Kind: engagement.KindUnknownAgent, Engagement: b.Engagement, Message: "no agent document governs this request, so it was rejected"}
}
