package embedded

import (
	"context"
	"math"
	"slices"

	"github.com/fairwayhq/fairway/store"
)

// flushWaiter waits until all memtables up to the given number are flushed.
type flushWaiter struct {
	memtable uint64
	done     chan error
}

// allMemtables is higher than the number of any memtable.
const allMemtables = math.MaxUint64

// full reports whether the memtables have reached their limits. The caller must hold b.mu.
func (b *writeBuffer) full() bool {
	changes, bytes := b.active.changes, b.active.bytes
	if b.immutable != nil {
		changes += b.immutable.changes
		bytes += b.immutable.bytes
	}
	return changes >= b.options.maxBufferedChanges || bytes >= maxBufferedBytes
}

// waitForSpace blocks while the memtables are full (backpressure).
func (b *writeBuffer) waitForSpace(ctx context.Context, closing <-chan struct{}) error {
	b.mu.Lock()
	full, space := b.full(), b.space
	if full {
		b.requestFlush()
	}
	b.mu.Unlock()
	if !full {
		return nil
	}
	select {
	case <-space:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closing:
		return store.ErrClosed
	}
}

// releaseWriters wakes the writers blocked by backpressure. The caller must hold b.mu.
func (b *writeBuffer) releaseWriters() {
	close(b.space)
	b.space = make(chan struct{})
}

// requestFlush requests a flush of the active memtable as soon as the immutable one is
// flushed. The caller must hold b.mu.
func (b *writeBuffer) requestFlush() {
	b.flushRequested = true
	b.commitSoon()
	signal(b.wake)
}

// waitForFlush blocks until all changes so far are in the file.
func (b *writeBuffer) waitForFlush(ctx context.Context) error {
	w := flushWaiter{done: make(chan error, 1)}
	b.mu.Lock()
	switch {
	case b.closed:
		b.mu.Unlock()
		return store.ErrClosed
	case b.flushErr != nil:
		defer b.mu.Unlock()
		return b.flushErr
	case b.active.changes > 0:
		w.memtable = b.active.number
		b.requestFlush()
	case b.immutable != nil:
		w.memtable = b.immutable.number
	default:
		b.mu.Unlock()
		return nil
	}
	b.flushWaiters = append(b.flushWaiters, w)
	b.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// releaseFlushWaiters sends the result to the callers that wait for memtables up to the
// given number. The caller must hold b.mu.
func (b *writeBuffer) releaseFlushWaiters(upTo uint64, err error) {
	b.flushWaiters = slices.DeleteFunc(b.flushWaiters, func(w flushWaiter) bool {
		if w.memtable <= upTo {
			w.done <- err
			return true
		}
		return false
	})
}

// flushed drops the memtable, which is in the file now.
func (b *writeBuffer) flushed(m *memtable) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushErr = nil
	switch m {
	case b.immutable:
		b.immutable = nil
	case b.active: // only when the store is closed
		b.active = newMemtable(m.number+1, 0)
	}
	b.releaseFlushWaiters(m.number, nil)
	b.releaseWriters()
	b.commitSoon() // the active memtable may be due too
	signal(b.wake)
}

// flushFailed rejects changes until a flush succeeds.
func (b *writeBuffer) flushFailed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushErr = err
	b.releaseFlushWaiters(allMemtables, err)
	b.releaseWriters()
}

// memtables returns the memtables, the oldest first.
func (b *writeBuffer) memtables() []*memtable {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.immutable == nil {
		return []*memtable{b.active}
	}
	return []*memtable{b.immutable, b.active}
}

// abandonFlushWaiters ends the remaining waits for a flush, because the store is closed.
func (b *writeBuffer) abandonFlushWaiters() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseFlushWaiters(allMemtables, store.ErrClosed)
}
