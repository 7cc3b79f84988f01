package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// Limits for storing a response after the store has failed.
const (
	firstRetryDelay = 100 * time.Millisecond // before the second attempt; doubled for each further one
	retryTimeout    = 30 * time.Second       // at most, and at most the lease: after that the call counts as dead
	maxRetrying     = 64                     // responses that may wait for this at a time
)

// retryStore tries again to store a response, in the background. Without its response, a call
// that has run would be reported as unfinished. retryStore gives up after retryTimeout, or
// immediately if too many responses are waiting.
func (r *Records) retryStore(st store.Store, key string, attempt nodeID, change store.Change) {
	if r.retrying.Add(1) > maxRetrying {
		r.retrying.Add(-1)
		return
	}
	go func() {
		defer r.retrying.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), min(retryTimeout, r.options.Lease))
		defer cancel()
		timer := time.NewTimer(firstRetryDelay)
		defer timer.Stop()
		for wait := firstRetryDelay; ; timer.Reset(wait) {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			err := putUnlessClaimed(ctx, st, key, attempt, change)
			if err == nil || errors.Is(err, errClaimed) || errors.Is(err, store.ErrClosed) {
				return
			}
			r.options.Failed(err)
			wait *= 2
		}
	}()
}

// putUnlessClaimed is Put, unless another attempt at the call has a record by now.
func putUnlessClaimed(ctx context.Context, st store.Store, key string, attempt nodeID, change store.Change) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return st.Update(ctx, key, func(old store.Record) (store.Change, error) {
		if r, ok := decodeRecord(old.Value); ok && r.attempt != attempt {
			return store.Change{}, errClaimed
		}
		return change, nil
	})
}
