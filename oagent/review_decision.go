package oagent

import (
	"errors"
	"fmt"
	"time"
)

// reviewWait is the remaining time that one call waits for its reviewer.
type reviewWait struct{ until time.Time }

func newReviewWait(g *Guard) *reviewWait {
	return &reviewWait{until: time.Now().Add(g.waitFor())}
}

// newReview returns the review that the input restriction requires.
func (d *decision) newReview() *Review {
	r := d.guard.newReview(d.call, SideInput, d.inputs, d.hash())
	r.setReviewer(d.call, d.capability.Input.RequireReview)
	r.Rule = d.capability.Rule() + ".input_restriction.require_review"
	return r
}

// prepareReview stores the review. If its reviewer has too many open reviews, it refuses the
// call.
func (d *decision) prepareReview() (err error) {
	r := d.newReview()
	d.prepared, err = d.guard.prepareReview(d.ctx, r)
	if errors.Is(err, errBusyReviewer) {
		d.refusal = d.fill(refusedBusy(r))
		d.refusal.Review = "" // no review was stored
		return nil
	}
	return err
}

// decideReview lets the call pass if its reviewer has approved it (OpenAgentSpec v1,
// restriction, require_review).
func (d *decision) decideReview(t *turn) error {
	reviewer := d.capability.Input.RequireReview
	rule := d.capability.Rule() + ".input_restriction.require_review"
	i := t.findReview(func(a *asked) bool {
		return a.Side == SideInput && a.Name == d.call.Name && a.Inputs == d.hash() && a.Reviewer == reviewer && a.Document == d.call.Agent.Hash
	})
	if i < 0 {
		return d.ask(t, rule)
	}
	switch a := t.state.Reviews[i]; a.Status {
	case ReviewApproved:
		t.dropReview(i)
		d.pass(t, a.ID)
		return nil
	case ReviewDenied:
		return d.refuse(t, refusedReview(&a, rule))
	default:
		d.wait = &a
		return errUnchanged
	}
}

func (d *decision) ask(t *turn, rule string) error {
	switch {
	case len(d.inputs) > t.guard.options.MaxPayload:
		return d.refuse(t, &Refusal{Kind: KindInputRestriction, Rule: rule, Message: fmt.Sprintf(
			"the call of %s was not made: somebody must confirm it, and its inputs of %d bytes are too large to be shown; the limit is %d, and the operator can raise max_recorded",
			d.call.Name, len(d.inputs), t.guard.options.MaxPayload)})
	case t.pendingReviews() >= maxPending:
		return d.refuse(t, &Refusal{Kind: KindReviewPending, Rule: rule, RetryAfter: retryReview, Message: fmt.Sprintf(
			"the call of %s was not made: somebody must confirm it, and %d calls of this Engagement are waiting for that already; try again when those are decided",
			d.call.Name, maxPending)})
	case d.prepared == nil:
		d.prepare = true
		return errUnchanged
	}
	a := *t.ask(d.prepared, 0, 0)
	d.wait = &a
	return nil
}

// await waits for the decision of a review, or refuses the call.
func (d *decision) await(w *reviewWait) error {
	waiting := *d.wait
	review, err := d.guard.openReview(d.ctx, &waiting, func() *Review {
		if waiting.Side == SideOutput {
			return nil // its outputs are lost
		}
		r := d.newReview()
		r.ID = waiting.ID
		return r
	})
	if d.prepared != nil && d.prepared.ID != waiting.ID {
		d.guard.dropReview(d.ctx, d.prepared.ID) // an identical call was faster
	}
	d.prepared = nil
	switch {
	case errors.Is(err, ErrNoReview):
		d.lost = waiting.ID
		return nil
	case errors.Is(err, errBusyReviewer):
		d.refusal = d.fill(refusedBusy(review))
		return nil
	case err != nil:
		return err
	}
	decided, err := d.guard.awaitReview(d.ctx, waiting.ID, w.until)
	if err != nil || decided {
		return err
	}
	d.refusal = d.fill(refusedPending(review))
	return nil
}

func (d *decision) fill(r *Refusal) *Refusal {
	r.Agent, r.Engagement, r.Name = d.call.Agent.Name, d.call.Engagement, d.call.Name
	return r
}

// findHeld returns the index of the review of an identical call's result, or -1. If there is
// one, the call is not made again.
func (d *decision) findHeld(t *turn) int {
	return t.findReview(func(a *asked) bool {
		return a.Side == SideOutput && a.Name == d.call.Name && a.Inputs == d.hash()
	})
}

// decideHeld releases the result of an identical call if its reviewer approved it.
func (d *decision) decideHeld(t *turn, i int) error {
	a := t.state.Reviews[i]
	rule := d.capability.Rule() + ".output_restriction.require_review"
	switch {
	case a.ID == d.lost:
		t.dropReview(i)
		r := &Refusal{Kind: KindReviewDenied, Rule: rule, Review: a.ID, Made: true, Message: fmt.Sprintf(
			"an identical call of %s was made, and its result was held for a review and is lost: find out what it did before you make it again", d.call.Name)}
		return d.refuse(t, r)
	case a.Status == ReviewDenied:
		return d.refuse(t, refusedReview(&a, rule))
	case a.Status == ReviewPending:
		d.wait = &a
		return errUnchanged
	case d.held == nil || d.held.ID != a.ID:
		d.fetch = a.ID
		return errUnchanged
	}
	if err := d.checkHeld(t, &a); err != nil || d.refusal != nil {
		return err
	}
	if a.Status == reviewReleased {
		t.repeat(&a, d.held.Result)
	} else {
		t.release(&i, d.capability, d.held.Outputs, d.held.Result)
		d.first = true
	}
	d.released = t.state.Reviews[i].Released
	d.ticket = &Ticket{
		Capability: d.capability, Key: d.key, Number: a.Call, Nth: a.Nth, Review: a.ID,
		Replayed: &Replay{Outputs: d.held.Outputs, Status: d.held.Result},
		guard:    d.guard, call: *d.call, inputs: d.inputs,
	}
	return nil
}

// checkHeld refuses a held result if the document has changed since and its present output
// restriction does not hold.
func (d *decision) checkHeld(t *turn, a *asked) error {
	output := d.capability.Output
	if a.Document == d.call.Agent.Hash || output == nil {
		return nil
	}
	if reviewer := output.RequireReview; reviewer != "" && reviewer != a.Reviewer {
		return d.refuse(t, &Refusal{
			Kind: KindReviewDenied, Rule: d.capability.Rule() + ".output_restriction.require_review", Review: a.ID, Made: true,
			Message: fmt.Sprintf("an identical call of %s was made, and its result is withheld: who confirmed it is not whom the agent's document names now; go on without it",
				d.call.Name),
		})
	}
	if output.Assertion == nil {
		return nil
	}
	v := &view{record: t.record, state: t.state, pending: &pending{name: d.call.Name, nth: a.Nth, inputs: d.inputs, outputs: d.held.Outputs}}
	err := output.Assertion.Check(d.ctx, v)
	switch {
	case v.wants.any():
		return &wantsError{v.wants}
	case err == nil:
		return nil
	case d.ctx.Err() != nil:
		return d.ctx.Err()
	}
	return d.refuse(t, &Refusal{
		Kind: KindOutputRestriction, Rule: output.Assertion.Rule, Review: a.ID, Made: true, cause: err,
		Message: fmt.Sprintf("an identical call of %s was made, and its result is withheld: %s; go on without it", d.call.Name, tellWithheld(err, d.call)),
	})
}

// fetchHeld reads the held result.
func (d *decision) fetchHeld() error {
	held, err := d.guard.readHeld(d.ctx, d.fetch)
	if errors.Is(err, ErrNoReview) {
		d.lost = d.fetch
		return nil
	}
	d.held = held
	return err
}

// refusedReview refuses a call that the reviewer denied.
func refusedReview(a *asked, rule string) *Refusal {
	r := &Refusal{Kind: KindReviewDenied, Rule: rule, Review: a.ID, Made: a.Side == SideOutput}
	what := "the call of " + a.Name + " was not made"
	if r.Made {
		what = "the call of " + a.Name + " was made, and its result is withheld"
	}
	r.Message = what + ": the reviewer has denied it"
	if a.Comment != "" {
		r.Message += ", and says: " + a.Comment
	}
	r.Message += "; go on without it"
	return r
}

// refusedPending refuses a call whose reviewer has not decided.
func refusedPending(review *Review) *Refusal {
	r := &Refusal{
		Kind: KindReviewPending, Rule: review.Rule, Review: review.ID, RetryAfter: retryReview, Made: review.Side == SideOutput,
	}
	if r.Made {
		r.Message = fmt.Sprintf("the call of %s was made, and its result is withheld until it is confirmed; repeat the call with exactly these inputs later, "+
			"to get the result: it will not be made again (review %s)", review.Name, review.ID)
	} else {
		r.Message = fmt.Sprintf("the call of %s was not made: it must be confirmed first, and somebody has been asked to do so; "+
			"repeat it with exactly these inputs later (review %s)", review.Name, review.ID)
	}
	return r
}

// refusedBusy refuses a call whose reviewer has too many open reviews.
func refusedBusy(review *Review) *Refusal {
	r := refusedPending(review)
	r.Message = fmt.Sprintf("the call of %s must be confirmed, and who is to do so has too many others to decide first (there may be %d of one user, and %d of all); "+
		"repeat it with exactly these inputs later", review.Name, maxOpenOfUser, maxOpen)
	return r
}
