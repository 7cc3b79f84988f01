package oagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// check is what the decision about a call (decision) and the one about its result (finish) have in
// common. Both have a method decide, which runs inside a transaction on the record of the Engagement and may be
// called several times. Between two calls of decide, run does the slow work and the work that needs the store:
// it prepares reviews, and waits for them (reviewed.go).
type check struct {
	ctx     context.Context
	ticket  *Ticket         // its Number, Nth, Review and Replayed are set when the call may be made
	side    engagement.Side // of the restriction that is checked
	outputs jsontext.Value  // of the call; nil before it was made
	status  int             // of the response

	prepared *review.Review // stored in advance, in case a review is required
	held     *review.Review // the review with a result that may be released
	first    bool           // this call is the first to get the held result
	released int64          // when the held result was released; 0 if it was not
	approved string         // id of a review that was decided while the call waited
	lost     string         // id of a review whose result is no longer stored
	hashed   string         // see hash
	required RequiredReview // that is decided or requested now
	trial    trial
	edit     *Edit // how the call must be made instead; nil for no other way

	view    assertion.View // of the assertion that is evaluated
	pending assertion.Pending

	outcome
}

// outcome is the result of one call of decide. If no field is set, the call or its result passes.
type outcome struct {
	refusal *engagement.Refusal
	prepare bool                        // a review is required and must be prepared
	wait    *engagement.RequestedReview // wait for the decision of that review
	fetch   string                      // id of the review whose result may be released
	edited  *engagement.RequestedReview // that was approved with other inputs
}

// trial is what the rules in log only would have changed about a call, or about its result. A rule that cannot be judged never
// fails the call: it is incomplete.
type trial struct {
	would      logonly.Would // of the first rule that would have changed the decision
	incomplete string        // a rule that could not be judged; "" if there is none
	unread     string        // the rule for which the record is read now; "" if there is none
	skipped    bool          // reading the record has failed, so no rule is judged
}

// begin begins a call of decide. noted is what rules outside of the Guard would have done.
func (t *trial) begin(noted logonly.Would) {
	t.would, t.unread = noted, ""
	if !t.skipped {
		t.incomplete = ""
	}
}

// skip reports whether a transaction has failed while it read the record for a rule in log only. It must then be repeated, and
// judges no such rule.
func (t *trial) skip(err error) bool {
	if err == nil || t.unread == "" {
		return false
	}
	t.incomplete, t.skipped = t.unread, true
	return true
}

// run calls decide until the call or its result passes, or is refused. The error is an error of the store.
func (c *check) run(begin func(time.Time) *engagement.State, decide func(*engagement.Tx) error) error {
	var until time.Time // of waiting for a reviewer
	change := func(t *engagement.Tx) error {
		t.CallID = c.ticket.call.CallID
		return decide(t)
	}
	for range engagement.MaxTries {
		c.outcome = outcome{}
		ctx, cancel := c.storing()
		err := c.ticket.guard.Engagements.Change(ctx, c.ticket.Key, begin, change)
		if c.trial.skip(err) {
			err = c.ticket.guard.Engagements.Change(ctx, c.ticket.Key, begin, change)
		}
		if err == nil && c.prepare {
			err = c.prepareReview(ctx)
		}
		cancel()
		switch {
		case err != nil || c.prepare:
		case c.wait != nil:
			if until.IsZero() {
				until = c.ticket.call.waitUntil(c.ticket.guard)
			}
			err = c.await(until)
		case c.fetch != "":
			err = c.fetchHeld()
		case c.edited != nil:
			c.edit, err = c.fetchEdit()
		default:
			c.cleanUp()
			return nil
		}
		if err != nil || c.refusal != nil || c.edit != nil {
			return err
		}
	}
	return engagement.ErrContended
}

// storing returns the context for changes of the store. After the call was made, its result is recorded even if the
// client has disconnected.
func (c *check) storing() (context.Context, context.CancelFunc) {
	if c.side == engagement.SideOutput {
		return engagement.Detach(c.ctx)
	}
	return c.ctx, func() {}
}

// cleanUp shares a released result with identical calls, and deletes a review that was not needed.
func (c *check) cleanUp() {
	if c.prepared == nil && c.released == 0 {
		return
	}
	ctx, cancel := engagement.Detach(c.ctx)
	defer cancel()
	reviews := c.ticket.guard.Reviews
	if c.first {
		reviews.ShareReleased(ctx, c.held)
	}
	if c.released != 0 {
		reviews.AwaitReleased(c.ctx, c.released)
	}
	if c.prepared != nil {
		reviews.Drop(ctx, c.prepared.ID)
	}
}

// evaluate evaluates an assertion of a restriction over the Engagement with the call as the nth of its name; 0 if it
// was not made. unmet says why the assertion does not hold (OpenAgentSpec v1, Agent, restriction). err ends the transaction.
func (c *check) evaluate(ctx context.Context, t *engagement.Tx, a *assertion.Assertion, nth int64, outputs jsontext.Value) (unmet, err error) {
	call := &c.ticket.call
	c.pending = assertion.Pending{Name: call.Name, Nth: nth, Payloads: engagement.Payloads{Inputs: c.ticket.inputs, Outputs: outputs}}
	c.view = assertion.View{Tx: t, Pending: &c.pending, Identity: call.Identity, Slots: c.ticket.guard.slots, Owner: call.owner()}
	if call.Turn != nil {
		c.view.Running = call.Turn.Before
	}
	unmet = a.Check(ctx, &c.view)
	switch {
	case c.view.Unread.Any():
		return nil, &engagement.UnreadError{Unread: c.view.Unread}
	case unmet == nil:
		return nil, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isFull(unmet):
		return nil, unmet
	}
	return unmet, nil
}

// complete adds the call to a refusal.
func (c *check) complete(r *engagement.Refusal) *engagement.Refusal {
	call := &c.ticket.call
	r.Agent, r.Engagement, r.Name, r.Made = call.Agent.Name, call.Engagement, call.Name, r.Made || c.side == engagement.SideOutput
	return r
}

// decision decides about one call before it is made.
type decision struct {
	check
	passing Ticket // of the call
}

func (d *decision) begin(now time.Time) *engagement.State {
	return engagement.NewState(d.passing.call.ref(), now)
}

// decide decides whether the call may be made.
func (d *decision) decide(t *engagement.Tx) error {
	d.outcome, d.first, d.released = outcome{}, false, 0
	d.passing.Number, d.passing.Nth, d.passing.Review, d.passing.Replayed, d.passing.Changed = 0, 0, "", nil, ""
	call, capability := &d.passing.call, d.passing.Capability
	d.trial.begin(call.Would)
	if call.User.Email != "" {
		t.State.User.Email = call.User.Email
	}
	switch {
	case t.State.Ended != nil:
		return d.refuse(t, t.State.Refusal())
	case capability == nil:
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindNotAllowed, Rule: "capabilities", Message: call.notAllowed()})
	case t.IsFull(call.Name):
		return d.refuse(t, &engagement.Refusal{Kind: engagement.KindEnded, Message: "the call was not made: the Engagement has reached its limit of calls"})
	}
	if len(t.State.Reviews) > 0 {
		if i := d.findHeld(t); i >= 0 {
			return d.decideHeld(t, i)
		}
		if i := d.findEdited(t); i >= 0 {
			a := t.State.Reviews[i]
			d.edited = &a
			return engagement.ErrUnchanged
		}
	}
	if call.Uncertain && !d.hasReview(t) {
		d.refusal = d.complete(&engagement.Refusal{Kind: engagement.KindInvalid, Cause: ErrNoHeldResult, Message: fmt.Sprintf(
			"the call of %s was not made: no result of an identical call is held", call.Name)})
		return engagement.ErrUnchanged
	}
	if n := call.Agent.ShortCircuit; n > 0 && t.State.Repeats(call.Name, n) {
		return d.refuseRepetition(t, n)
	}
	if capability.Input != nil {
		if err := d.checkAssertion(t, capability.Input.Assertion); err != nil || d.refusal != nil {
			return err
		}
		if capability.LogOnly {
			d.tryReview(capability.Input)
		}
	}
	if call.Inspected != nil || call.Edit != nil || capability.RequiresReview(capability.Input) {
		return d.decideReviews(t, d.passing.requiredReviews())
	}
	d.pass(t, "")
	return nil
}

// checkAssertion refuses the call if the assertion of its input restriction does not hold. A nil assertion holds.
func (d *decision) checkAssertion(t *engagement.Tx, a *assertion.Assertion) error {
	if a == nil {
		return nil
	}
	if d.passing.Capability.LogOnly {
		return d.try(d.ctx, t, a, 0, nil)
	}
	unmet, err := d.evaluate(d.ctx, t, a, 0, nil)
	if unmet == nil {
		return err
	}
	advice := "change the inputs so that it holds, or continue without this call"
	if turn := d.passing.call.Turn; turn != nil && turn.depends(a.Expression) {
		advice = "send it in a message of its own, after the results of the other calls"
	}
	return d.refuse(t, &engagement.Refusal{
		Kind: engagement.KindInputRestriction, Rule: a.Rule, Cause: unmet,
		Message: fmt.Sprintf("the call of %s was not made: %s; %s", d.passing.call.Name, assertion.Explain(unmet), advice),
	})
}

func (d *decision) refuseRepetition(t *engagement.Tx, n int) error {
	r := &engagement.Refusal{
		Kind: engagement.KindShortCircuit,
		Rule: "lifespan.short_circuit",
		Message: fmt.Sprintf("the call of %s was not made, and the Engagement has ended: it would have repeated the same block of calls %d times "+
			"in a row, which lifespan.short_circuit does not allow", d.passing.call.Name, n),
	}
	t.End(r.Kind, r.Rule, fmt.Sprintf("a call of %s, with which the same block of calls is repeated %d times", d.passing.call.Name, n))
	return d.refuse(t, r)
}

// refuse records that the call is refused. An agent that repeats refused calls makes no progress, so they
// count for short_circuit. Exception: a call that waits for a review is repeated by design.
func (d *decision) refuse(t *engagement.Tx, r *engagement.Refusal) error {
	if n := d.passing.call.Agent.ShortCircuit; n > 0 && r.IsFinal() && t.State.RefuseRepeated(d.passing.call.Name, n) {
		return d.refuseRepetition(t, n)
	}
	d.refusal = d.complete(r)
	if t.State.Refused++; t.State.Refused > maxRefused || t.Length() >= engagement.MaxEntries {
		return nil // only counted, not recorded
	}
	why := r.Message
	if r.Cause != nil && d.passing.call.Inspected == nil { // the cause may quote inputs
		why = r.Cause.Error()
	}
	t.Log(engagement.Entry{
		Event: engagement.EntryRefused, Name: text.Cut(r.Name, maxName), Inputs: t.Keep(d.passing.recordedInputs()),
		Kind: r.Kind, Rule: r.Rule, Why: text.Cut(why, engagement.MaxReason), Review: r.Review,
	})
	return nil
}

// pass records that the call is about to be made. asked is the id of the review that approved it.
func (d *decision) pass(t *engagement.Tx, asked string) {
	call := &d.passing.call
	d.passing.Number, d.passing.Nth = t.Begin(call.Name, d.passing.recordedInputs(), asked, d.trial.would, call.Agent.ShortCircuit > 0)
	d.passing.Review, d.passing.born = asked, t.State.Born
	if call.Edit != nil {
		d.passing.Changed = call.Edit.changed(&d.passing)
	}
}

// notAllowed returns a message that lists the capabilities that the agent may use instead.
func (c *Call) notAllowed() string {
	const most = 10
	names := make([]string, 0, most)
	for i := range c.Agent.Capabilities {
		if i == most {
			names = append(names, "…")
			break
		}
		names = append(names, c.Agent.Capabilities[i].Reference.Name)
	}
	what := "none"
	if len(names) > 0 {
		what = strings.Join(names, ", ")
	}
	return fmt.Sprintf("the call of %s was not made: it is not a capability of the agent %s, which has: %s",
		text.Cut(c.Name, maxName), c.Agent.Name, what)
}

// finish decides about the result of a call.
type finish struct{ check }

// decide decides whether the result may be used.
func (f *finish) decide(t *engagement.Tx) error {
	f.outcome, f.first, f.released = outcome{}, false, 0
	f.trial.begin(f.ticket.ResultWould)
	if t.State.Born != f.ticket.born {
		return f.refuseLate(t)
	}
	if t.State.Ended != nil {
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
	if f.ticket.Capability.RequiresReview(output) {
		return f.requestReview(t)
	}
	if output != nil && f.ticket.Capability.LogOnly {
		f.tryReview(output)
	}
	e := f.entry()
	e.Event, e.Would = engagement.EntryFinished, f.trial.would
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
	// Use a context that is not canceled: if the client disconnects, the result must still be checked,
	// and the assertion must not be reported as failed.
	if f.ticket.Capability.LogOnly {
		return f.try(context.Background(), t, a, f.ticket.Nth, f.outputs)
	}
	unmet, err := f.evaluate(context.Background(), t, a, f.ticket.Nth, f.outputs)
	if unmet == nil {
		return err
	}
	return f.refuse(t, &engagement.Refusal{
		Kind: engagement.KindOutputRestriction, Rule: a.Rule, Cause: unmet,
		Message: fmt.Sprintf("the call of %s was made, but its result is withheld: %s; do not repeat it, continue without the result",
			f.ticket.call.Name, explainWithheld(unmet, &f.ticket.call)),
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

// refuse records that the result is withheld. The result is not recorded.
func (f *finish) refuse(t *engagement.Tx, r *engagement.Refusal) error {
	f.refusal = f.complete(r)
	e := f.entry()
	e.Event, e.Kind, e.Rule, e.Why = engagement.EntryFinished, r.Kind, r.Rule, text.Cut(r.Message, engagement.MaxReason)
	if r.Cause != nil && f.ticket.call.Inspected == nil {
		e.Why = text.Cut(r.Cause.Error(), engagement.MaxReason)
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
