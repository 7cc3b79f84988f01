package otcadapter

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/internal/store"
)

// How an answer is kept that the store did not take at once.
const (
	keepFirst  = 100 * time.Millisecond // until the second try; doubled for each one after
	keepWithin = 30 * time.Second       // or the lease, if that is shorter: then the call counts as dead
	maxUnkept  = 64                     // answers that wait for this at a time
)

// keepLater tries to keep an answer once more, in the background: a call that has
// run but has no answer in its record would be reported as unfinished. It gives up
// after a while, or at once where too many answers wait already.
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
