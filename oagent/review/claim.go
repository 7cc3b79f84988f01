package review

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Limits on calling an agent's program about a review.
const (
	maxTriesToAsk = 20               // after these tries the program must list its reviews itself
	maxAskPause   = 10 * time.Minute // the longest delay between two tries
)

// Claim is the exclusive right to call an agent's program about a review. During its
// lease no other node has a claim. The holder reports the result with Queue.Decide or with one
// of the methods. If it reports nothing, another node may claim the review after the lease.
type Claim struct {
	Review *Review

	queue *Queue
	try   int
}

// Claim claims a review that an agent must decide. If the agent must not be called now,
// claim is nil, and again is the time of the next attempt, or zero if there is none. The error
// is an *engagement.Refusal if the agent can decide nothing more, and ErrNotFound if there is no such
// review.
func (q *Queue) Claim(ctx context.Context, id string, lease time.Duration) (claim *Claim, again time.Time, err error) {
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
	var decided engagement.Question
	err = q.changeQuestion(ctx, r, func(t *engagement.Tx, asked *engagement.Question) error {
		claim, again, decided = nil, time.Time{}, *asked
		switch {
		case asked.Verdict != "" || asked.Quiet:
			return engagement.ErrUnchanged
		case asked.Until > t.Now.UnixMilli():
			again = engagement.Milliseconds(asked.Until)
			return engagement.ErrUnchanged
		}
		asked.Tries++
		asked.Until = t.Now.Add(lease).UnixMilli()
		claim = &Claim{Review: r, queue: q, try: asked.Tries}
		return nil
	})
	if err == nil && decided.Verdict != "" { // an earlier decision was recorded but interrupted before it took effect
		err = q.settle(ctx, r, decided.Verdict, decided.Comment)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return claim, again, nil
}

// Defer reports that the program decides later by itself. It is not called again.
func (c *Claim) Defer(ctx context.Context) error {
	return c.end(ctx, func(_ *engagement.Tx, asked *engagement.Question) { asked.Quiet = true })
}

// Release reports that the program may not have been called. It may be called again at once.
func (c *Claim) Release(ctx context.Context) error {
	return c.end(ctx, func(_ *engagement.Tx, asked *engagement.Question) { asked.Tries, asked.Until = asked.Tries-1, 0 })
}

// Fail reports that the program returned no valid decision. It is called again at the returned
// time; zero means that it has been called often enough.
func (c *Claim) Fail(ctx context.Context) (again time.Time, err error) {
	err = c.end(ctx, func(t *engagement.Tx, asked *engagement.Question) {
		pause := min(c.queue.options.AskPause<<min(c.try-1, maxTriesToAsk), maxAskPause)
		again = t.Now.Add(pause)
		asked.Until = again.UnixMilli()
		if c.try >= maxTriesToAsk {
			asked.Quiet, again = true, time.Time{}
		}
	})
	return again, err
}

// end records the result of the claim, if the claim is still valid.
func (c *Claim) end(ctx context.Context, write func(*engagement.Tx, *engagement.Question)) error {
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	err := c.queue.changeQuestion(ctx, c.Review, func(t *engagement.Tx, asked *engagement.Question) error {
		if asked.Tries != c.try || asked.Quiet {
			return engagement.ErrUnchanged
		}
		write(t, asked)
		return nil
	})
	if errors.Is(err, ErrNotFound) || isEnded(err) {
		return nil
	}
	return err
}
