package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/store"
)

// execution is the work of this node on one run, from the claim until the run waits or ends.
type execution struct {
	runner       *Runner
	id           string
	token        string // of the lease
	agent        *oagent.Agent
	binding      oagent.Binding
	model        model.Model // nil until the first request
	tools        *toolbox
	planner      planner
	conversation conversation

	endTrace func(*State)    // see Options.Trace
	ctx      context.Context // ends when the lease is lost, and with Cancel and Close
	cancel   context.CancelCauseFunc

	mu    sync.Mutex // serializes record
	state *State     // as last recorded; replaced, never changed
	since time.Time  // the time up to which State.Spent is recorded
}

const (
	recordTime  = 10 * time.Second // for one attempt to record a step
	recordTries = 4
)

// drive makes one step after the other until the run waits or ends. If it returns an error, the
// lease remains, and a node claims the run when the lease has expired.
func (e *execution) drive() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	renewed := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(renewed)
		e.renewRegularly(done)
	}()
	defer func() { <-renewed }()
	defer close(done)

	err = e.checkParent()
	for err == nil && e.state.Lease.hasToken(e.token) {
		if e.runner.running.Err() != nil {
			return e.release(true)
		}
		if err = e.step(); errors.Is(err, store.ErrTooLarge) {
			err = e.fail(EndModel, string(model.KindTooLarge), "the Engagement is too large to be stored")
		}
	}
	if err != nil {
		err = e.stopped(err)
	}
	if e.state.Status.IsFinal() {
		if e.state.Status == StatusComplete && e.agent.RetainMemory {
			e.runner.report(e.id, e.runner.memory.retain(context.WithoutCancel(e.ctx), e.state, e.conversation.messages))
		}
		finalizer{e.runner}.finalize(e.ctx, e.state)
	}
	return err
}

// checkParent ends the run if the run whose call started it has ended: it was canceled by another node before
// that call started this run.
func (e *execution) checkParent() error {
	if e.state.Parent == "" || e.state.Status.IsFinal() {
		return nil
	}
	ended, err := finalizer{e.runner}.hasEnded(e.ctx, e.state.Parent)
	if ended {
		return e.fail(EndCanceled, "", "the Engagement that called the agent has ended")
	}
	return err
}

// step makes the next step. Its context ends when the run has used its Limits.Time.
func (e *execution) step() error {
	left := e.runner.options.Limits.Time - time.Duration(e.state.Spent)*time.Millisecond
	ctx, cancel := context.WithTimeoutCause(e.ctx, left, errTime)
	defer cancel()
	var err error
	switch st := e.state; {
	case left <= 0:
		err = errTime
	case st.Phase == phaseInput, st.Phase == phaseTools && st.question() >= 0 && st.count(CallBegun) == 0 && len(st.Inputs) > 0:
		err = e.takeInput(ctx)
	case st.Phase == phaseModel:
		err = e.requestModel(ctx)
	case st.Phase == phaseTools:
		err = e.makeCalls(ctx)
	case st.Phase == phaseAnswer:
		err = e.returnAnswer(ctx)
	default:
		err = fmt.Errorf("the state has the unknown phase %q", st.Phase)
	}
	if err != nil && e.ctx.Err() == nil && (errors.Is(err, errTime) || errors.Is(context.Cause(ctx), errTime)) {
		return e.fail(EndLimit, "time", fmt.Sprintf("the Engagement has reached its limit of time, %s", e.runner.options.Limits.Time))
	}
	return err
}

var errTime = errors.New("the run has reached its limit of time")

// stopped handles an error that stops the work of this node on the run, but does not end the run.
func (e *execution) stopped(err error) error {
	if errors.Is(err, errLost) || errors.Is(err, ErrNotFound) || errors.Is(context.Cause(e.ctx), errLost) {
		return finalizer{e.runner}.leaseLost(e.ctx, e.id, nil)
	}
	if e.ctx.Err() != nil {
		return e.release(false)
	}
	return err
}

// release releases the lease, so that another node can claim the run at once. Between two steps,
// calls that are recorded as begun have not been made yet, so they become planned again.
func (e *execution) release(betweenSteps bool) error {
	err := e.record(func(st *State) []entry {
		st.Lease = nil
		for i := range st.Calls {
			if c := &st.Calls[i]; betweenSteps && c.Status == CallBegun {
				c.Status = CallPlanned
				st.CallsMade--
			}
		}
		return nil
	}, false)
	if err == nil {
		e.runner.handOver(e.state)
	}
	if errors.Is(err, errLost) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// handOver passes a run to another node, because this node stops.
func (r *Runner) handOver(st *State) {
	if r.options.Queue != nil {
		r.report(st.ID, r.options.Queue.Push(context.Background(), st.ID, ""))
		return
	}
	r.options.Handover(st.ID)
}

// fail ends the run with an error.
func (e *execution) fail(kind EndKind, rule, message string) error {
	return e.record(func(st *State) []entry {
		st.end(StatusError, &Ending{Kind: kind, Rule: rule, Message: message})
		return nil
	}, false)
}

// record changes the state, if this node still has the lease, and extends the lease. With advance
// it also moves the state to the next step: the end of a step and the beginning of the next are
// one change of the store.
//
// If the store fails, record tries again. State.Steps shows whether an earlier attempt was written
// although the store returned an error.
func (e *execution) record(change func(*State) []entry, advance bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.runner
	var entries []entry // of the last attempt that may have been written
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), recordTime)
		now := r.options.Now()
		st, err := r.storage.change(ctx, e.id, func(st *State) ([]entry, error) {
			held := st.Lease.hasToken(e.token)
			switch {
			case st.Steps == e.state.Steps+1 && (held || st.Lease == nil):
				return nil, errUnchanged // written by an earlier attempt
			case !held || st.Steps != e.state.Steps:
				return nil, errLost
			}
			st.Steps++
			st.Tries = 0
			st.Spent += now.Sub(e.since).Milliseconds()
			st.Lease.Until = now.Add(r.options.Lease).UTC()
			entries = change(st)
			if advance && !st.Status.IsFinal() {
				entries = append(entries, e.planner.advance(st)...)
			}
			if st.Status.IsFinal() {
				entries = append(entries, entry{Kind: entryEnded, Status: st.Status, Ending: st.Ending})
			}
			return entries, nil
		})
		cancel()
		switch {
		case err == nil:
			e.state = st
			e.since = e.since.Add(now.Sub(e.since).Truncate(time.Millisecond))
			return e.conversation.addAll(entries)
		case errors.Is(err, errLost), errors.Is(err, ErrNotFound), errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrClosed), try == recordTries:
			return err
		}
		pause(e.ctx, time.Duration(try)*retryPause)
	}
}

// renewRegularly extends the lease during long steps. If the lease is lost, it interrupts the step.
func (e *execution) renewRegularly(done <-chan struct{}) {
	ticker := time.NewTicker(e.runner.options.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		err := e.renew()
		if errors.Is(err, errLost) || errors.Is(err, ErrNotFound) {
			e.cancel(errLost)
			return
		}
		e.runner.report(e.id, err)
	}
}

func (e *execution) renew() error {
	ctx, cancel := context.WithTimeout(e.ctx, e.runner.options.Lease/3)
	defer cancel()
	_, err := e.runner.storage.change(ctx, e.id, func(st *State) ([]entry, error) {
		if !st.Lease.hasToken(e.token) {
			return nil, errLost
		}
		st.Lease.Until = e.runner.options.Now().Add(e.runner.options.Lease).UTC()
		return nil, nil
	})
	return err
}
