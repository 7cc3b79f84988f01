package oagent

import (
	"context"
	"errors"
	"time"
)

// How the program of an agent is asked about a review.
const (
	maxTriesToAsk = 20               // after that it has to look by itself
	maxAskPause   = 10 * time.Minute // the longest pause between two tries
)

// A ReviewClaim is the right to ask the program of an agent about a review. For
// its lease nobody else has it, on whichever node. Its holder says what came of it:
// by Decide, or by one of the methods. If it never does, somebody else asks when
// the lease has ended.
type ReviewClaim struct {
	Review *Review

	guard *Guard
	try   int
}

// ClaimReview returns the claim to ask about a review that an agent is to decide.
// It is nil if nobody is to ask now; again is when to look again then, zero if that
// is no use. The error is a *Refusal if the agent decides nothing more, and
// ErrNoReview if there is no such review.
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
	ctx, cancel := recordContext(ctx) // a claim that is written is returned, or nobody could release it
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
	if err == nil && decided.Verdict != "" { // it was cut off before it counted
		err = g.settle(ctx, r, decided.Verdict, decided.Comment)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return claim, again, nil
}

// Defer says that the program decides by itself, later. It is not asked again.
func (c *ReviewClaim) Defer(ctx context.Context) error {
	return c.end(ctx, func(_ *turn, q *question) { q.Quiet = true })
}

// Release says that the program may not have been asked. It may be asked at once.
func (c *ReviewClaim) Release(ctx context.Context) error {
	return c.end(ctx, func(_ *turn, q *question) { q.Tries, q.Until = q.Tries-1, 0 })
}

// Fail says that the program has given no answer that counts. It is asked again
// after a while, at the time that this returns; zero if it was asked often enough.
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

// end writes what came of the claim, if it still holds.
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
