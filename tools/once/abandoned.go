package once

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

const (
	maxAbandoned   = 1024             // claims that this node remembers
	abandonTimeout = 10 * time.Minute // how long it tries to release one
)

// abandon releases the claim of a call that is not run, because the store has returned an error: the server may have
// written the claim all the same, or may be about to. If that is known only later, the next request for the call on
// this node replaces the record, see isAbandoned.
func (e *execution) abandon(err error) {
	if e.own.lease.Token == "" || errors.Is(err, store.ErrShare) || errors.Is(err, store.ErrFull) {
		return // nothing was sent, or the server has refused it
	}
	e.mu.Lock()
	if e.abandoned = append(e.abandoned, e.own.lease.Token); len(e.abandoned) > maxAbandoned {
		e.abandoned = e.abandoned[1:]
	}
	e.mu.Unlock()
	claim := lease.Hold(&e.store.terms, e.transact, &e.own.lease)
	e.later(abandonTimeout, func(ctx context.Context) error {
		return claim.End(ctx, func(c *store.Change, _ *lease.Lease) error {
			*c = store.Change{Delete: true}
			return nil
		})
	})
}

// isAbandoned reports whether a claim is one of this node under which no call was run.
func (r *Records) isAbandoned(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.abandoned, token)
}
