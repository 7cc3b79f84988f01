package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// renewLease renews the lease of the call's record until stop is called.
func (e *execution) renewLease(ctx context.Context) (stop func()) {
	ctx = context.WithoutCancel(ctx)
	own := e.own
	interval := e.options.Lease / heartbeatsPerLease
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	heartbeat := func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, min(interval, storeTimeout))
		defer cancel()
		err := e.store.Update(ctx, e.key, func(old store.Record) (store.Change, error) {
			r, ok := decodeRecord(old.Value)
			if !ok || r.attempt != own.attempt {
				return store.Change{}, errClaimed
			}
			own.leaseEnd = time.Now().Add(e.options.Lease)
			return store.Change{Value: own.encode(), TTL: e.runningTTL(), Async: true}, nil
		})
		if err != nil && !errors.Is(err, errClaimed) {
			e.options.Failed(err)
		}
		timer.Reset(interval)
	}
	mu.Lock()
	timer = time.AfterFunc(interval, heartbeat)
	mu.Unlock()
	return func() {
		timer.Stop()
		mu.Lock()
		stopped = true
		mu.Unlock()
	}
}
