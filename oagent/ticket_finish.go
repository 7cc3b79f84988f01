package oagent

import (
	"context"
	"errors"
	"fmt"
)

// finish decides about the result of a call. As in decision, decide runs inside a transaction
// on the record, and reach does the slow work between two runs.
type finish struct {
	ctx     context.Context
	ticket  *Ticket
	outputs payload
	status  int

	prepared *Review // stored in advance, in case a review is required
	approved string  // id of the review to check for an approval
	first    bool    // this call is the first to get the result
	released int64   // when the result was released; 0 if it was not

	refusal *Refusal
	prepare bool
	wait    *asked
}

// reach runs decide until the result is released or refused. The error is an error of the
// store.
func (f *finish) reach() error {
	g := f.ticket.guard
	var wait *reviewWait
	for range maxTries {
		ctx, cancel := recordContext(f.ctx)
		err := g.change(ctx, f.ticket.Key, nil, f.decide)
		if err == nil && f.prepare {
			f.prepared, err = g.prepareReview(ctx, f.newReview())
		}
		cancel()
		switch {
		case err != nil:
			return err
		case f.prepare:
		case f.wait != nil:
			if wait == nil {
				wait = newReviewWait(g)
			}
			if err := f.await(wait); err != nil || f.refusal != nil {
				return err
			}
		default:
			f.tidy()
			return nil
		}
	}
	return errContended
}

// tidy deletes what the store no longer needs of a review.
func (f *finish) tidy() {
	if f.prepared == nil {
		return
	}
	ctx, cancel := recordContext(f.ctx)
	defer cancel()
	if f.approved == "" { // the prepared review was not needed
		f.ticket.guard.dropReview(ctx, f.prepared.ID)
		return
	}
	if f.first {
		f.ticket.guard.shareReleased(ctx, f.prepared)
	}
	if f.released != 0 {
		f.ticket.guard.lingerReleased(f.ctx, f.released)
	}
}

// decide is one run of the decision, inside a transaction.
func (f *finish) decide(t *turn) error {
	f.refusal, f.prepare, f.wait, f.first, f.released = nil, false, nil, false, 0
	if t.state.Born != f.ticket.born {
		return f.refuseLate(t)
	}
	if t.state.Ended != 0 {
		r := refusedEnded(t.state)
		r.Message = "the call was made, but its result is withheld: " + r.Message
		return f.refuse(t, r)
	}
	if f.approved != "" {
		return f.decideReview(t)
	}
	output := f.ticket.Capability.Output
	if output != nil && output.Assertion != nil {
		if err := f.checkAssertion(t, output.Assertion); err != nil || f.refusal != nil {
			return err
		}
	}
	if output != nil && output.RequireReview != "" {
		return f.ask(t)
	}
	e := f.entry()
	e.What = EntryFinished
	t.prolong = true
	t.finished(e, f.ticket.Capability, f.recorded())
	return nil
}

// recorded returns the outputs for the record: the outputs, or a Shed.
func (f *finish) recorded() payload {
	if why := f.ticket.Unrecorded; why != "" && f.outputs != nil {
		return Shed{Bytes: int64(len(f.outputs)), Why: why}.JSON()
	}
	return f.outputs
}

func (f *finish) entry() Entry {
	return Entry{Call: f.ticket.Number, Nth: f.ticket.Nth, Name: f.ticket.call.Name, Status: f.status}
}

func (f *finish) checkAssertion(t *turn, a *Assertion) error {
	v := &view{record: t.record, state: t.state, pending: &pending{
		name: f.ticket.call.Name, nth: f.ticket.Nth, inputs: f.ticket.inputs, outputs: f.outputs,
	}}
	// A disconnected client must not release an unchecked result, and is no reason to report
	// that the assertion fails.
	err := a.Check(context.Background(), v)
	switch {
	case v.wants.any():
		return &wantsError{v.wants}
	case err == nil:
		return nil
	}
	return f.refuse(t, &Refusal{
		Kind: KindOutputRestriction,
		Rule: a.Rule,
		Message: fmt.Sprintf("the call of %s was made, but its result is withheld: %s; do not repeat it for that reason, go on without the result",
			f.ticket.call.Name, tellWithheld(err, &f.ticket.call)),
		cause: err,
	})
}

// refuse records that the result is withheld. The record does not keep the result.
func (f *finish) refuse(t *turn, r *Refusal) error {
	f.refusal = f.fill(r)
	e := f.entry()
	e.What, e.Kind, e.Rule, e.Why = EntryFinished, r.Kind, r.Rule, cut(r.Message, maxWhy)
	if r.cause != nil {
		e.Why = cut(r.cause.Error(), maxWhy)
	}
	t.log(e)
	t.state.Refused++
	return nil
}

// refuseLate withholds the result of a call whose Engagement was renewed while the call was
// running. Only the old Engagement could decide about the result.
func (f *finish) refuseLate(t *turn) error {
	f.refusal = f.fill(&Refusal{Kind: KindEnded, Message: fmt.Sprintf(
		"the call of %s was made, but its result is withheld, because its Engagement was ended and begun anew meanwhile: find out what the call did before you repeat it",
		f.ticket.call.Name)})
	e := f.entry()
	e.What, e.Kind = EntryLate, KindEnded
	t.log(e)
	return nil
}

func (f *finish) fill(r *Refusal) *Refusal {
	c := &f.ticket.call
	r.Agent, r.Engagement, r.Name, r.Made = c.Agent.Name, c.Engagement, c.Name, true
	return r
}

func (f *finish) rule() string {
	return f.ticket.Capability.Rule() + ".output_restriction.require_review"
}

func (f *finish) newReview() *Review {
	t := f.ticket
	r := t.guard.newReview(&t.call, SideOutput, t.inputs, hashInputs(t.inputs))
	r.setReviewer(&t.call, t.Capability.Output.RequireReview)
	r.Rule = f.rule()
	r.Outputs, r.Result = f.outputs, f.status
	return r
}

// ask holds the result until its reviewer has decided.
func (f *finish) ask(t *turn) error {
	limit := t.guard.options.MaxPayload
	switch {
	case isShed(f.recorded()):
		return f.refuse(t, &Refusal{Kind: KindOutputRestriction, Rule: f.rule(), Message: fmt.Sprintf(
			"the call of %s was made, but its result is withheld: somebody must confirm it, and it cannot be shown, because it%s",
			f.ticket.call.Name, shedFrom(f.recorded()).reason())})
	case len(f.outputs) > limit || len(f.ticket.inputs) > limit:
		return f.refuse(t, &Refusal{Kind: KindOutputRestriction, Rule: f.rule(), Message: fmt.Sprintf(
			"the call of %s was made, but its result is withheld: somebody must confirm it, and its inputs or outputs are too large to be shown; the limit is %d bytes, and the operator can raise max_recorded",
			f.ticket.call.Name, limit)})
	case t.pendingReviews() >= maxPending:
		return f.refuse(t, &Refusal{Kind: KindOutputRestriction, Rule: f.rule(), Message: fmt.Sprintf(
			"the call of %s was made, but its result is withheld: somebody must confirm it, and %d calls of this Engagement are waiting for that already",
			f.ticket.call.Name, maxPending)})
	case f.prepared == nil:
		f.prepare = true
		return errUnchanged
	}
	a := *t.ask(f.prepared, f.ticket.Number, f.ticket.Nth)
	e := f.entry()
	e.What, e.Review = EntryHeld, a.ID
	t.log(e)
	f.wait = &a
	return nil
}

// await waits for the decision of the review, or refuses the result.
func (f *finish) await(w *reviewWait) error {
	g := f.ticket.guard
	ctx, cancel := recordContext(f.ctx)
	review, err := g.openReview(ctx, f.wait, func() *Review { return f.prepared })
	cancel()
	if errors.Is(err, errBusyReviewer) {
		f.refusal = f.fill(refusedBusy(f.prepared))
		return nil
	}
	if err != nil {
		return err
	}
	decided, err := g.awaitReview(f.ctx, review.ID, w.until)
	if err != nil {
		return err
	}
	if !decided {
		f.refusal = f.fill(refusedPending(review))
		return nil
	}
	f.approved = review.ID
	return nil
}

// decideReview releases the result if its review was approved.
func (f *finish) decideReview(t *turn) error {
	i := t.findReview(func(a *asked) bool { return a.ID == f.approved })
	if i < 0 {
		// An identical call was faster and got the result.
		f.refusal = f.fill(&Refusal{
			Kind: KindReviewDenied, Rule: f.rule(), Review: f.approved,
			Message: fmt.Sprintf("the call of %s was made, and its result was given to an identical call", f.ticket.call.Name),
		})
		return errUnchanged
	}
	a := t.state.Reviews[i]
	switch a.Status {
	case ReviewApproved:
		t.release(&i, f.ticket.Capability, f.outputs, f.status)
		f.first, f.released = true, t.state.Reviews[i].Released
		return nil
	case reviewReleased: // a parallel repetition was faster
		t.repeat(&a, f.status)
		f.released = a.Released
		return nil
	case ReviewDenied:
		f.refusal = f.fill(refusedReview(&a, f.rule()))
		return errUnchanged
	}
	f.wait = &a
	return errUnchanged
}
