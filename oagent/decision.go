package oagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// decision decides about one call before it is made. run calls decide, which runs inside a
// transaction on the record and may be called several times. Between two calls of decide, run does
// the slow work and the work that needs the store.
type decision struct {
	ctx        context.Context
	guard      *Guard
	call       Call
	key        string // of the Engagement
	inputs     jsontext.Value
	capability *Capability // nil if the agent has no capability of that name

	prepared *review.Review // stored in advance, in case a review is required
	held     *review.Review // the review of a result that may be released
	first    bool           // this call is the first to get the held result
	released int64          // when the held result was released; 0 if it was not
	lost     string         // id of a review whose result is no longer stored
	hashed   string         // see hash

	view    assertion.View // of the assertion that is evaluated
	pending assertion.Pending
	passed  Ticket // of the call if it may be made

	outcome
}

// outcome is the result of one call of decide. Exactly one field is set.
type outcome struct {
	ticket  *Ticket
	refusal *engagement.Refusal
	prepare bool                        // a review is required and must be prepared
	wait    *engagement.RequestedReview // wait for the decision of that review
	fetch   string                      // id of the review whose result may be released
}

// run calls decide until the outcome is a ticket or a refusal. The error is an error of the store.
func (d *decision) run() error {
	var wait *reviewWait
	for range engagement.MaxTries {
		d.outcome = outcome{}
		err := d.guard.Engagements.Change(d.ctx, d.key, d.begin, d.decide)
		switch {
		case err != nil:
			return err
		case d.prepare:
			err = d.prepareReview()
		case d.wait != nil:
			if wait == nil {
				wait = newReviewWait(d.guard, &d.call)
			}
			err = d.await(wait)
		case d.fetch != "":
			err = d.fetchHeld()
		default:
			if d.first {
				d.guard.Reviews.ShareReleased(d.ctx, d.held)
			}
			if d.released != 0 {
				d.guard.Reviews.AwaitReleased(d.ctx, d.released)
			}
			if d.prepared != nil { // the prepared review was not needed
				d.guard.Reviews.Drop(d.ctx, d.prepared.ID)
			}
			return nil
		}
		if err != nil || d.refusal != nil {
			return err
		}
	}
	return engagement.ErrContended
}

func (d *decision) begin(now time.Time) *engagement.State {
	return engagement.NewState(d.call.ref(), now)
}

// decide sets the outcome, inside a transaction.
func (d *decision) decide(t *engagement.Tx) error {
	d.outcome, d.first, d.released = outcome{}, false, 0
	if email := d.call.User.Email; email != "" {
		t.State.Email = email
	}
	switch {
	case t.State.Ended != 0:
		return d.refuse(t, t.State.Refusal())
	case d.capability == nil:
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindNotAllowed, Rule: "capabilities", Message: d.notAllowed()})
	case t.IsFull(d.call.Name):
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindEnded, Message: "the call was not made: the Engagement has reached its limit of calls"})
	}
	if i := d.findHeld(t); i >= 0 {
		return d.decideHeld(t, i)
	}
	if d.call.Uncertain && d.findReview(t) < 0 {
		d.refusal = d.complete(&engagement.Refusal{Kind: engagement.KindInvalid, Cause: ErrNoHeldResult, Message: fmt.Sprintf(
			"the call of %s was not made: no result of an identical call is held", d.call.Name)})
		return engagement.ErrUnchanged
	}
	if n := d.call.Agent.ShortCircuit; n > 0 && t.State.Repeats(d.call.Name, n) {
		return d.refuseRepetition(t, n)
	}
	if d.capability.Input != nil {
		if err := d.checkAssertion(t); err != nil || d.refusal != nil {
			return err
		}
		if d.capability.Input.RequireReview != "" {
			return d.decideReview(t)
		}
	}
	d.pass(t, "")
	return nil
}

// checkAssertion refuses the call if the assertion of its input restriction does not hold
// (OpenAgentSpec v1, Agent, restriction).
func (d *decision) checkAssertion(t *engagement.Tx) error {
	a := d.capability.Input.Assertion
	if a == nil {
		return nil
	}
	d.pending = assertion.Pending{Name: d.call.Name, Payloads: engagement.Payloads{Inputs: d.inputs}}
	d.view = assertion.View{Tx: t, Pending: &d.pending}
	v := &d.view
	err := a.Check(d.ctx, v)
	switch {
	case v.Unread.Any():
		return &engagement.UnreadError{Unread: v.Unread}
	case err == nil:
		return nil
	case d.ctx.Err() != nil:
		return d.ctx.Err()
	}
	return d.refuse(t, &engagement.Refusal{
		Kind: engagement.KindInputRestriction,
		Rule: a.Rule,
		Message: fmt.Sprintf("the call of %s was not made: %s; change the inputs so that it holds, or continue without this call",
			d.call.Name, assertion.Explain(err)),
		Cause: err,
	})
}

// explainWithheld is assertion.Explain for withheld outputs. It reveals less, because an agent
// could otherwise probe the withheld values:
//
//   - It does not name the failing part. If an assertion compares outputs with inputs, a
//     caller could vary the inputs and learn the outputs from the part that fails. The audit
//     record names the part.
//   - For a conditional request it only says that the assertion does not hold. The reason
//     would reveal whether the condition was met, and so the withheld entity tag or date.
func explainWithheld(err error, c *Call) string {
	e, ok := errors.AsType[*assertion.Error](err)
	if !ok {
		return assertion.Explain(err)
	}
	shown := *e
	shown.Part = ""
	if c.Conditional {
		shown.Missing, shown.Cause = "", nil
	}
	return assertion.Explain(&shown)
}

func (d *decision) refuseRepetition(t *engagement.Tx, n int) error {
	r := &engagement.Refusal{
		Kind: engagement.KindShortCircuit,
		Rule: "lifespan.short_circuit",
		Message: fmt.Sprintf("the call of %s was not made, and the Engagement has ended: it would have repeated the same block of calls %d times "+
			"in a row, which lifespan.short_circuit does not allow", d.call.Name, n),
	}
	t.End(r.Kind, r.Rule, fmt.Sprintf("a call of %s, with which the same block of calls is repeated %d times", d.call.Name, n))
	return d.refuse(t, r)
}

// refuse records that the call is refused.
func (d *decision) refuse(t *engagement.Tx, r *engagement.Refusal) error {
	r.Agent, r.Engagement, r.Name = d.call.Agent.Name, d.call.Engagement, d.call.Name
	d.refusal = r
	if t.State.Refused++; t.State.Refused > maxRefused || t.Length() >= engagement.MaxEntries {
		return nil // only counted, not recorded
	}
	why := r.Message
	if r.Cause != nil {
		why = r.Cause.Error()
	}
	t.Log(engagement.Entry{
		Event: engagement.EntryRefused, Name: engagement.Shorten(r.Name, MaxName), Inputs: t.Keep(d.inputs),
		Kind: r.Kind, Rule: r.Rule, Why: engagement.Shorten(why, engagement.MaxReason), Review: r.Review,
	})
	return nil
}

// pass records that the call is about to be made.
func (d *decision) pass(t *engagement.Tx, review string) {
	number, nth := t.Begin(d.call.Name, d.inputs, review, d.call.Agent.ShortCircuit > 0)
	d.passed = Ticket{
		Capability: d.capability, Key: d.key, Number: number, Nth: nth, Review: review,
		guard: d.guard, call: d.call, inputs: d.inputs, born: t.State.Born,
	}
	d.ticket = &d.passed
}

// notAllowed returns a message that lists the capabilities that the agent may use instead.
func (d *decision) notAllowed() string {
	const most = 10
	names := make([]string, 0, most)
	for i := range d.call.Agent.Capabilities {
		if i == most {
			names = append(names, "…")
			break
		}
		names = append(names, d.call.Agent.Capabilities[i].Reference.Name)
	}
	what := "none"
	if len(names) > 0 {
		what = strings.Join(names, ", ")
	}
	return fmt.Sprintf("the call of %s was not made: it is not a capability of the agent %s, which has: %s",
		engagement.Shorten(d.call.Name, MaxName), d.call.Agent.Name, what)
}

// hash returns a digest of the inputs. Inputs that differ only in member order, whitespace or
// escapes have the same hash. Inputs that differ in how a number is written do not.
func (d *decision) hash() string {
	if d.hashed == "" {
		d.hashed = hashInputs(d.inputs)
	}
	return d.hashed
}

func hashInputs(inputs jsontext.Value) string {
	canonical := inputs.Clone()
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		canonical = inputs // not canonical: at least equal bytes have equal hashes
	}
	return engagement.Digest(string(canonical))
}
