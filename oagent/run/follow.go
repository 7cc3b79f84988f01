package run

import (
	"context"
	"errors"
	"sync"
)

// texts passes on what models write to those who follow a run on this node.
type texts struct {
	mu        sync.Mutex
	followers map[string]map[chan string]struct{} // by run
}

const textsKept = 64 // pieces that a slow follower may lag behind

func (t *texts) join(id string) (pieces <-chan string, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := make(chan string, textsKept)
	if t.followers == nil {
		t.followers = make(map[string]map[chan string]struct{})
	}
	if t.followers[id] == nil {
		t.followers[id] = make(map[chan string]struct{})
	}
	t.followers[id][c] = struct{}{}
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.followers[id], c)
		if len(t.followers[id]) == 0 {
			delete(t.followers, id)
		}
	}
}

// publish never blocks. A follower that is too slow misses pieces; the state has the whole text.
func (t *texts) publish(id, piece string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.followers[id] {
		select {
		case c <- piece:
		default:
		}
	}
}

// Event is progress of a run. Exactly one field is set.
type Event struct {
	// State is a new state. The first event and the last have one.
	State *State
	// Text is a piece of what the model writes at the moment. Only followers on the node that
	// works on the run get it, and only for agents without an output guardrail.
	Text string
}

// Follow calls see for each event of a run, until it has ended, ctx ends or see returns an error.
// It returns the error of see or of the store; nil if the run or ctx has ended.
func (r *Runner) Follow(ctx context.Context, id string, see func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces, leave := r.texts.join(id)
	defer leave()
	states := make(chan *State)
	failed := make(chan error, 1)
	go func() { failed <- r.watch(ctx, id, states) }()
	for {
		select {
		case piece := <-pieces:
			if err := see(Event{Text: piece}); err != nil {
				return err
			}
		case st := <-states:
			for len(pieces) > 0 { // written before the state
				if err := see(Event{Text: <-pieces}); err != nil {
					return err
				}
			}
			if err := see(Event{State: st}); err != nil || st.Status.IsFinal() {
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

// watch sends each state of a run that its user can tell from the one before.
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
		if last != nil && looksEqual(last, st) {
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

// looksEqual reports whether the user sees no difference between two states of a run.
func looksEqual(a, b *State) bool {
	return a.Status == b.Status && a.Phase == b.Phase && a.Turns == b.Turns && a.Text == b.Text &&
		a.Made == b.Made && a.count(CallDone) == b.count(CallDone) && a.count(CallWaiting) == b.count(CallWaiting)
}

// Await waits until the run satisfies done, or until ctx ends, and returns its state. Store
// errors other than the end of ctx are returned.
func (r *Runner) Await(ctx context.Context, id string, done func(*State) bool) (*State, error) {
	var last *State
	err := r.Follow(ctx, id, func(e Event) error {
		if e.State == nil {
			return nil
		}
		if last = e.State; done(last) {
			return errDone
		}
		return nil
	})
	if errors.Is(err, errDone) {
		err = nil
	}
	if last == nil && err == nil {
		return r.Get(context.WithoutCancel(ctx), id)
	}
	return last, err
}

var errDone = errors.New("the run is as wanted")

// NotBusy is a condition for Await: the run has ended, or waits for something.
func NotBusy(st *State) bool { return !st.Status.IsBusy() }
