package otcadapter

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/internal/store"
)

// Limits for storing a response after the store has failed.
const (
	keepFirst  = 100 * time.Millisecond // before the second attempt; doubled for each further one
	keepWithin = 30 * time.Second       // at most, and at most the lease: after that the call counts as dead
	maxUnkept  = 64                     // responses that may wait for this at a time
)

// keepLater tries again to store a response, in the background. Without its response, a call
// that has run would be reported as unfinished. keepLater gives up after keepWithin, or
// immediately if too many responses are waiting.
func (p *records) keepLater(st store.Store, key string, attempt nodeID, change store.Change) {
	if p.unkept.Add(1) > maxUnkept {
		p.unkept.Add(-1)
		return
	}
	go func() {
		defer p.unkept.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), min(keepWithin, p.options.Lease))
		defer cancel()
		timer := time.NewTimer(keepFirst)
		defer timer.Stop()
		for wait := keepFirst; ; timer.Reset(wait) {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			err := keepOver(ctx, st, key, attempt, change)
			if err == nil || errors.Is(err, errTaken) || errors.Is(err, store.ErrClosed) {
				return
			}
			p.options.Failed(err)
			wait *= 2
		}
	}()
}

// keepOver is Put, unless another attempt at the call has a record by now.
func keepOver(ctx context.Context, st store.Store, key string, attempt nodeID, change store.Change) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return st.Update(ctx, key, func(old store.Record) (store.Change, error) {
		if r, ok := decodeRecord(old.Value); ok && r.attempt != attempt {
			return store.Change{}, errTaken
		}
		return change, nil
	})
}
