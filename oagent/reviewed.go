package oagent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// waitUntil returns when a call no longer waits for its reviewer.
func (c *Call) waitUntil(g *Guard) time.Time {
	if c.NoWait {
		return time.Now()
	}
	return time.Now().Add(max(g.options.ReviewWait, 0))
}

// rule returns the path of the reviewer in the document, or the inspector that requires the review.
func (c *check) rule() string {
	if c.required.Rule != "" {
		return c.required.Rule
	}
	return c.ticket.Capability.reviewRule(c.side)
}

func (c *Capability) reviewRule(side engagement.Side) string {
	return c.Rule() + "." + string(side) + "_restriction.require_review"
}

// requiredReviews returns the reviews that must approve the call before it is made. There is one for each reviewer.
func (t *Ticket) requiredReviews() (required []RequiredReview) {
	if input := t.Capability.Input; t.Capability.RequiresReview(input) {
		required = append(required, RequiredReview{Reviewer: input.RequireReview, Rule: t.Capability.reviewRule(engagement.SideInput)})
	}
	if t.call.Inspected == nil {
		return required
	}
	for _, r := range t.call.Inspected.Required {
		i := slices.IndexFunc(required, func(other RequiredReview) bool { return other.Reviewer == r.Reviewer })
		if i < 0 {
			required = append(required, r)
			continue
		}
		required[i].Inspector = cmp.Or(required[i].Inspector, r.Inspector)
		required[i].Found = append(slices.Clone(required[i].Found), r.Found...)
	}
	return required
}

func (c *check) requests(t *engagement.Tx) review.Requests { return c.ticket.guard.Reviews.Requests(t) }

// newReview returns the review that the restriction requires. The reviewer is an agent if the reference can only
// mean an agent, or if the server has an agent with that name.
func (c *check) newReview() *review.Review {
	call, required := &c.ticket.call, c.required
	if c.side == engagement.SideOutput {
		required.Reviewer = c.ticket.Capability.Output.RequireReview
	}
	r := review.Review{
		Summary: review.Summary{
			Side:     c.side,
			Agent:    call.Agent.Name,
			Key:      c.ticket.Key,
			User:     call.User,
			Name:     call.Name,
			Reviewer: required.Reviewer,
			Rule:     c.rule(),
		},
		Engagement: call.Engagement,
		Inputs:     c.ticket.recordedInputs(),
		Outputs:    c.outputs,
		Result:     c.status,
		InputsHash: c.hash(),
		Document:   call.Agent.Hash,
		Inspector:  required.Inspector,
		Found:      required.Found,
		Trace:      calltrace.Parent(c.ctx),
	}
	if call.Edit != nil {
		r.Changed = call.Edit.changed(c.ticket)
	}
	switch {
	case c.side == engagement.SideInput:
		r.Editable, r.Editor = call.Editable && bytes.Equal(r.Inputs, c.ticket.inputs), call.Edit.lastEditor()
	case call.Edit != nil:
		r.InputsHash = engagement.Digest(string(review.Canonical(call.Edit.original))) // with these, the client repeats the call
	}
	if i := call.Inspected; required.Inspector != "" && call.Originals.Keep && !bytes.Equal(i.Inputs, c.ticket.inputs) {
		r.Original, r.Originals, r.HasOriginal = c.ticket.inputs, call.Originals, true
	}
	name, isAgent := strings.CutPrefix(r.Reviewer, Scheme)
	if isAgent && CheckName(name) == nil || call.Names != nil && call.Names.Agent(r.Reviewer) {
		r.ByAgent = name
	}
	return c.ticket.guard.Reviews.New(r)
}

// hash returns a digest of the inputs. Inputs that differ only in member order, whitespace or
// escapes have the same hash. Inputs that differ in how a number is written do not.
func (c *check) hash() string {
	if c.hashed == "" {
		if c.ticket.call.Inspected != nil {
			c.hashed = c.ticket.call.Originals.Digest(c.canonical()) // a reader of the store could guess masked values with a plain digest
		} else {
			c.hashed = engagement.Digest(string(c.canonical()))
		}
	}
	return c.hashed
}

// canonical returns the inputs in the form of which hash is a digest.
func (c *check) canonical() jsontext.Value { return review.Canonical(c.ticket.inputs) }

// isHash reports whether a stored hash is of the same inputs. It may be older than the requirement of an inspector, or than the secret.
func (c *check) isHash(stored string) bool {
	if stored == c.hash() {
		return true
	}
	originals := c.ticket.call.Originals
	if originals == nil {
		return false
	}
	canonical := c.canonical()
	return stored == engagement.Digest(string(canonical)) || originals.HasDigest(stored, canonical)
}

// prepareReview stores the review. If its reviewer has too many open reviews, it refuses the
// call.
func (c *check) prepareReview(ctx context.Context) (err error) {
	if c.prepared != nil {
		c.ticket.guard.Reviews.Drop(ctx, c.prepared.ID) // another reviewer has approved meanwhile
	}
	r := c.newReview()
	c.prepared, err = c.ticket.guard.Reviews.Prepare(ctx, r)
	if errors.Is(err, review.ErrBusy) {
		c.refusal = c.complete(busyRefusal(r))
		c.refusal.Review = "" // no review was stored
		return nil
	}
	return err
}

// addReview adds the prepared review to the Engagement. number and nth are those of the call under review, or 0.
func (c *check) addReview(t *engagement.Tx, number, nth int64) error {
	if c.prepared == nil || c.side == engagement.SideInput && c.prepared.Reviewer != c.required.Reviewer {
		c.prepare = true
		return engagement.ErrUnchanged
	}
	a := *c.requests(t).Add(c.prepared, number, nth)
	c.wait = &a
	return nil
}

// await waits for the decision of a review, or refuses the call or its result.
func (c *check) await(until time.Time) error {
	waiting, prepared := *c.wait, c.prepared
	c.prepared = nil
	if c.side == engagement.SideOutput && prepared != nil {
		c.held = prepared
	}
	ctx, cancel := c.storing()
	request, err := c.ticket.guard.Reviews.Open(ctx, &waiting, func() *review.Review {
		switch {
		case c.side == engagement.SideOutput:
			return c.held
		case waiting.Side == engagement.SideOutput:
			return nil // the outputs are lost
		}
		r := c.newReview()
		r.ID = waiting.ID
		return r
	})
	if prepared != nil && prepared.ID != waiting.ID {
		c.ticket.guard.Reviews.Drop(ctx, prepared.ID) // the review of a concurrent identical call is used instead
	}
	cancel()
	switch {
	case errors.Is(err, review.ErrNotFound):
		c.lost = waiting.ID
		return nil
	case errors.Is(err, review.ErrBusy):
		c.refusal = c.complete(busyRefusal(request))
		return nil
	case err != nil:
		return err
	}
	wait, cancel := context.WithCancel(c.ctx)
	defer cancel()
	if serving := c.ticket.call.Serving; serving != nil {
		defer context.AfterFunc(serving, cancel)()
	}
	decided, err := c.ticket.guard.Reviews.Await(wait, waiting.ID, until)
	switch {
	case err != nil:
		return err
	case !decided:
		c.refusal = c.complete(pendingRefusal(request))
	default:
		c.approved = waiting.ID
	}
	return nil
}

// fetchHeld reads the held result.
func (c *check) fetchHeld() error {
	held, err := c.ticket.guard.Reviews.Held(c.ctx, c.fetch)
	if errors.Is(err, review.ErrNotFound) {
		c.lost = c.fetch
		return nil
	}
	c.held = held
	return err
}

// findReview returns the index of the review of the call's inputs by a reviewer, or -1. A call that passes removes
// its review, so there is none if the call may have been made.
func (d *decision) findReview(t *engagement.Tx, reviewer string) int {
	call := &d.passing.call
	if i := call.Edit.find(d.requests(t)); i >= 0 && t.State.Reviews[i].Reviewer == reviewer && t.State.Reviews[i].Document == call.Agent.Hash {
		return i
	}
	return d.requests(t).Find(func(a *engagement.RequestedReview) bool {
		return a.Side == engagement.SideInput && a.Name == call.Name && a.Inputs == d.hash() &&
			a.Reviewer == reviewer && a.Document == call.Agent.Hash &&
			(a.Status != engagement.ReviewEdited || call.Editable && !call.Edit.has(a.ID))
	})
}

// findEdited returns the index of a review that was approved with other inputs than those of the call, or -1.
func (d *decision) findEdited(t *engagement.Tx) int {
	if !d.passing.call.Editable {
		return -1
	}
	for _, r := range d.passing.requiredReviews() {
		if i := d.findReview(t, r.Reviewer); i >= 0 && t.State.Reviews[i].Status == engagement.ReviewEdited && !d.passing.call.Edit.has(t.State.Reviews[i].ID) {
			return i
		}
	}
	return -1
}

// hasReview reports whether there is a review of the call's inputs.
func (d *decision) hasReview(t *engagement.Tx) bool {
	return slices.ContainsFunc(d.passing.requiredReviews(), func(r RequiredReview) bool { return d.findReview(t, r.Reviewer) >= 0 })
}

// decideReviews lets the call pass if its reviewers have approved it (OpenAgentSpec v1,
// restriction, require_review). They decide one after the other.
func (d *decision) decideReviews(t *engagement.Tx, required []RequiredReview) error {
	edit := d.passing.call.Edit
	if edit != nil && edit.find(d.requests(t)) < 0 {
		d.refusal = d.complete(usedRefusal(&d.passing.call))
		return engagement.ErrUnchanged
	}
	for i := range required {
		d.required = required[i]
		at := d.findReview(t, d.required.Reviewer)
		if at < 0 {
			return d.requestReview(t)
		}
		switch a := t.State.Reviews[at]; a.Status {
		case engagement.ReviewApproved, engagement.ReviewEdited:
		case engagement.ReviewDenied:
			return d.refuse(t, denied(&a, d.rule()))
		default:
			d.wait = &a
			return engagement.ErrUnchanged
		}
	}
	approved := ""
	for _, r := range required {
		at := d.findReview(t, r.Reviewer)
		approved = t.State.Reviews[at].ID
		d.requests(t).Drop(at)
	}
	if edit != nil {
		t.State.Reviews = slices.DeleteFunc(t.State.Reviews, edit.replaced(d.passing.call.Name))
	}
	d.pass(t, approved)
	return nil
}

func (d *decision) requestReview(t *engagement.Tx) error {
	call, limit := &d.passing.call, d.passing.guard.options.MaxPayload
	switch {
	case max(len(d.passing.inputs), len(d.passing.recordedInputs())) > limit:
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindInputRestriction, Rule: d.rule(), Message: fmt.Sprintf(
			"the call of %s was not made: it needs a review, and its inputs of %d bytes are too large for a reviewer to see; the limit is %d bytes, and the operator can raise max_recorded",
			call.Name, len(d.passing.inputs), limit)})
	case d.requests(t).Pending() >= review.MaxPending:
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindReviewPending, Rule: d.rule(), RetryAfter: review.RetryPending, Message: fmt.Sprintf(
			"the call of %s was not made: it needs a review, and %d calls of this Engagement already wait for one; try again when those are decided",
			call.Name, review.MaxPending)})
	}
	return d.addReview(t, 0, 0)
}

// findHeld returns the index of the review of an identical call's result, or -1. If there is
// one, the call is not made again.
func (d *decision) findHeld(t *engagement.Tx) int {
	return d.requests(t).Find(func(a *engagement.RequestedReview) bool {
		return a.Side == engagement.SideOutput && a.Name == d.passing.call.Name && d.isHash(a.Inputs)
	})
}

// decideHeld releases the result of an identical call if its reviewer approved it.
func (d *decision) decideHeld(t *engagement.Tx, i int) error {
	a := t.State.Reviews[i]
	rule := d.passing.Capability.Rule() + ".output_restriction.require_review"
	switch {
	case a.ID == d.lost:
		d.requests(t).Drop(i)
		r := &engagement.Refusal{Kind: engagement.KindReviewDenied, Rule: rule, Review: a.ID, Made: true, Message: fmt.Sprintf(
			"an identical call of %s was made, and its result was held for a review and is lost: check its effect before you repeat it", d.passing.call.Name)}
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
		d.requests(t).Repeat(&a, d.held.Result)
	} else {
		d.requests(t).Release(&i, d.passing.Capability.collected(d.held.Outputs), d.held.Result)
		d.first = true
	}
	d.released = t.State.Reviews[i].Released
	d.passing.Number, d.passing.Nth, d.passing.Review = a.Call, a.Nth, a.ID
	d.passing.Changed = d.held.Changed
	d.passing.Replayed = &Replay{Outputs: d.held.Outputs, Status: d.held.Result}
	return nil
}

// checkHeld refuses a held result if the document has changed since the call and its current output
// restriction does not hold.
func (d *decision) checkHeld(t *engagement.Tx, a *engagement.RequestedReview) error {
	output := d.passing.Capability.Output
	if a.Document == d.passing.call.Agent.Hash || output == nil || d.passing.Capability.LogOnly {
		return nil
	}
	if reviewer := output.RequireReview; reviewer != "" && reviewer != a.Reviewer {
		return d.refuse(t, &engagement.Refusal{
			Kind: engagement.KindReviewDenied, Rule: d.passing.Capability.Rule() + ".output_restriction.require_review", Review: a.ID, Made: true,
			Message: fmt.Sprintf("an identical call of %s was made, and its result is withheld: the agent's document now names another reviewer than the one who approved it; continue without it",
				d.passing.call.Name),
		})
	}
	if output.Assertion == nil {
		return nil
	}
	unmet, err := d.evaluate(d.ctx, t, output.Assertion, a.Nth, d.held.Outputs)
	if unmet == nil {
		return err
	}
	return d.refuse(t, &engagement.Refusal{
		Kind: engagement.KindOutputRestriction, Rule: output.Assertion.Rule, Review: a.ID, Made: true, Cause: unmet,
		Message: fmt.Sprintf("an identical call of %s was made, and its result is withheld: %s; continue without it", d.passing.call.Name, explainWithheld(unmet, &d.passing.call)),
	})
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
	case f.requests(t).Pending() >= review.MaxPending:
		return f.refuse(t, &engagement.Refusal{Kind: engagement.KindOutputRestriction, Rule: f.rule(), Message: fmt.Sprintf(
			"the call of %s was made, but its result is withheld: it needs a review, and %d calls of this Engagement already wait for one",
			f.ticket.call.Name, review.MaxPending)})
	}
	if err := f.addReview(t, f.ticket.Number, f.ticket.Nth); err != nil {
		return err
	}
	e := f.entry()
	e.Event, e.Review = engagement.EntryHeld, f.prepared.ID
	t.Log(e)
	return nil
}

// decideReview releases the result if its review was approved.
func (f *finish) decideReview(t *engagement.Tx) error {
	i := f.requests(t).Find(func(a *engagement.RequestedReview) bool { return a.ID == f.approved })
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
		f.requests(t).Release(&i, f.ticket.Capability.collected(f.outputs), f.status)
		f.first, f.released = true, t.State.Reviews[i].Released
		return nil
	case engagement.ReviewReleased: // to a concurrent identical call
		f.requests(t).Repeat(&a, f.status)
		f.released = a.Released
		return nil
	case engagement.ReviewDenied:
		f.refusal = f.complete(denied(&a, f.rule()))
		return engagement.ErrUnchanged
	}
	f.wait = &a
	return engagement.ErrUnchanged
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
	r.Message = fmt.Sprintf("the call of %s needs a review, and its reviewer has too many open reviews (the limit is %d, with a share for each user); "+
		"repeat it with exactly these inputs later", request.Name, review.MaxOpen)
	return r
}
