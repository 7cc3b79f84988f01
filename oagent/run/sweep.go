package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// sweeper finds runs that can continue and that no node works on.
type sweeper struct{ *Runner }

// sweepRegularly sweeps at once, and then about every Options.Sweep. It finds runs whose node died,
// whose job was lost, or whose review was decided while no node was running.
func (r sweeper) sweepRegularly() {
	for {
		r.report("", r.sweep(r.running))
		spread := r.options.Sweep/2 + rand.N(r.options.Sweep) //nolint:gosec // only spreads the load
		if pause(r.running, spread); r.running.Err() != nil {
			return
		}
	}
}

// sweep checks each run that has not ended.
func (r sweeper) sweep(ctx context.Context) error {
	ids, err := r.index.all(ctx)
	if err != nil {
		return err
	}
	failures, waiting := 0, int64(0)
	for _, id := range ids {
		waits, err := r.checkRun(ctx, id)
		if waits {
			waiting++
		}
		if err != nil {
			r.report(id, err) // continue: the error may concern this run only
			if failures++; failures == maxFailures {
				return errors.New("too many runs cannot be read; the sweep is repeated later")
			}
		}
	}
	r.waiting.Store(waiting)
	return nil
}

const maxFailures = 10 // of one sweep

// checkRun adds a job for a run that can continue. It reports whether the run waits.
func (r sweeper) checkRun(ctx context.Context, id string) (waits bool, err error) {
	st, err := r.storage.get(ctx, id)
	switch {
	case isNotFound(err):
		return false, r.index.remove(ctx, id)
	case err == nil && st.Status.IsFinal(): // its node died before it called finalize
		finalizer(r).finalize(ctx, st)
		return false, nil
	case err != nil:
		return false, err
	case r.options.isHeld(st.Lease):
		return false, nil
	}
	waits = st.isWaiting()
	switch {
	case r.options.Agent(st.Agent) == nil:
		return waits, nil
	case r.options.Queue != nil && r.options.Now().Sub(st.Changed) < r.options.Sweep:
		return waits, nil // its job is probably in the queue
	case waits && !r.mayResume(ctx, st):
		return true, nil
	}
	if st.Home != "" && st.Home != r.options.Node {
		if alive, err := presence(r).isAlive(ctx, st.Home); alive {
			return waits, err
		}
	}
	return waits, r.local.Push(ctx, id, "")
}

// mayResume reports whether a run that waits may be able to continue: it waits for a task, or one of
// its reviews is no longer pending.
func (r sweeper) mayResume(ctx context.Context, st *State) bool {
	var reviews []string
	for _, w := range st.Waits() {
		switch w.Kind {
		case WaitTask:
			return true
		case WaitReview:
			reviews = append(reviews, w.ID)
		}
	}
	if reviews == nil {
		return false
	}
	b := st.binding(r.options.Agent(st.Agent))
	summary, err := r.options.Guard.Engagements.Get(ctx, b.Key())
	if err != nil {
		return isEngagementGone(err)
	}
	return slices.ContainsFunc(reviews, func(id string) bool { return !slices.Contains(summary.Pending, id) })
}

func isEngagementGone(err error) bool { return errors.Is(err, engagement.ErrNotFound) }
