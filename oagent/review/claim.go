package review

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Limits on calling an agent's program about a review.
const (
	maxProgramCalls = 20               // then the program is not called again, and must list its reviews itself
	maxRetryPause   = 10 * time.Minute // longest delay between two calls
)

// Claim is the exclusive right to call an agent's program about a review. During its lease no other
// node has a claim. The holder reports the result with Queue.Decide or with one of the methods. If
// it reports nothing, another node may claim the review when the lease has expired.
type Claim struct {
	Review *Review

	queue *Queue
	try   int
}

// Claim claims a review that an agent must decide. If the agent must not be called now, claim is
// nil, and retryAt is the time of the next attempt, or zero if there is none. The error is an
// *engagement.Refusal if the agent's own Engagement has ended, and ErrNotFound if there is no such
// review.
func (q *Queue) Claim(ctx context.Context, id string, lease time.Duration) (claim *Claim, retryAt time.Time, err error) {
	r, err := q.reviews.read(ctx, id)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case r.ByAgent == "":
		return nil, time.Time{}, ErrNotFound
	case q.isOver(r):
		return nil, time.Time{}, q.lists.remove(ctx, r.decider(), id)
	}
	ctx, cancel := engagement.Detach(ctx) // not canceled with ctx: a stored claim that is not returned could not be released
	defer cancel()
	var decided engagement.AssignedReview
	err = q.changeAssigned(ctx, r, func(t *engagement.Tx, assigned *engagement.AssignedReview) error {
		claim, retryAt, decided = nil, time.Time{}, *assigned
		switch {
		case assigned.Verdict != "" || assigned.Settled:
			return engagement.ErrUnchanged
		case assigned.Until > t.Now.UnixMilli():
			retryAt = engagement.Milliseconds(assigned.Until)
			return engagement.ErrUnchanged
		}
		assigned.Tries++
		assigned.Until = t.Now.Add(lease).UnixMilli()
		claim = &Claim{Review: r, queue: q, try: assigned.Tries}
		return nil
	})
	if err == nil && decided.Verdict != "" { // an earlier decision was recorded but interrupted before it took effect
		err = q.settle(ctx, r, decided.Verdict, decided.Comment)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return claim, retryAt, nil
}

// Defer reports that the program will call Decide later. It is not called again.
func (c *Claim) Defer(ctx context.Context) error {
	return c.end(ctx, func(_ *engagement.Tx, assigned *engagement.AssignedReview) { assigned.Settled = true })
}

// Release reports that the program may not have been called. It may be called again at once.
func (c *Claim) Release(ctx context.Context) error {
	return c.end(ctx, func(_ *engagement.Tx, assigned *engagement.AssignedReview) {
		assigned.Tries, assigned.Until = assigned.Tries-1, 0
	})
}

// Fail reports that the program returned no valid decision. The program is called again at retryAt.
// Zero means that it is not called again.
func (c *Claim) Fail(ctx context.Context) (retryAt time.Time, err error) {
	err = c.end(ctx, func(t *engagement.Tx, assigned *engagement.AssignedReview) {
		pause := min(c.queue.options.RetryPause<<min(c.try-1, maxProgramCalls), maxRetryPause)
		retryAt = t.Now.Add(pause)
		assigned.Until = retryAt.UnixMilli()
		if c.try >= maxProgramCalls {
			assigned.Settled, retryAt = true, time.Time{}
		}
	})
	return retryAt, err
}

// end records the result of the claim, if the claim is still valid.
func (c *Claim) end(ctx context.Context, write func(*engagement.Tx, *engagement.AssignedReview)) error {
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	err := c.queue.changeAssigned(ctx, c.Review, func(t *engagement.Tx, assigned *engagement.AssignedReview) error {
		if assigned.Tries != c.try || assigned.Settled {
			return engagement.ErrUnchanged
		}
		write(t, assigned)
		return nil
	})
	if errors.Is(err, ErrNotFound) || isEnded(err) {
		return nil
	}
	return err
}
