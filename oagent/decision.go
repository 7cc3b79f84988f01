package oagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// decision decides about one call before it is made. decide runs inside a transaction on the
// record, and may run several times. Between two runs, reach does the slow work and the work
// that needs the store.
type decision struct {
	ctx        context.Context
	guard      *Guard
	call       *Call
	key        string // the Engagement's
	inputs     payload
	capability *Capability // nil if the agent has no capability of that name

	prepared *Review // stored in advance, in case a review is required
	held     *Review // the review of a result that may be released
	first    bool    // this call is the first to get the held result
	released int64   // when the held result was released; 0 if it was not
	lost     string  // id of a review whose result is no longer stored
	hashed   string  // see hash

	outcome
}

// outcome is the result of one run of decide. Exactly one field is set.
type outcome struct {
	ticket  *Ticket
	refusal *Refusal
	prepare bool   // a review is required and must be prepared
	wait    *asked // wait for the decision of that review
	fetch   string // id of the review whose result may be released
}

// reach runs decide until it gets a ticket or a refusal. The error is an error of the store.
func (d *decision) reach() error {
	var wait *reviewWait
	for range maxTries {
		d.outcome = outcome{}
		err := d.guard.change(d.ctx, d.key, d.begin, d.decide)
		switch {
		case err != nil:
			return err
		case d.prepare:
			err = d.prepareReview()
		case d.wait != nil:
			if wait == nil {
				wait = newReviewWait(d.guard)
			}
			err = d.await(wait)
		case d.fetch != "":
			err = d.fetchHeld()
		default:
			if d.first {
				d.guard.shareReleased(d.ctx, d.held)
			}
			if d.released != 0 {
				d.guard.lingerReleased(d.ctx, d.released)
			}
			if d.prepared != nil { // the prepared review was not needed
				d.guard.dropReview(d.ctx, d.prepared.ID)
			}
			return nil
		}
		if err != nil || d.refusal != nil {
			return err
		}
	}
	return errContended
}

func (d *decision) begin(now time.Time) *state {
	return newState(&d.call.Binding, now)
}

// decide is one run of the decision, inside a transaction.
func (d *decision) decide(t *turn) error {
	d.outcome, d.first, d.released = outcome{}, false, 0
	if email := d.call.User.Email; email != "" {
		t.state.Email = email
	}
	switch {
	case t.state.Ended != 0:
		return d.refuse(t, refusedEnded(t.state))
	case d.capability == nil:
		return d.refuse(t, &Refusal{Kind: KindNotAllowed, Rule: "capabilities", Message: d.notAllowed()})
	case isFull(t, d.call.Name):
		return d.refuse(t, &Refusal{Kind: KindEnded, Message: "the call was not made: the Engagement has as many calls as it may have"})
	}
	if i := d.findHeld(t); i >= 0 {
		return d.decideHeld(t, i)
	}
	if n := d.call.Agent.ShortCircuit; n > 0 && repeats(appendTail(t.state.tail, t.state.id(d.call.Name)), n) {
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

func isFull(t *turn, name string) bool {
	return t.record.length >= maxLength || len(t.state.Names) >= maxNames && t.state.find(name) < 0
}

// id returns the index of a name, or the index that a new name would get.
func (s *state) id(name string) int {
	if i := s.find(name); i >= 0 {
		return i
	}
	return len(s.Names)
}

// checkAssertion refuses the call if the assertion of its input restriction does not hold
// (OpenAgentSpec v1, Agent, restriction).
func (d *decision) checkAssertion(t *turn) error {
	a := d.capability.Input.Assertion
	if a == nil {
		return nil
	}
	v := &view{record: t.record, state: t.state, pending: &pending{name: d.call.Name, inputs: d.inputs}}
	err := a.Check(d.ctx, v)
	switch {
	case v.wants.any():
		return &wantsError{v.wants}
	case err == nil:
		return nil
	case d.ctx.Err() != nil:
		return d.ctx.Err()
	}
	return d.refuse(t, &Refusal{
		Kind: KindInputRestriction,
		Rule: a.Rule,
		Message: fmt.Sprintf("the call of %s was not made: %s; change the inputs so that it holds, or go on without this call",
			d.call.Name, tellAssertion(err)),
		cause: err,
	})
}

// tellAssertion returns why an assertion does not hold. It leaves out any part of the cause
// that could quote inputs and outputs.
func tellAssertion(err error) string {
	var e *AssertionError
	if !errors.As(err, &e) {
		return "an assertion does not hold"
	}
	cause := e.Cause
	if cause != nil {
		cause = plainCause(cause)
	}
	return describeFailure(e.Rule, e.Expression, e.Part, e.Missing, cause)
}

// tellWithheld is tellAssertion for withheld outputs. It reveals less, because an agent could
// otherwise probe the withheld values:
//
//   - It does not name the failing part. If an assertion compares outputs with inputs, a
//     caller could vary the inputs and learn the outputs from the part that fails. The audit
//     record names the part.
//   - For a conditional request it only says that the assertion does not hold. The reason
//     would reveal whether the condition was met, and so the withheld entity tag or date.
func tellWithheld(err error, c *Call) string {
	e, ok := errors.AsType[*AssertionError](err)
	if !ok {
		return tellAssertion(err)
	}
	told := *e
	told.Part = ""
	if c.Conditional {
		told.Missing, told.Cause = "", nil
	}
	return tellAssertion(&told)
}

func (d *decision) refuseRepetition(t *turn, n int) error {
	r := &Refusal{
		Kind: KindShortCircuit,
		Rule: "lifespan.short_circuit",
		Message: fmt.Sprintf("the call of %s was not made, and the Engagement has ended: with it the same calls would have been repeated %d times "+
			"in a row, and lifespan.short_circuit ends an agent that does so", d.call.Name, n),
	}
	t.end(r.Kind, r.Rule, fmt.Sprintf("a call of %s, with which the same calls are repeated %d times", d.call.Name, n))
	return d.refuse(t, r)
}

// refuse records that the call is refused.
func (d *decision) refuse(t *turn, r *Refusal) error {
	r.Agent, r.Engagement, r.Name = d.call.Agent.Name, d.call.Engagement, d.call.Name
	d.refusal = r
	if t.state.Refused++; t.state.Refused > maxRefused || t.record.length >= maxLength {
		return nil // only counted, not recorded
	}
	why := r.Message
	if r.cause != nil {
		why = r.cause.Error()
	}
	t.log(Entry{
		What: EntryRefused, Name: cut(r.Name, MaxName), Inputs: t.keep(d.inputs),
		Kind: r.Kind, Rule: r.Rule, Why: cut(why, maxWhy), Review: r.Review,
	})
	return nil
}

// maxWhy is the maximum number of bytes of a reason in the record.
const maxWhy = 2000

// cut shortens a text to the limit.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// pass records that the call is about to be made.
func (d *decision) pass(t *turn, review string) {
	s, name := t.state, d.call.Name
	if d.call.Agent.ShortCircuit > 0 {
		s.tail = appendTail(s.tail, s.id(name))
	} else {
		s.tail = nil
	}
	s.Recent = s.name(name)
	s.Total++
	n := &s.Names[s.Recent]
	n.Count++
	n.Call, n.Done = s.Total, 0
	n.Begun = t.log(Entry{What: EntryBegun, Call: s.Total, Nth: n.Count, Name: name, Inputs: t.keep(d.inputs), Review: review})
	t.durable, t.prolong = true, true
	d.ticket = &Ticket{
		Capability: d.capability, Key: d.key, Number: s.Total, Nth: n.Count, Review: review,
		guard: d.guard, call: *d.call, inputs: d.inputs, born: s.Born,
	}
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
	return fmt.Sprintf("the call of %s was not made: it is no capability of the agent %s, which has: %s",
		cut(d.call.Name, MaxName), d.call.Agent.Name, what)
}

func refusedEnded(s *state) *Refusal {
	return &Refusal{
		Kind:    KindEnded,
		Rule:    s.EndedRule,
		Message: fmt.Sprintf("nothing more is done in this Engagement, because it has ended by %s", s.EndedRule),
	}
}

// hash returns a digest of the inputs. Inputs that differ only in member order, whitespace or
// escapes have the same hash. Inputs that differ in how a number is written do not.
func (d *decision) hash() string {
	if d.hashed == "" {
		d.hashed = hashInputs(d.inputs)
	}
	return d.hashed
}

func hashInputs(inputs payload) string {
	canonical := inputs.Clone()
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		canonical = inputs // not canonical: at least equal bytes have equal hashes
	}
	return digest(string(canonical))
}
