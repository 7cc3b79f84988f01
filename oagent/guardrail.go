package oagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Guardrail returns the guardrail of that side, or nil if the agent has none.
func (a *Agent) Guardrail(side Side) *Guardrail {
	if side == SideInput {
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
// The error is a *Refusal.
func (g *Guard) CheckGuardrail(ctx context.Context, b Binding, side Side, output jsontext.Value) error {
	if b.Agent == nil {
		return refusedUnknown(&b)
	}
	guardrail := b.Agent.Guardrail(side)
	if guardrail == nil {
		return nil
	}
	failed := guardrail.Assertion.CheckOutput(ctx, output)
	if failed != nil && ctx.Err() != nil {
		return refuseStore(&b, guardrail.Tool, isMade(side), ctx.Err())
	}
	if isToolFailure(failed, output) {
		return g.FailGuardrail(ctx, b, side, failed)
	}
	e := Entry{What: EntryGuardrail, Name: guardrail.Tool, Side: side, Rule: guardrail.Assertion.Rule}
	outputs := checkOutputs(output)
	return g.recordGuardrail(ctx, b, side, func(t *turn) *Refusal {
		e := e
		e.Outputs = t.keep(outputs)
		if failed == nil {
			t.prolong = true
			t.log(e)
			return nil
		}
		e.Kind, e.Why = KindGuardrail, cut(failed.Error(), maxWhy)
		t.log(e)
		t.end(KindGuardrail, e.Rule, e.Why)
		t.state.Refused++
		return &Refusal{Kind: KindGuardrail, Rule: e.Rule, Name: guardrail.Tool, cause: failed, Message: fmt.Sprintf(
			"the %s does not pass the guardrail %s of the agent %s, so the Engagement has ended", said(side), e.Rule, b.Agent.Name)}
	})
}

// isToolFailure reports whether an assertion failed because the tool returned unusable output:
// the output is not JSON, is text where the assertion expects members, or lacks a member.
func isToolFailure(err error, output jsontext.Value) bool {
	failure, ok := errors.AsType[*AssertionError](err)
	if !ok || failure.Missing == "" && failure.Cause == nil {
		return false
	}
	return failure.Missing != "" || wire.Check(output) != nil || output.Kind() == '"'
}

// isMade reports whether the model was already called when a guardrail of that side runs.
func isMade(side Side) bool { return side == SideOutput }

// said returns the noun for the text that a guardrail checks.
func said(side Side) string {
	if side == SideInput {
		return "message"
	}
	return "answer"
}

// FailGuardrail records that the tool of a guardrail failed. The message or response is
// refused, but the Engagement continues, because nothing was decided. The error is always a
// *Refusal.
func (g *Guard) FailGuardrail(ctx context.Context, b Binding, side Side, cause error) error {
	if b.Agent == nil {
		return refusedUnknown(&b)
	}
	guardrail := b.Agent.Guardrail(side)
	if guardrail == nil {
		return refuseStore(&b, "", isMade(side), cause)
	}
	if cause == nil {
		cause = errNoAnswer
	}
	refusal := &Refusal{
		Kind: KindUnchecked, Agent: b.Agent.Name, Engagement: b.Engagement, Name: guardrail.Tool, Rule: guardrail.Assertion.Rule,
		RetryAfter: retryStore, Made: isMade(side), cause: cause, Message: fmt.Sprintf(
			"the %s cannot be checked just now, because the tool %s of the guardrail gives no answer that can be used: try again later", said(side), guardrail.Tool),
	}
	if err := g.recordGuardrail(ctx, b, side, func(t *turn) *Refusal {
		t.log(Entry{What: EntryGuardrail, Name: guardrail.Tool, Side: side, Rule: refusal.Rule, Kind: KindUnchecked, Why: cut(cause.Error(), maxWhy)})
		t.state.Refused++
		return refusal
	}); err != nil {
		return err
	}
	return refusal
}

var errNoAnswer = errors.New("the tool has not answered")

// recordGuardrail runs record on an Engagement that has not ended. The error is a *Refusal.
func (g *Guard) recordGuardrail(ctx context.Context, b Binding, side Side, record func(*turn) *Refusal) error {
	made := isMade(side)
	if err := b.check(); err != nil {
		return &Refusal{Kind: KindInvalid, Agent: b.Agent.Name, Engagement: b.Engagement, Message: err.Error(), Made: made}
	}
	var refusal *Refusal
	begin := func(now time.Time) *state { return newState(&b, now) }
	err := g.change(ctx, b.Key(), begin, func(t *turn) error {
		refusal = nil
		switch {
		case t.state.Ended != 0:
			refusal = refusedEnded(t.state)
			return errUnchanged
		case t.record.length >= maxLength:
			refusal = &Refusal{Kind: KindEnded, Message: "the Engagement has as many entries as it may have"}
			return errUnchanged
		}
		refusal = record(t)
		return nil
	})
	if err != nil {
		return refuseStore(&b, "", made, err)
	}
	if refusal == nil {
		return nil
	}
	refusal.Agent, refusal.Engagement, refusal.Made = b.Agent.Name, b.Engagement, made
	g.notifyEnd(refusal, b.User)
	return refusal
}

// CheckActive returns a *Refusal if the Engagement has ended. Call it before a guardrail's
// tool is invoked.
func (g *Guard) CheckActive(ctx context.Context, b Binding) error {
	if b.Agent == nil {
		return refusedUnknown(&b)
	}
	var refusal *Refusal
	err := g.look(ctx, b.Key(), func(t *turn) error {
		if t.state.Ended != 0 {
			refusal = refusedEnded(t.state)
			refusal.Agent, refusal.Engagement = b.Agent.Name, b.Engagement
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrNoEngagement):
		return nil
	case err != nil:
		return refuseStore(&b, "", false, err)
	case refusal != nil:
		return refusal
	}
	return nil
}

func refusedUnknown(b *Binding) *Refusal {
	return &Refusal{Kind: KindUnknownAgent, Engagement: b.Engagement, Message: "no agent document governs this, so nothing was done"}
}
