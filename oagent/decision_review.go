package oagent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// reviewWait is the remaining time that one call waits for its reviewer.
type reviewWait struct{ until time.Time }

func newReviewWait(g *Guard, c *Call) *reviewWait {
	if c.NoWait {
		return &reviewWait{until: time.Now()}
	}
	return &reviewWait{until: time.Now().Add(max(g.options.ReviewWait, 0))}
}

// newReview returns a review of the call. The reviewer is an agent if the reference can only
// mean an agent, or if the server has an agent with that name.
func (c *Call) newReview(g *Guard, side engagement.Side, inputs jsontext.Value, hash, reviewer string) *review.Review {
	r := review.Review{
		Side:       side,
		Agent:      c.Agent.Name,
		Engagement: c.Engagement,
		Key:        c.Key(),
		User:       c.User,
		Name:       c.Name,
		Inputs:     inputs,
		InputsHash: hash,
		Document:   c.Agent.Hash,
		Reviewer:   reviewer,
	}
	name, isAgent := strings.CutPrefix(reviewer, Scheme)
	if isAgent && CheckName(name) == nil || c.Names != nil && c.Names.Agent(reviewer) {
		r.ByAgent = name
	}
	return g.Reviews.New(r)
}

// newReview returns the review that the input restriction requires.
func (d *decision) newReview() *review.Review {
	r := d.call.newReview(d.guard, engagement.SideInput, d.inputs, d.hash(), d.capability.Input.RequireReview)
	r.Rule = d.capability.Rule() + ".input_restriction.require_review"
	r.Trace = calltrace.Parent(d.ctx)
	return r
}

// prepareReview stores the review. If its reviewer has too many open reviews, it refuses the
// call.
func (d *decision) prepareReview() (err error) {
	r := d.newReview()
	d.prepared, err = d.guard.Reviews.Prepare(d.ctx, r)
	if errors.Is(err, review.ErrBusy) {
		d.refusal = d.complete(busyRefusal(r))
		d.refusal.Review = "" // no review was stored
		return nil
	}
	return err
}

// findReview returns the index of the review of the call's inputs, or -1. A call that passes removes
// its review, so there is none if the call may have been made.
func (d *decision) findReview(t *engagement.Tx) int {
	if d.capability.Input == nil || d.capability.Input.RequireReview == "" {
		return -1
	}
	return d.guard.Reviews.Requests(t).Find(func(a *engagement.RequestedReview) bool {
		return a.Side == engagement.SideInput && a.Name == d.call.Name && a.Inputs == d.hash() &&
			a.Reviewer == d.capability.Input.RequireReview && a.Document == d.call.Agent.Hash
	})
}

// decideReview lets the call pass if its reviewer has approved it (OpenAgentSpec v1,
// restriction, require_review).
func (d *decision) decideReview(t *engagement.Tx) error {
	rule := d.capability.Rule() + ".input_restriction.require_review"
	i := d.findReview(t)
	if i < 0 {
		return d.requestReview(t, rule)
	}
	switch a := t.State.Reviews[i]; a.Status {
	case engagement.ReviewApproved:
		d.guard.Reviews.Requests(t).Drop(i)
		d.pass(t, a.ID)
		return nil
	case engagement.ReviewDenied:
		return d.refuse(t, denied(&a, rule))
	default:
		d.wait = &a
		return engagement.ErrUnchanged
	}
}

func (d *decision) requestReview(t *engagement.Tx, rule string) error {
	switch {
	case len(d.inputs) > d.guard.options.MaxPayload:
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindInputRestriction, Rule: rule, Message: fmt.Sprintf(
			"the call of %s was not made: it needs a review, and its inputs of %d bytes are too large for a reviewer to see; the limit is %d bytes, and the operator can raise max_recorded",
			d.call.Name, len(d.inputs), d.guard.options.MaxPayload)})
	case d.guard.Reviews.Requests(t).Pending() >= review.MaxPending:
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindReviewPending, Rule: rule, RetryAfter: review.RetryPending, Message: fmt.Sprintf(
			"the call of %s was not made: it needs a review, and %d calls of this Engagement already wait for one; try again when those are decided",
			d.call.Name, review.MaxPending)})
	case d.prepared == nil:
		d.prepare = true
		return engagement.ErrUnchanged
	}
	a := *d.guard.Reviews.Requests(t).Add(d.prepared, 0, 0)
	d.wait = &a
	return nil
}

// await waits for the decision of a review, or refuses the call.
func (d *decision) await(w *reviewWait) error {
	waiting := *d.wait
	request, err := d.guard.Reviews.Open(d.ctx, &waiting, func() *review.Review {
		if waiting.Side == engagement.SideOutput {
			return nil // the outputs are lost
		}
		r := d.newReview()
		r.ID = waiting.ID
		return r
	})
	if d.prepared != nil && d.prepared.ID != waiting.ID {
		d.guard.Reviews.Drop(d.ctx, d.prepared.ID) // the review of a concurrent identical call is used instead
	}
	d.prepared = nil
	switch {
	case errors.Is(err, review.ErrNotFound):
		d.lost = waiting.ID
		return nil
	case errors.Is(err, review.ErrBusy):
		d.refusal = d.complete(busyRefusal(request))
		return nil
	case err != nil:
		return err
	}
	decided, err := d.guard.Reviews.Await(d.ctx, waiting.ID, w.until)
	if err != nil || decided {
		return err
	}
	d.refusal = d.complete(pendingRefusal(request))
	return nil
}

func (d *decision) complete(r *engagement.Refusal) *engagement.Refusal {
	r.Agent, r.Engagement, r.Name = d.call.Agent.Name, d.call.Engagement, d.call.Name
	return r
}

// findHeld returns the index of the review of an identical call's result, or -1. If there is
// one, the call is not made again.
func (d *decision) findHeld(t *engagement.Tx) int {
	return d.guard.Reviews.Requests(t).Find(func(a *engagement.RequestedReview) bool {
		return a.Side == engagement.SideOutput && a.Name == d.call.Name && a.Inputs == d.hash()
	})
}

// decideHeld releases the result of an identical call if its reviewer approved it.
func (d *decision) decideHeld(t *engagement.Tx, i int) error {
	a := t.State.Reviews[i]
	rule := d.capability.Rule() + ".output_restriction.require_review"
	switch {
	case a.ID == d.lost:
		d.guard.Reviews.Requests(t).Drop(i)
		r := &engagement.Refusal{Kind: engagement.KindReviewDenied, Rule: rule, Review: a.ID, Made: true, Message: fmt.Sprintf(
			"an identical call of %s was made, and its result was held for a review and is lost: check its effect before you repeat it", d.call.Name)}
		return d.refuse(t, r)
	case a.Status == engagement.ReviewDenied:
		return d.refuse(t, denied(&a, rule))
	case a.Status == engagement.ReviewPending:
		d.wait = &a
		return engagement.ErrUnchanged
	case d.held == nil || d.held.ID != a.ID:
		d.fetch = a.ID
		return engagement.ErrUnchanged
	}
	if err := d.checkHeld(t, &a); err != nil || d.refusal != nil {
		return err
	}
	if a.Status == engagement.ReviewReleased {
		d.guard.Reviews.Requests(t).Repeat(&a, d.held.Result)
	} else {
		d.guard.Reviews.Requests(t).Release(&i, d.capability.collected(d.held.Outputs), d.held.Result)
		d.first = true
	}
	d.released = t.State.Reviews[i].Released
	d.ticket = &Ticket{
		Capability: d.capability, Key: d.key, Number: a.Call, Nth: a.Nth, Review: a.ID,
		Replayed: &Replay{Outputs: d.held.Outputs, Status: d.held.Result},
		guard:    d.guard, call: d.call, inputs: d.inputs,
	}
	return nil
}

// checkHeld refuses a held result if the document has changed since the call and its current output
// restriction does not hold.
func (d *decision) checkHeld(t *engagement.Tx, a *engagement.RequestedReview) error {
	output := d.capability.Output
	if a.Document == d.call.Agent.Hash || output == nil {
		return nil
	}
	if reviewer := output.RequireReview; reviewer != "" && reviewer != a.Reviewer {
		return d.refuse(t, &engagement.Refusal{
			Kind: engagement.KindReviewDenied, Rule: d.capability.Rule() + ".output_restriction.require_review", Review: a.ID, Made: true,
			Message: fmt.Sprintf("an identical call of %s was made, and its result is withheld: the agent's document now names another reviewer than the one who approved it; continue without it",
				d.call.Name),
		})
	}
	if output.Assertion == nil {
		return nil
	}
	v := &assertion.View{Tx: t, Pending: &assertion.Pending{
		Name: d.call.Name, Nth: a.Nth, Payloads: engagement.Payloads{Inputs: d.inputs, Outputs: d.held.Outputs},
	}}
	err := output.Assertion.Check(d.ctx, v)
	switch {
	case v.Unread.Any():
		return &engagement.UnreadError{Unread: v.Unread}
	case err == nil:
		return nil
	case d.ctx.Err() != nil:
		return d.ctx.Err()
	}
	return d.refuse(t, &engagement.Refusal{
		Kind: engagement.KindOutputRestriction, Rule: output.Assertion.Rule, Review: a.ID, Made: true, Cause: err,
		Message: fmt.Sprintf("an identical call of %s was made, and its result is withheld: %s; continue without it", d.call.Name, explainWithheld(err, &d.call)),
	})
}

// fetchHeld reads the held result.
func (d *decision) fetchHeld() error {
	held, err := d.guard.Reviews.Held(d.ctx, d.fetch)
	if errors.Is(err, review.ErrNotFound) {
		d.lost = d.fetch
		return nil
	}
	d.held = held
	return err
}

// denied returns the refusal of a call that the reviewer denied.
func denied(a *engagement.RequestedReview, rule string) *engagement.Refusal {
	r := &engagement.Refusal{Kind: engagement.KindReviewDenied, Rule: rule, Review: a.ID, Made: a.Side == engagement.SideOutput}
	message := "the call of " + a.Name + " was not made"
	if r.Made {
		message = "the call of " + a.Name + " was made, and its result is withheld"
	}
	r.Message = message + ": the reviewer denied it"
	if a.Comment != "" {
		r.Message += ", with the comment: " + a.Comment
	}
	r.Message += "; continue without it"
	return r
}

// pendingRefusal returns the refusal of a call whose reviewer has not decided yet.
func pendingRefusal(request *review.Review) *engagement.Refusal {
	r := &engagement.Refusal{
		Kind: engagement.KindReviewPending, Rule: request.Rule, Review: request.ID, RetryAfter: review.RetryPending, Made: request.Side == engagement.SideOutput,
	}
	if r.Made {
		r.Message = fmt.Sprintf("the call of %s was made, and its result is withheld until a reviewer approves it; repeat the call with exactly these inputs later, "+
			"to get the result; the call is not made again (review %s)", request.Name, request.ID)
	} else {
		r.Message = fmt.Sprintf("the call of %s was not made: it needs a review, which has been requested; "+
			"repeat it with exactly these inputs later (review %s)", request.Name, request.ID)
	}
	return r
}

// busyRefusal returns the refusal of a call whose reviewer has too many open reviews.
func busyRefusal(request *review.Review) *engagement.Refusal {
	r := pendingRefusal(request)
	r.Message = fmt.Sprintf("the call of %s needs a review, and its reviewer has too many open reviews (the limit is %d for one user, and %d in total); "+
		"repeat it with exactly these inputs later", request.Name, review.MaxOpenOfUser, review.MaxOpen)
	return r
}
