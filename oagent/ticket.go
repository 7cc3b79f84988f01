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

// A Call is one use of a tool or an agent, which has yet to be made.
type Call struct {
	Binding
	Name    string // the tool's in kebab case, or the agent's
	IsAgent bool   // Name is an agent's, so that a capability oagent://name is meant too
	Names   Names  // tells reviewers that are agents from users; nil if only oagent://name is an agent
	// Conditional says that the request has conditions (If-Match and its like), so
	// that refusals of its result must not tell how these turned out.
	Conditional bool
	Inputs      jsontext.Value // an object; nil is one without members; not to be changed before the Ticket is used
}

// A Ticket is a call that may be made, once. It is in the record already. Its
// holder makes the call and then calls Finish, or Abort.
type Ticket struct {
	Capability *Capability
	Key        string // of the Engagement, see Binding.Key
	Number     int64  // of the call in the Engagement, from 1
	Nth        int64  // among the calls of the same name, from 1
	Review     string // id of the review that let it pass; "" if none was needed

	// Replayed is the result of a call that was made before and waited for its
	// review. The call must not be made again. Else nil.
	Replayed *Replay

	// Unrecorded is why the record must not have the outputs, such as ShedCredentials.
	// It is set before Finish. Default: the record may have them.
	Unrecorded string

	guard  *Guard
	call   Call
	inputs payload
	born   uint64 // state.Born of the Engagement
	done   atomic.Bool
}

// A Replay is a result that is given after it was held.
type Replay struct {
	Outputs jsontext.Value
	Status  int // of HTTP
}

// Begin decides whether the call may be made, and records it. The error is a
// *Refusal, and the call must not be made then. It may take as long as a reviewer
// is waited for.
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

// Finish takes what came of the call, nil for nothing, and decides whether it may
// be used. The outputs may be changed once it has returned. The error is a *Refusal then: nobody must get to see the outputs. It
// may take as long as a reviewer is waited for, if ctx lets it.
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

// checkOutputs returns the outputs as the record has them. What is no strict JSON
// cannot be looked at.
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

// Abort records that no result came of the call, and why. It counts as a call.
func (t *Ticket) Abort(ctx context.Context, reason string) {
	if t.Replayed != nil || t.done.Swap(true) {
		return
	}
	ctx, cancel := recordContext(ctx)
	defer cancel()
	// If this fails the record has a call that has begun, which says as much.
	_ = t.guard.change(ctx, t.Key, nil, func(turn *turn) error {
		if turn.state.Born != t.born {
			turn.log(Entry{What: EntryLate, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: cut(reason, maxWhy)})
			return nil
		}
		turn.log(Entry{What: EntryAborted, Call: t.Number, Nth: t.Nth, Name: t.call.Name, Why: cut(reason, maxWhy)})
		return nil
	})
}

// recordContext is for writing what came of a call, whether or not its client is
// still there. Its clock is only set where somebody waits, which is seldom.
func recordContext(ctx context.Context) (context.Context, context.CancelFunc) {
	g := &grace{Context: ctx, until: time.Now().Add(recordTime)}
	return g, g.end
}

// grace is a context that has the values of another, and ends at a time of its own.
type grace struct {
	context.Context
	until time.Time

	mu     sync.Mutex
	timed  context.Context // nil until somebody waits
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

// end gives the clock back, if it was set.
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

// waitFor returns how long a reviewer is waited for.
func (g *Guard) waitFor() time.Duration { return max(g.options.ReviewWait, 0) }
