package run

import (
	"context"
	"errors"
)

// ender does what is to be done after the end of a run.
type ender struct{ *Runner }

// finished releases what belongs to a run that has ended. It may run more than once. If a node
// dies before the run is removed from the index, a sweep repeats it.
func (r ender) finished(ctx context.Context, st *State) {
	ctx = context.WithoutCancel(ctx)
	r.report(st.ID, r.abandonReviews(ctx, st))
	r.options.Ended(st.ID)
	if st.Parent != "" {
		if err := r.Wake(ctx, st.Parent); !errors.Is(err, ErrNotFound) {
			r.report(st.Parent, err)
		}
	}
	r.report(st.ID, r.index.remove(ctx, st.ID))
}

// abandonReviews closes the reviews of a run that has ended. The record of the Engagement has also those
// that are not in the state of the run, because the run was canceled, or its node died, before the state
// was stored.
func (r ender) abandonReviews(ctx context.Context, st *State) error {
	agent := r.options.Agent(st.Agent)
	if agent == nil {
		return nil
	}
	b := st.binding(agent)
	summary, err := r.options.Guard.Engagements.Get(ctx, b.Key())
	if isEngagementGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, id := range summary.Pending {
		if err := r.options.Guard.Reviews.Abandon(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// giveUp cancels the task that a call of a canceled run waits for.
func (r ender) giveUp(ctx context.Context, w *Wait) {
	if w.Kind != WaitTask {
		return // reviews are abandoned in finished
	}
	// perhaps it is a run that this one has started
	if _, err := r.Cancel(ctx, w.ID); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrEnded) {
		r.report(w.ID, err)
	}
}

// lost handles the loss of the lease of a run. If the run was canceled, its last step may have requested a
// review, or begun to wait for w, after that. w may be nil.
func (r ender) lost(ctx context.Context, id string, w *Wait) error {
	ctx = context.WithoutCancel(ctx)
	st, err := r.storage.get(ctx, id)
	switch {
	case isNotFound(err):
		return nil
	case err != nil || !st.Status.IsFinal():
		return err
	}
	if w != nil {
		r.giveUp(ctx, w)
	}
	return r.abandonReviews(ctx, st)
}
