package oagent

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Call is a call of a tool or an agent that the Guard decides about.
type Call struct {
	Binding
	Name    string // the tool's name in kebab case, or the agent's name
	IsAgent bool   // Name is an agent's, so it also matches a capability oagent://name
	Names   Names  // distinguishes reviewers that are agents from users; if nil, only oagent://name is an agent
	// Conditional is true if the request has a condition, such as If-Match. Refusals of its
	// result must then not reveal whether the condition was met.
	Conditional bool
	Inputs      jsontext.Value // a JSON object; nil means {}; must not change while the Ticket is in use
	// Checked is true if Inputs are known to be a strict JSON object, because the caller encoded
	// them. They are not checked again.
	Checked bool

	// NoWait refuses a call that needs a review at once, instead of waiting for the decision up
	// to GuardOptions.ReviewWait. The caller repeats the call when the review is decided.
	NoWait bool
	// Uncertain is true if the caller does not know whether it has made the call before. Begin then
	// only releases the held result of an identical call. If there is none, the refusal wraps
	// ErrNoHeldResult and is not recorded. Exception: if there is a review of identical inputs, that
	// review decides as usual, since the call was not made: making a call removes its review.
	Uncertain bool
}

// ErrNoHeldResult means that a call with Uncertain has no held result and no review.
var ErrNoHeldResult = errors.New("no result of an identical call is held")

// Ticket allows one call, once. The call is already in the record. The holder makes the call
// and then calls Finish or Abort.
type Ticket struct {
	Capability *Capability
	Key        string // of the Engagement, see Binding.Key
	Number     int64  // number of the call in the Engagement, counted from 1
	Nth        int64  // number among the calls of the same name, from 1
	Review     string // id of the review that approved it; "" if none was needed

	// Replayed is the result of an identical call that was made before and held for a review.
	// If it is set, the call must not be made again.
	Replayed *Replay

	// Unrecorded is the reason why the record must not contain the outputs, for example
	// engagement.OmittedCredentials. Set it before Finish. "" allows the record to contain them.
	Unrecorded string

	guard  *Guard
	call   Call
	inputs jsontext.Value
	born   uint64 // state.Born of the Engagement
	done   atomic.Bool
}

// Replay is a held result that is now released.
type Replay struct {
	Outputs jsontext.Value
	Status  int // HTTP status
}

// Begin decides whether the call may be made, and records it. It checks in this order:
//
//   - The Engagement has not ended, and its record is not full.
//   - The agent has the capability.
//   - If an identical call has a held result, its review decides (see Ticket.Replayed). A call
//     with Call.Uncertain ends here, unless there is a review of its inputs.
//   - The call does not violate short_circuit.
//   - The assertion of the input restriction holds.
//   - The reviewer of the input restriction has approved. Begin waits for the decision up to
//     GuardOptions.ReviewWait, unless Call.NoWait is set.
//
// The error is an *engagement.Refusal, and then the call must not be made.
func (g *Guard) Begin(ctx context.Context, c Call) (*Ticket, error) {
	if c.Agent == nil {
		return nil, &engagement.Refusal{
			Kind: engagement.KindUnknownAgent, Engagement: c.Engagement, Name: c.Name,
			Message: "no agent document governs this call, so it was not made",
		}
	}
	inputs, err := c.Inputs, error(nil)
	if !c.Checked || inputs == nil {
		inputs, err = checkInputs(inputs)
	}
	if err := errors.Join(err, c.check()); err != nil {
		return nil, &engagement.Refusal{
			Kind: engagement.KindInvalid, Agent: c.Agent.Name, Engagement: c.Engagement, Name: c.Name,
			Message: "the call was not made: " + err.Error(),
		}
	}
	d := &decision{ctx: ctx, guard: g, call: c, key: c.Key(), inputs: inputs}
	if capability, ok := c.Agent.Capability(c.Name); ok && (c.IsAgent || !capability.Reference.Agent) {
		d.capability = capability
	}
	if err := d.run(); err != nil {
		return nil, refuseUnrecorded(&c.Binding, c.Name, false, err)
	}
	if d.refusal != nil {
		g.notifyEnd(d.refusal, c.User)
		return nil, d.refusal
	}
	return d.ticket, nil
}

var errNotObject = errors.New("its inputs must be a JSON object")

func checkInputs(inputs jsontext.Value) (jsontext.Value, error) {
	if inputs == nil {
		return jsontext.Value("{}"), nil
	}
	inputs = bytes.TrimSpace(inputs)
	if inputs.Kind() != '{' {
		return nil, errNotObject
	}
	return inputs, wire.Check(inputs)
}

// Finish records the result of the call and decides whether it may be used. outputs is nil if
// there are none; the caller may change it after Finish returns. If the output restriction
// requires a review, Finish waits up to GuardOptions.ReviewWait, unless ctx ends before. The
// error is an *engagement.Refusal, and then the outputs must not be used.
func (t *Ticket) Finish(ctx context.Context, outputs jsontext.Value, status int) error {
	if t.Replayed != nil {
		return nil
	}
	if t.done.Swap(true) {
		return &engagement.Refusal{
			Kind: engagement.KindInvalid, Agent: t.call.Agent.Name, Engagement: t.call.Engagement, Name: t.call.Name, Made: true,
			Message: "the result of the call is withheld: the ticket of the call was already used",
		}
	}
	f := &finish{ctx: ctx, ticket: t, outputs: checkOutputs(outputs), status: status}
	if err := f.run(); err != nil {
		return refuseUnrecorded(&t.call.Binding, t.call.Name, true, err)
	}
	if f.refusal != nil {
		t.guard.notifyEnd(f.refusal, t.call.User)
		return f.refusal
	}
	return nil
}

// checkOutputs returns the outputs in the form of the record. Assertions cannot read outputs
// that are not strict JSON.
func checkOutputs(outputs jsontext.Value) jsontext.Value {
	outputs = bytes.TrimSpace(outputs)
	if len(outputs) == 0 {
		return nil
	}
	if wire.Check(outputs) != nil {
		return engagement.Omitted{Bytes: int64(len(outputs)), Why: engagement.OmittedInvalid}.JSON()
	}
	return outputs
}

// Abort records that the call has no result, and why. It counts as a call.
func (t *Ticket) Abort(ctx context.Context, reason string) {
	if t.Replayed != nil || t.done.Swap(true) {
		return
	}
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	// If this fails, the record has a call without an end, which means the same.
	_ = t.guard.Engagements.Change(ctx, t.Key, nil, func(tx *engagement.Tx) error {
		if tx.State.Born != t.born {
			tx.Log(engagement.Entry{Event: engagement.EntryLate, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: engagement.Shorten(reason, engagement.MaxReason)})
			return nil
		}
		tx.Log(engagement.Entry{Event: engagement.EntryAborted, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: engagement.Shorten(reason, engagement.MaxReason)})
		return nil
	})
}

// refuseUnrecorded refuses a call because the store failed. If the call was already made,
// RetryAfter is 0, because a retry would make it a second time.
func refuseUnrecorded(b *Binding, name string, made bool, err error) *engagement.Refusal {
	r := &engagement.Refusal{Kind: engagement.KindStore, Name: name, Engagement: b.Engagement, Made: made, Cause: err}
	if made {
		r.Message = "the call was made, but its result is withheld, because the record of the Engagement could not be stored; " +
			"check the effect of the call before you repeat it"
	} else {
		r.RetryAfter = retryStore
		r.Message = "the call was not made, because the record of the Engagement could not be stored; try again later"
	}
	if b.Agent != nil {
		r.Agent = b.Agent.Name
	}
	return r
}
