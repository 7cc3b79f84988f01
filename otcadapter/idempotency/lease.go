package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// A lease renews the lease of a record while its call runs.
type lease struct {
	*execution
	ctx      context.Context // with the values for the store
	interval time.Duration

	mu      sync.Mutex
	record  record
	timer   *time.Timer
	stopped bool
}

// startLease renews the lease of the call's record until stop is called.
func (e *execution) startLease(ctx context.Context) *lease {
	l := &lease{execution: e, ctx: ctx, interval: e.options.Lease / heartbeatsPerLease, record: e.own}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(l.interval, l.renew)
	return l
}

// renew renews the lease once.
func (l *lease) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), min(l.interval, storeTimeout))
	defer cancel()
	err := l.store.Update(ctx, l.key, func(old store.Record) (store.Change, error) {
		r, ok := decodeRecord(old.Value)
		if !ok || r.attempt != l.record.attempt {
			return store.Change{}, errClaimed
		}
		l.record.leaseEnd = time.Now().Add(l.options.Lease)
		return store.Change{Value: l.record.encode(), TTL: l.runningTTL(), Async: true}, nil
	})
	if err != nil && !errors.Is(err, errClaimed) {
		l.options.Failed(err)
	}
	l.timer.Reset(l.interval)
}

// stop ends the lease. When it has returned, the record is not changed anymore.
func (l *lease) stop() {
	l.timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}
