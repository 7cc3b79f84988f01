package oagent

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Call is a call of a tool or an agent that was not made yet.
type Call struct {
	Binding
	Name    string // the tool's name in kebab case, or the agent's name
	IsAgent bool   // Name is an agent's, so it also matches a capability oagent://name
	Names   Names  // distinguishes reviewers that are agents from users; if nil, only oagent://name is an agent
	// Conditional is true if the request has a condition, such as If-Match. Refusals of its
	// result must then not reveal whether the condition was met.
	Conditional bool
	Inputs      jsontext.Value // a JSON object; nil means {}; must not change while the Ticket is in use
}

// Ticket allows one call, once. The call is already in the record. The holder makes the call
// and then calls Finish or Abort.
type Ticket struct {
	Capability *Capability
	Key        string // of the Engagement, see Binding.Key
	Number     int64  // number of the call in the Engagement, from 1
	Nth        int64  // number among the calls of the same name, from 1
	Review     string // id of the review that approved it; "" if none was needed

	// Replayed is the result of an identical call that was made before and held for a review.
	// If it is set, the call must not be made again.
	Replayed *Replay

	// Unrecorded is the reason why the record must not contain the outputs, for example
	// ShedCredentials. Set it before Finish. "" allows the record to contain them.
	Unrecorded string

	guard  *Guard
	call   Call
	inputs payload
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
//   - If an identical call has a held result, its review decides (see Ticket.Replayed).
//   - The call does not violate short_circuit.
//   - The assertion of the input restriction holds.
//   - The reviewer of the input restriction has approved. Begin waits for the decision up to
//     GuardOptions.ReviewWait.
//
// The error is a *Refusal, and then the call must not be made.
func (g *Guard) Begin(ctx context.Context, c Call) (*Ticket, error) {
	if c.Agent == nil {
		return nil, &Refusal{
			Kind: KindUnknownAgent, Engagement: c.Engagement, Name: c.Name,
			Message: "no agent document governs this call, so it was not made",
		}
	}
	inputs, err := checkInputs(c.Inputs)
	if err := errors.Join(err, c.check()); err != nil {
		return nil, &Refusal{
			Kind: KindInvalid, Agent: c.Agent.Name, Engagement: c.Engagement, Name: c.Name,
			Message: "the call was not made: " + err.Error(),
		}
	}
	d := &decision{ctx: ctx, guard: g, call: &c, key: c.Key(), inputs: inputs}
	if capability, ok := c.Agent.Capability(c.Name); ok && (c.IsAgent || !capability.Reference.Agent) {
		d.capability = capability
	}
	if err := d.reach(); err != nil {
		return nil, refuseStore(&c.Binding, c.Name, false, err)
	}
	if d.refusal != nil {
		g.notifyEnd(d.refusal, c.User)
		return nil, d.refusal
	}
	return d.ticket, nil
}

var errNotObject = errors.New("its inputs must be a JSON object")

func checkInputs(inputs jsontext.Value) (payload, error) {
	if inputs == nil {
		return payload("{}"), nil
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
// error is a *Refusal, and then nobody may see the outputs.
func (t *Ticket) Finish(ctx context.Context, outputs jsontext.Value, status int) error {
	if t.Replayed != nil {
		return nil
	}
	if t.done.Swap(true) {
		return &Refusal{
			Kind: KindInvalid, Agent: t.call.Agent.Name, Engagement: t.call.Engagement, Name: t.call.Name, Made: true,
			Message: "the result of the call is withheld: the ticket of the call was used before",
		}
	}
	f := &finish{ctx: ctx, ticket: t, outputs: checkOutputs(outputs), status: status}
	if err := f.reach(); err != nil {
		return refuseStore(&t.call.Binding, t.call.Name, true, err)
	}
	if f.refusal != nil {
		t.guard.notifyEnd(f.refusal, t.call.User)
		return f.refusal
	}
	return nil
}

// checkOutputs returns the outputs in the form of the record. Assertions cannot read outputs
// that are not strict JSON.
func checkOutputs(outputs jsontext.Value) payload {
	outputs = bytes.TrimSpace(outputs)
	if len(outputs) == 0 {
		return nil
	}
	if wire.Check(outputs) != nil {
		return Shed{Bytes: int64(len(outputs)), Why: ShedInvalid}.JSON()
	}
	return outputs
}

// Abort records that the call has no result, and why. It counts as a call.
func (t *Ticket) Abort(ctx context.Context, reason string) {
	if t.Replayed != nil || t.done.Swap(true) {
		return
	}
	ctx, cancel := recordContext(ctx)
	defer cancel()
	// If this fails, the record has a call without an end, which has the same meaning.
	_ = t.guard.change(ctx, t.Key, nil, func(turn *turn) error {
		if turn.state.Born != t.born {
			turn.log(Entry{What: EntryLate, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: cut(reason, maxWhy)})
			return nil
		}
		turn.log(Entry{What: EntryAborted, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: cut(reason, maxWhy)})
		return nil
	})
}

// recordContext returns a context for recording the result of a call, even if its client has
// disconnected. Its timer starts only when something waits for the context, which is rare.
func recordContext(ctx context.Context) (context.Context, context.CancelFunc) {
	g := &grace{Context: ctx, until: time.Now().Add(recordTime)}
	return g, g.end
}

// grace is a context with the values of its parent and a deadline of its own.
type grace struct {
	context.Context
	until time.Time

	mu     sync.Mutex
	timed  context.Context // nil until something waits
	cancel context.CancelFunc
}

func (g *grace) Deadline() (time.Time, bool) { return g.until, true }

func (g *grace) Done() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timed == nil {
		g.timed, g.cancel = context.WithDeadline(context.WithoutCancel(g.Context), g.until)
	}
	return g.timed.Done()
}

func (g *grace) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timed != nil {
		return g.timed.Err()
	}
	return nil
}

// end releases the timer, if it was started.
func (g *grace) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancel != nil {
		g.cancel()
	}
}

func (g *Guard) notifyEnd(r *Refusal, user User) {
	if r.Kind == KindShortCircuit || r.Kind == KindGuardrail {
		g.options.Notify(Event{Kind: EventEnded, Refusal: r, User: user})
	}
}

// waitFor returns how long a call waits for a reviewer.
func (g *Guard) waitFor() time.Duration { return max(g.options.ReviewWait, 0) }
