package oagent

import (
	"context"
	"errors"
	"time"
)

// Limits on calling an agent's program about a review.
const (
	maxTriesToAsk = 20               // after these tries the program must list its reviews itself
	maxAskPause   = 10 * time.Minute // the longest delay between two tries
)

// ReviewClaim is the exclusive right to call an agent's program about a review. During its
// lease no other node has a claim. The holder reports the result with Guard.Decide or with one
// of the methods. If it reports nothing, another node may claim the review after the lease.
type ReviewClaim struct {
	Review *Review

	guard *Guard
	try   int
}

// ClaimReview claims a review that an agent must decide. If nobody may call the agent now,
// claim is nil, and again is the time of the next attempt, or zero if there is none. The error
// is a *Refusal if the agent can decide nothing more, and ErrNoReview if there is no such
// review.
func (g *Guard) ClaimReview(ctx context.Context, id string, lease time.Duration) (claim *ReviewClaim, again time.Time, err error) {
	r, err := g.readReview(ctx, id)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case r.ByAgent == "":
		return nil, time.Time{}, ErrNoReview
	case g.over(r):
		return nil, time.Time{}, g.closeReview(ctx, r.decider(), id)
	}
	ctx, cancel := recordContext(ctx) // not canceled with ctx: a stored claim that is not returned could not be released
	defer cancel()
	var decided question
	err = g.changeQuestion(ctx, r, func(t *turn, q *question) error {
		claim, again, decided = nil, time.Time{}, *q
		switch {
		case q.Verdict != "" || q.Quiet:
			return errUnchanged
		case q.Until > t.now.UnixMilli():
			again = milliseconds(q.Until)
			return errUnchanged
		}
		q.Tries++
		q.Until = t.now.Add(lease).UnixMilli()
		claim = &ReviewClaim{Review: r, guard: g, try: q.Tries}
		return nil
	})
	if err == nil && decided.Verdict != "" { // an earlier decision was recorded but interrupted before it took effect
		err = g.settle(ctx, r, decided.Verdict, decided.Comment)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return claim, again, nil
}

// Defer reports that the program decides later by itself. It is not called again.
func (c *ReviewClaim) Defer(ctx context.Context) error {
	return c.end(ctx, func(_ *turn, q *question) { q.Quiet = true })
}

// Release reports that the program may not have been called. It may be called again at once.
func (c *ReviewClaim) Release(ctx context.Context) error {
	return c.end(ctx, func(_ *turn, q *question) { q.Tries, q.Until = q.Tries-1, 0 })
}

// Fail reports that the program returned no valid decision. It is called again at the returned
// time; zero means that it has been called often enough.
func (c *ReviewClaim) Fail(ctx context.Context) (again time.Time, err error) {
	err = c.end(ctx, func(t *turn, q *question) {
		pause := min(t.guard.options.AskPause<<min(c.try-1, maxTriesToAsk), maxAskPause)
		again = t.now.Add(pause)
		q.Until = again.UnixMilli()
		if c.try >= maxTriesToAsk {
			q.Quiet, again = true, time.Time{}
		}
	})
	return again, err
}

// end records the result of the claim, if the claim is still valid.
func (c *ReviewClaim) end(ctx context.Context, write func(*turn, *question)) error {
	ctx, cancel := recordContext(ctx)
	defer cancel()
	err := c.guard.changeQuestion(ctx, c.Review, func(t *turn, q *question) error {
		if q.Tries != c.try || q.Quiet {
			return errUnchanged
		}
		write(t, q)
		return nil
	})
	if errors.Is(err, ErrNoReview) || isEnded(err) {
		return nil
	}
	return err
}
