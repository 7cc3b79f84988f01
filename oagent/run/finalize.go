package run

import (
	"context"
	"errors"
)

// finalizer cleans up after runs that have ended.
type finalizer struct{ *Runner }

// finalize abandons the reviews of a run that has ended, wakes its parent and removes it from the
// index. If the node dies before that is complete, a sweep repeats it.
func (r finalizer) finalize(ctx context.Context, st *State) {
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

// abandonReviews closes the reviews of a run that has ended. It reads them from the record of the
// Engagement, which also has those that are missing in the state of the run because the run was
// canceled, or its node died, before the state was stored.
func (r finalizer) abandonReviews(ctx context.Context, st *State) error {
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
	reason := "the Engagement has ended"
	if st.Ending != nil && st.Ending.Kind == EndCanceled {
		reason = st.Ending.Message
	}
	for _, id := range summary.Pending {
		if err := r.options.Guard.Reviews.Abandon(ctx, id, reason); err != nil {
			return err
		}
	}
	return nil
}

// cancelTask cancels the task that a call of a canceled run waits for, if it is a run.
func (r finalizer) cancelTask(ctx context.Context, id string) {
	if _, err := r.Cancel(ctx, id); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrEnded) {
		r.report(id, err)
	}
}

// hasEnded reports whether a run has ended, or does not exist any more.
func (r finalizer) hasEnded(ctx context.Context, id string) (bool, error) {
	st, err := r.storage.get(ctx, id)
	if isNotFound(err) {
		return true, nil
	}
	return err == nil && st.Status.IsFinal(), err
}

// leaseLost handles the loss of the lease of a run. If the run was canceled, its last step may have
// requested a review, or started the task of w, after the cancellation. w may be nil.
func (r finalizer) leaseLost(ctx context.Context, id string, w *Wait) error {
	ctx = context.WithoutCancel(ctx)
	st, err := r.storage.get(ctx, id)
	switch {
	case isNotFound(err):
		return nil
	case err != nil || !st.Status.IsFinal():
		return err
	}
	if w != nil && w.Kind == WaitTask {
		r.cancelTask(ctx, w.ID)
	}
	return r.abandonReviews(ctx, st)
}
