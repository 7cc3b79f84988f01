package review

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store/lease"
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

	terms *lease.Terms
	claim *lease.Claim[*engagement.AssignedReview]
}

// Claim claims a review that an agent must decide. If the agent must not be called now, claim is
// nil, and retryAt is the time of the next attempt, or zero if there is none. The error is an
// *engagement.Refusal if the agent's own Engagement has ended, and ErrNotFound if there is no such
// review.
func (q *Queue) Claim(ctx context.Context, id string, duration time.Duration) (claim *Claim, retryAt time.Time, err error) {
	r, err := q.read(ctx, id)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case r.ByAgent == "":
		return nil, time.Time{}, ErrNotFound
	case q.isOver(r):
		return nil, time.Time{}, q.lists.remove(ctx, r.decider(), id)
	}
	terms := &lease.Terms{Duration: duration, Pause: q.options.RetryPause, MaxPause: maxRetryPause, MaxTries: maxProgramCalls, Now: q.options.Now}
	var found engagement.AssignedReview
	taken, err := lease.Take(ctx, terms, q.assignment(r), func(assigned *engagement.AssignedReview) bool {
		found = *assigned
		return found.Verdict == "" && !found.Settled
	})
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case taken != nil:
		return &Claim{Review: r, terms: terms, claim: taken}, time.Time{}, nil
	case found.Verdict != "": // the decision was recorded but interrupted before it took effect
		return nil, time.Time{}, q.settle(ctx, r, found.Verdict, found.Comment)
	case found.Settled:
		return nil, time.Time{}, nil
	}
	return nil, found.Lease.Until, nil
}

// assignment is the transaction on a review in the Engagement in which an agent decides it.
func (q *Queue) assignment(r *Review) lease.Transaction[*engagement.AssignedReview] {
	return func(ctx context.Context, change func(*engagement.AssignedReview, *lease.Lease) error) error {
		var refused error
		err := q.changeAssigned(ctx, r, func(_ *engagement.Tx, assigned *engagement.AssignedReview) error {
			if refused = change(assigned, &assigned.Lease); refused != nil {
				return engagement.ErrUnchanged
			}
			return nil
		})
		return cmp.Or(err, refused)
	}
}

// Defer reports that the program will call Decide later. It is not called again.
func (c *Claim) Defer(ctx context.Context) error {
	return ignoreOver(c.claim.End(ctx, func(assigned *engagement.AssignedReview, _ *lease.Lease) error {
		assigned.Settled = true
		return nil
	}))
}

// Release reports that the program may not have been called. It may be called again at once.
func (c *Claim) Release(ctx context.Context) error { return ignoreOver(c.claim.Release(ctx)) }

// Fail reports that the program returned no valid decision. The program is called again at retryAt.
// Zero means that it is not called again.
func (c *Claim) Fail(ctx context.Context) (retryAt time.Time, err error) {
	err = c.claim.End(ctx, func(assigned *engagement.AssignedReview, l *lease.Lease) error {
		if assigned.Settled = !c.terms.Retry(l); assigned.Settled {
			retryAt = time.Time{}
		} else {
			retryAt = l.Until
		}
		return nil
	})
	return retryAt, ignoreOver(err)
}

// ignoreOver returns nil if the error means that the claim is no longer of use.
func ignoreOver(err error) error {
	if errors.Is(err, lease.ErrLost) || errors.Is(err, ErrNotFound) || isEnded(err) {
		return nil
	}
	return err
}
