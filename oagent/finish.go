package oagent

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// finish decides about the result of a call. As in decision, decide runs inside a transaction on
// the record, and run does the slow work between two calls of decide.
type finish struct {
	ctx     context.Context
	ticket  *Ticket
	outputs jsontext.Value
	status  int

	prepared *review.Review // stored in advance, in case a review is required
	approved string         // id of the review to check for an approval
	first    bool           // this call is the first to get the result
	released int64          // when the result was released; 0 if it was not

	view    assertion.View // of the assertion that is evaluated
	pending assertion.Pending

	refusal *engagement.Refusal
	prepare bool
	wait    *engagement.RequestedReview
}

// run calls decide until the result is released or refused. The error is an error of the store.
func (f *finish) run() error {
	g := f.ticket.guard
	var wait *reviewWait
	for range engagement.MaxTries {
		ctx, cancel := engagement.Detach(f.ctx)
		err := g.Engagements.Change(ctx, f.ticket.Key, nil, f.decide)
		if err == nil && f.prepare {
			f.prepared, err = g.Reviews.Prepare(ctx, f.newReview())
		}
		cancel()
		switch {
		case err != nil:
			return err
		case f.prepare:
		case f.wait != nil:
			if wait == nil {
				wait = newReviewWait(g, &f.ticket.call)
			}
			if err := f.await(wait); err != nil || f.refusal != nil {
				return err
			}
		default:
			f.cleanUp()
			return nil
		}
	}
	return engagement.ErrContended
}

// cleanUp deletes data of a review that the store no longer needs.
func (f *finish) cleanUp() {
	if f.prepared == nil {
		return
	}
	ctx, cancel := engagement.Detach(f.ctx)
	defer cancel()
	if f.approved == "" { // the prepared review was not needed
		f.ticket.guard.Reviews.Drop(ctx, f.prepared.ID)
		return
	}
	if f.first {
		f.ticket.guard.Reviews.ShareReleased(ctx, f.prepared)
	}
	if f.released != 0 {
		f.ticket.guard.Reviews.AwaitReleased(f.ctx, f.released)
	}
}

// decide sets the outcome, inside a transaction.
func (f *finish) decide(t *engagement.Tx) error {
	f.refusal, f.prepare, f.wait, f.first, f.released = nil, false, nil, false, 0
	if t.State.Born != f.ticket.born {
		return f.refuseLate(t)
	}
	if t.State.Ended != 0 {
		r := t.State.Refusal()
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
		return f.requestReview(t)
	}
	e := f.entry()
	e.Event = engagement.EntryFinished
	t.Prolong = true
	t.Finish(e, f.ticket.Capability.collected(f.recorded()))
	return nil
}

// recorded returns the outputs for the record: the outputs, or an engagement.Omitted.
func (f *finish) recorded() jsontext.Value {
	if why := f.ticket.Unrecorded; why != "" && f.outputs != nil {
		return engagement.Omitted{Bytes: int64(len(f.outputs)), Why: why}.JSON()
	}
	return f.outputs
}

func (f *finish) entry() engagement.Entry {
	return engagement.Entry{Call: f.ticket.Number, Nth: f.ticket.Nth, Name: f.ticket.call.Name, Status: f.status}
}

func (f *finish) checkAssertion(t *engagement.Tx, a *assertion.Assertion) error {
	f.pending = assertion.Pending{
		Name: f.ticket.call.Name, Nth: f.ticket.Nth, Payloads: engagement.Payloads{Inputs: f.ticket.inputs, Outputs: f.outputs},
	}
	f.view = assertion.View{Tx: t, Pending: &f.pending}
	v := &f.view
	// Use a context that is not canceled: if the client disconnects, the result must still be checked,
	// and the assertion must not be reported as failed.
	err := a.Check(context.Background(), v)
	switch {
	case v.Unread.Any():
		return &engagement.UnreadError{Unread: v.Unread}
	case err == nil:
		return nil
	}
	return f.refuse(t, &engagement.Refusal{
		Kind: engagement.KindOutputRestriction,
		Rule: a.Rule,
		Message: fmt.Sprintf("the call of %s was made, but its result is withheld: %s; do not repeat it, continue without the result",
			f.ticket.call.Name, explainWithheld(err, &f.ticket.call)),
		Cause: err,
	})
}

// refuse records that the result is withheld. The result is not recorded.
func (f *finish) refuse(t *engagement.Tx, r *engagement.Refusal) error {
	f.refusal = f.complete(r)
	e := f.entry()
	e.Event, e.Kind, e.Rule, e.Why = engagement.EntryFinished, r.Kind, r.Rule, engagement.Shorten(r.Message, engagement.MaxReason)
	if r.Cause != nil {
		e.Why = engagement.Shorten(r.Cause.Error(), engagement.MaxReason)
	}
	t.Log(e)
	t.State.Refused++
	return nil
}

// refuseLate withholds the result of a call whose Engagement was renewed while the call was
// running. Only the old Engagement could decide about the result.
func (f *finish) refuseLate(t *engagement.Tx) error {
	f.refusal = f.complete(&engagement.Refusal{Kind: engagement.KindEnded, Message: fmt.Sprintf(
		"the call of %s was made, but its result is withheld, because its Engagement was renewed during the call; check the effect of the call before you repeat it",
		f.ticket.call.Name)})
	e := f.entry()
	e.Event, e.Kind = engagement.EntryLate, engagement.KindEnded
	t.Log(e)
	return nil
}

func (f *finish) complete(r *engagement.Refusal) *engagement.Refusal {
	c := &f.ticket.call
	r.Agent, r.Engagement, r.Name, r.Made = c.Agent.Name, c.Engagement, c.Name, true
	return r
}

func (f *finish) rule() string {
	return f.ticket.Capability.Rule() + ".output_restriction.require_review"
}

func (f *finish) newReview() *review.Review {
	t := f.ticket
	r := t.call.newReview(t.guard, engagement.SideOutput, t.inputs, hashInputs(t.inputs), t.Capability.Output.RequireReview)
	r.Rule, r.Trace = f.rule(), calltrace.Parent(f.ctx)
	r.Outputs, r.Result = f.outputs, f.status
	return r
}

// requestReview holds the result until its reviewer has decided.
func (f *finish) requestReview(t *engagement.Tx) error {
	limit := f.ticket.guard.options.MaxPayload
	switch {
	case engagement.IsOmitted(f.recorded()):
		return f.refuse(t, &engagement.Refusal{Kind: engagement.KindOutputRestriction, Rule: f.rule(), Message: fmt.Sprintf(
			"the call of %s was made, but its result is withheld: it needs a review, and a reviewer cannot see it, because it%s",
			f.ticket.call.Name, engagement.OmissionOf(f.recorded()).Reason())})
	case len(f.outputs) > limit || len(f.ticket.inputs) > limit:
		return f.refuse(t, &engagement.Refusal{Kind: engagement.KindOutputRestriction, Rule: f.rule(), Message: fmt.Sprintf(
			"the call of %s was made, but its result is withheld: it needs a review, and its inputs or outputs are too large for a reviewer to see; the limit is %d bytes, and the operator can raise max_recorded",
			f.ticket.call.Name, limit)})
	case f.ticket.guard.Reviews.Requests(t).Pending() >= review.MaxPending:
		return f.refuse(t, &engagement.Refusal{Kind: engagement.KindOutputRestriction, Rule: f.rule(), Message: fmt.Sprintf(
			"the call of %s was made, but its result is withheld: it needs a review, and %d calls of this Engagement already wait for one",
			f.ticket.call.Name, review.MaxPending)})
	case f.prepared == nil:
		f.prepare = true
		return engagement.ErrUnchanged
	}
	a := *f.ticket.guard.Reviews.Requests(t).Add(f.prepared, f.ticket.Number, f.ticket.Nth)
	e := f.entry()
	e.Event, e.Review = engagement.EntryHeld, a.ID
	t.Log(e)
	f.wait = &a
	return nil
}

// await waits for the decision of the review, or refuses the result.
func (f *finish) await(w *reviewWait) error {
	g := f.ticket.guard
	ctx, cancel := engagement.Detach(f.ctx)
	request, err := g.Reviews.Open(ctx, f.wait, func() *review.Review { return f.prepared })
	cancel()
	if errors.Is(err, review.ErrBusy) {
		f.refusal = f.complete(busyRefusal(f.prepared))
		return nil
	}
	if err != nil {
		return err
	}
	decided, err := g.Reviews.Await(f.ctx, request.ID, w.until)
	if err != nil {
		return err
	}
	if !decided {
		f.refusal = f.complete(pendingRefusal(request))
		return nil
	}
	f.approved = request.ID
	return nil
}

// decideReview releases the result if its review was approved.
func (f *finish) decideReview(t *engagement.Tx) error {
	i := f.ticket.guard.Reviews.Requests(t).Find(func(a *engagement.RequestedReview) bool { return a.ID == f.approved })
	if i < 0 {
		// A concurrent identical call got the result.
		f.refusal = f.complete(&engagement.Refusal{
			Kind: engagement.KindReviewDenied, Rule: f.rule(), Review: f.approved,
			Message: fmt.Sprintf("the call of %s was made, and its result was returned to a concurrent identical call", f.ticket.call.Name),
		})
		return engagement.ErrUnchanged
	}
	a := t.State.Reviews[i]
	switch a.Status {
	case engagement.ReviewApproved:
		f.ticket.guard.Reviews.Requests(t).Release(&i, f.ticket.Capability.collected(f.outputs), f.status)
		f.first, f.released = true, t.State.Reviews[i].Released
		return nil
	case engagement.ReviewReleased: // to a concurrent identical call
		f.ticket.guard.Reviews.Requests(t).Repeat(&a, f.status)
		f.released = a.Released
		return nil
	case engagement.ReviewDenied:
		f.refusal = f.complete(denied(&a, f.rule()))
		return engagement.ErrUnchanged
	}
	f.wait = &a
	return engagement.ErrUnchanged
}
