package oagent

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// try judges an assertion in log only, as evaluate does. It returns an error only if the transaction must read more of the record.
func (c *check) try(ctx context.Context, t *engagement.Tx, a *assertion.Assertion, nth int64, outputs jsontext.Value) error {
	if c.trial.skipped {
		return nil
	}
	unmet, err := c.evaluate(ctx, t, a, nth, outputs)
	_, reads := errors.AsType[*engagement.UnreadError](err)
	switch {
	case reads:
		c.trial.unread = a.Rule
		return err
	case err != nil || isUnjudged(unmet):
		c.trial.incomplete = a.Rule
	case unmet != nil:
		c.trial.note(logonly.Refuse, a.Rule, assertion.Explain(unmet))
	}
	return nil
}

// isUnjudged reports whether an assertion was not judged: the evaluation took too long, or the record does not have a value. A member that
// a call never had is judged, since a rule that is enforced refuses the call then.
func isUnjudged(unmet error) bool {
	_, omitted := errors.AsType[*engagement.OmittedError](unmet)
	return omitted || celenv.IsInterrupted(unmet)
}

// tryReview notes that a restriction in log only would have required a review that no other rule requires.
func (c *check) tryReview(r *Restriction) {
	if r.RequireReview == "" {
		return
	}
	if c.side == engagement.SideInput && slices.ContainsFunc(c.ticket.requiredReviews(), func(other RequiredReview) bool { return other.Reviewer == r.RequireReview }) {
		return
	}
	c.trial.note(logonly.Hold, c.ticket.Capability.reviewRule(c.side), "the reviewer "+r.RequireReview+" must approve it")
}

func (t *trial) note(effect, rule, why string) {
	if t.would.Effect == "" {
		t.would = logonly.Would{Effect: effect, Rule: rule, Why: text.Cut(why, engagement.MaxReason)}
	}
}

// TryGuardrail is CheckGuardrail for an agent with GuardrailsLogOnly: it refuses nothing, and records what the guardrail would have done.
// The error says why the guardrail could not be judged.
func (g *Guard) TryGuardrail(ctx context.Context, b Binding, side engagement.Side, output jsontext.Value) (logonly.Would, error) {
	guardrail := b.Agent.Guardrail(side)
	failed := guardrail.Assertion.CheckOutput(ctx, output)
	if failed != nil && (ctx.Err() != nil || isUnjudged(failed) || isToolFailure(failed, output)) {
		return logonly.Would{}, cmp.Or(ctx.Err(), errors.New(assertion.Explain(failed)))
	}
	e := engagement.Entry{Event: engagement.EntryGuardrail, Name: guardrail.Tool, Side: side, Rule: guardrail.Assertion.Rule}
	if failed != nil {
		e.Would = logonly.Would{Effect: logonly.Refuse, Rule: e.Rule, Why: assertion.Explain(failed)}
	}
	outputs := checkOutputs(output)
	err := g.recordGuardrail(ctx, b, side, func(t *engagement.Tx) *engagement.Refusal {
		e := e
		e.Outputs = t.Keep(outputs)
		t.Prolong = true
		t.Log(e)
		return nil
	})
	return e.Would, err
}
