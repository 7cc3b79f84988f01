package oagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A decision is one about a call that has yet to be made. decide runs inside of a
// change of the record, perhaps several times; reach does in between what takes
// time or the store.
type decision struct {
	ctx        context.Context
	guard      *Guard
	call       *Call
	key        string // of the Engagement
	inputs     payload
	capability *Capability // nil if the agent has none of that name

	prepared *Review // is stored, for the case that one must be asked for
	held     *Review // the review of a result that may be given
	first    bool    // this call is the first that gets it
	released int64   // when it was given; 0 if it was not
	lost     string  // id of a review of a result that is not stored any more
	hashed   string  // see hash

	outcome
}

// An outcome is what a turn has come to. One field is set.
type outcome struct {
	ticket  *Ticket
	refusal *Refusal
	prepare bool   // a review must be asked for, and is to be prepared
	wait    *asked // for the decision of that review
	fetch   string // id of the review whose result may be given
}

// reach comes to a ticket or a refusal. The error is the store's.
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
			if d.prepared != nil { // in the end nobody was to be asked
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

// decide is one turn.
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

// id returns the index that a name has, or would have.
func (s *state) id(name string) int {
	if i := s.find(name); i >= 0 {
		return i
	}
	return len(s.Names)
}

// checkAssertion refuses the call if the assertion of its input restriction does
// not hold.
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

// tellAssertion says why an assertion does not hold, without what its cause may
// quote of inputs and outputs.
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

// tellWithheld is tellAssertion for the outputs of a call. It does not name the part that
// fails: of an assertion that compares outputs with inputs, a caller could find out with
// which inputs another part fails, and so the values that are withheld. The record, which
// auditors read, names it. Of a conditional request it says no more than that the
// assertion does not hold: the reason would tell whether the condition was met, and so
// the entity tag or the date of what is withheld.
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

// refuse records that the call is not made.
func (d *decision) refuse(t *turn, r *Refusal) error {
	r.Agent, r.Engagement, r.Name = d.call.Agent.Name, d.call.Engagement, d.call.Name
	d.refusal = r
	if t.state.Refused++; t.state.Refused > maxRefused || t.record.length >= maxLength {
		return nil // it is counted
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

// maxWhy is how much of a reason the record keeps, in bytes.
const maxWhy = 2000

// cut returns the beginning of a text that is too long.
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

// notAllowed says what the agent may use instead.
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

// hash returns what stands for the inputs: two that differ in the order of
// members, in space or in escapes alone are the same, and two that differ in how
// a number is written are not.
func (d *decision) hash() string {
	if d.hashed == "" {
		d.hashed = hashInputs(d.inputs)
	}
	return d.hashed
}

func hashInputs(inputs payload) string {
	canonical := inputs.Clone()
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		canonical = inputs // equal bytes at least
	}
	return digest(string(canonical))
}
