package run

import (
	"context"
	"errors"
	"sync"
)

// textBroadcaster sends the text that models write to the subscribers of a run on this node.
type textBroadcaster struct {
	mu          sync.Mutex
	subscribers map[string]map[chan string]struct{} // by run
}

const textBuffer = 64 // pieces of text that a slow subscriber may lag behind

func (t *textBroadcaster) subscribe(id string) (pieces <-chan string, unsubscribe func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := make(chan string, textBuffer)
	if t.subscribers == nil {
		t.subscribers = make(map[string]map[chan string]struct{})
	}
	if t.subscribers[id] == nil {
		t.subscribers[id] = make(map[chan string]struct{})
	}
	t.subscribers[id][c] = struct{}{}
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.subscribers[id], c)
		if len(t.subscribers[id]) == 0 {
			delete(t.subscribers, id)
		}
	}
}

// publish never blocks. A subscriber that is too slow misses pieces; the state has the whole text.
func (t *textBroadcaster) publish(id, piece string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.subscribers[id] {
		select {
		case c <- piece:
		default:
		}
	}
}

// Event reports progress of a run. Exactly one field is set.
type Event struct {
	// State is a new state. The first event and the last have one.
	State *State
	// Text is a piece of the text that the model is writing. Only subscribers on the node that works
	// on the run get it, and only for agents without an output guardrail.
	Text string
}

// Follow calls handle for each event of a run, until the run has ended, ctx ends or handle returns an
// error. It returns the error of handle or of the store; nil if the run or ctx has ended.
func (r *Runner) Follow(ctx context.Context, id string, handle func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces, unsubscribe := r.texts.subscribe(id)
	defer unsubscribe()
	states := make(chan *State)
	failed := make(chan error, 1)
	go func() { failed <- r.watch(ctx, id, states) }()
	for {
		select {
		case piece := <-pieces:
			if err := handle(Event{Text: piece}); err != nil {
				return err
			}
		case st := <-states:
			for len(pieces) > 0 { // they were written before the state
				if err := handle(Event{Text: <-pieces}); err != nil {
					return err
				}
			}
			if err := handle(Event{State: st}); err != nil || st.Status.IsFinal() {
				return err
			}
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// watch sends each state of a run that differs from the previous one for its user.
func (r *Runner) watch(ctx context.Context, id string, states chan<- *State) error {
	if !validID(id) {
		return ErrNotFound
	}
	var seen []byte
	var last *State
	for {
		st, value, err := r.storage.next(ctx, id, seen)
		if err != nil {
			return err
		}
		seen = value
		if last != nil && isEqualForUser(last, st) {
			continue
		}
		last = st
		select {
		case states <- st:
		case <-ctx.Done():
			return ctx.Err()
		}
		if st.Status.IsFinal() {
			<-ctx.Done()
			return nil
		}
	}
}

// next returns the first state, or waits until it differs from the encoded one.
func (s *storage) next(ctx context.Context, id string, seen []byte) (*State, []byte, error) {
	if seen != nil {
		return s.wait(ctx, id, seen)
	}
	r, err := s.store.Get(ctx, stateKey+id)
	st, err := decodeRecord(id, r, err)
	return st, r.Value, err
}

// isEqualForUser reports whether two states of a run are the same for its user.
func isEqualForUser(a, b *State) bool {
	return a.Status == b.Status && a.Phase == b.Phase && a.Turns == b.Turns && a.Text == b.Text &&
		a.CallsMade == b.CallsMade && a.count(CallDone) == b.count(CallDone) && a.count(CallWaiting) == b.count(CallWaiting)
}

// Await waits until done returns true for the state of the run, or until ctx ends, and returns the
// state. The end of ctx is not an error.
func (r *Runner) Await(ctx context.Context, id string, done func(*State) bool) (*State, error) {
	var last *State
	err := r.Follow(ctx, id, func(e Event) error {
		if e.State == nil {
			return nil
		}
		if last = e.State; done(last) {
			return errConditionMet
		}
		return nil
	})
	if errors.Is(err, errConditionMet) {
		err = nil
	}
	if last == nil && err == nil {
		return r.Get(context.WithoutCancel(ctx), id)
	}
	return last, err
}

var errConditionMet = errors.New("the condition is met")
