package run

import (
	"context"
	"errors"

	"github.com/fairwayhq/fairway/store"
)

const textBuffer = 64 // pieces of text that a slow subscriber may lag behind; it misses further ones, and the state has the whole text

// Event reports progress of a run. Either State or Text is set.
type Event struct {
	// State is a new state. The first event and the last have one.
	State *State
	// Text is a piece of the text that the model is writing. Only subscribers on the node that works
	// on the run get it, and only for agents without an output guardrail.
	Text string
	// Turn is the number of the message of the model that Text belongs to, from 1; 0 with State.
	Turn int
	// Restart means that the response of the model broke off, and that the message begins again. Text is "".
	Restart bool
}

// Follow calls handle for each event of a run, until the run has ended, ctx ends or handle returns an
// error. It returns the error of handle or of the store; nil if the run or ctx has ended.
func (r *Runner) Follow(ctx context.Context, id string, handle func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces, unsubscribe := r.texts.Listen(id, textBuffer)
	defer unsubscribe()
	states := make(chan *State)
	failed := make(chan error, 1)
	go func() { failed <- r.watch(ctx, id, states) }()
	for {
		select {
		case piece := <-pieces:
			if err := handle(piece); err != nil {
				return err
			}
		case st := <-states:
			for len(pieces) > 0 { // they were written before the state
				if err := handle(<-pieces); err != nil {
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
	read := s.store.Get
	if seen != nil {
		read = func(ctx context.Context, key string) (store.Record, error) { return s.store.Wait(ctx, key, seen) }
	}
	r, err := read(ctx, s.realm+stateKey+id)
	st, err := decodeRecord(id, r, err)
	return st, r.Value, err
}

// isEqualForUser reports whether two states of a run are the same for its user.
func isEqualForUser(a, b *State) bool {
	return a.Status == b.Status && a.Phase == b.Phase && a.Turns == b.Turns && a.Text == b.Text && a.isQueued() == b.isQueued() && a.retryAt().Equal(b.retryAt()) && a.Notified == b.Notified &&
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

// StatusForUser returns the status of a run as its user sees it. If a run that it waits for, directly or not,
// waits for the user or for a reviewer, so does this one.
func (r *Runner) StatusForUser(ctx context.Context, st *State) Status {
	status := st.Status
	if status != StatusAwaitingTool && status != StatusAwaitingReview {
		return status
	}
	for _, w := range st.Waits() {
		if w.Kind != WaitTask {
			continue
		}
		called, err := r.Get(ctx, w.ID)
		if err != nil {
			continue
		}
		switch r.StatusForUser(ctx, called) {
		case StatusAwaitingInput:
			return StatusAwaitingInput
		case StatusAwaitingReview:
			status = StatusAwaitingReview
		}
	}
	return status
}

// notifyCallers changes the states of the runs that wait for a run, directly or not, because the run now waits
// for its user or for a reviewer. Those who wait for a change of one of them then learn of it.
func (r *Runner) notifyCallers(ctx context.Context, st *State) {
	for parent := st.Parent; parent != ""; {
		changed, err := r.storage.change(ctx, parent, func(st *State) ([]entry, error) {
			if st.Status.IsFinal() {
				return nil, errUnchanged
			}
			st.Notified++
			return nil, nil
		})
		if err != nil {
			if !isNotFound(err) {
				r.report(parent, err)
			}
			return
		}
		parent = changed.Parent
	}
}
