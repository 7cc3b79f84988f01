package embedded

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// memtable holds the latest version of each record that changed since the last flush.
// Writes go to the active memtable; a full one becomes immutable, is flushed to the file
// and then dropped. Each memtable has its own file of the write-ahead log, except for
// batches that are not committed yet.
type memtable struct {
	number    uint64 // counts from 1
	records   map[string]*memEntry
	batches   []*batch // those in the write-ahead log
	changes   int      // number of changes, committed or not
	bytes     int      // approximate memory use of the changes
	lastFrame uint64   // number of its last frame in the write-ahead log; 0 if none

	// absent has the keys for which Get found no record. Often the next change creates that record, and
	// then it need not read the file. A key in absent whose record was created since is also in records,
	// here or in the next memtable.
	absent map[string]struct{}
}

// memEntry is the state of one record in a memtable.
type memEntry struct {
	old     *record  // version before this memtable; nil if none
	new     *record  // latest version; nil if the record was deleted
	entries [][]byte // log entries that only this memtable has
	awaited *batch   // the last one with a change whose caller waits until it is durable; nil if there is none
}

// newMemtable returns a memtable with capacity for the given number of records.
func newMemtable(number uint64, records int) *memtable {
	return &memtable{number: number, records: make(map[string]*memEntry, records)}
}

// add makes the write visible and returns its approximate size in bytes. It copies the
// list of entries.
func (m *memtable) add(w *write) int {
	e := m.records[w.key]
	switch {
	case e == nil:
		e = &memEntry{old: w.old}
		m.records[w.key] = e
	case w.new == nil || e.new == nil || e.new.id != w.new.id:
		e.entries = nil // they belong to the log of the deleted record
	}
	e.new = w.new
	n := len(e.entries)
	e.entries = append(e.entries, w.entries...)
	w.entries = slices.Clip(e.entries[n:])
	size := w.memory()
	m.changes++
	m.bytes += size
	return size
}

// committed returns a copy of the memtable with only the changes that are in the
// write-ahead log.
func (m *memtable) committed() *memtable {
	c := newMemtable(m.number, len(m.records))
	c.batches, c.lastFrame = m.batches, m.lastFrame
	for _, b := range m.batches {
		for i := range b.writes {
			c.add(&b.writes[i])
		}
	}
	return c
}

// id returns the id of the latest version, or of the deleted record.
func (e *memEntry) id() uint64 {
	if e.new != nil {
		return e.new.id
	}
	return e.old.id
}

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

// flushRetry is the delay before a failed flush is repeated.
const flushRetry = time.Second

// flusher writes immutable memtables to the file. It runs in one goroutine.
type flusher struct {
	options   *Options
	buffer    *writeBuffer
	file      *file
	salt      uint64           // of the write-ahead log
	sealed    <-chan *memtable // immutable memtables of the committer
	committed <-chan struct{}  // closed when the committer has ended
}

// run flushes one memtable after the other until the committer has ended. It then flushes
// the rest. If that fails, it returns the error; the changes stay in the write-ahead log.
func (f *flusher) run() error {
	for {
		select {
		case m := <-f.sealed:
			f.flushUntilDone(m)
		case <-f.committed:
			return f.flushRest()
		}
	}
}

// flushUntilDone repeats the flush until it succeeds or the store is closed.
func (f *flusher) flushUntilDone(m *memtable) {
	for reported := false; ; reported = true {
		err := f.flush(m)
		if err == nil {
			return
		}
		if !reported {
			f.options.Failed(err)
		}
		select {
		case <-time.After(flushRetry):
		case <-f.committed:
			return
		}
	}
}

// flushRest flushes the remaining memtables.
func (f *flusher) flushRest() error {
	for _, m := range f.buffer.memtables() {
		if err := f.flush(m); err != nil {
			return err
		}
	}
	f.buffer.abandonFlushWaiters()
	return nil
}

// flush writes a memtable to the file in one transaction. If it fails, the store rejects
// changes until a retry succeeds.
func (f *flusher) flush(m *memtable) error {
	position := walPosition{salt: f.salt, flushed: m.lastFrame}
	if err := f.file.writeMemtable(m, position, f.options.beforeFlush); err != nil {
		err = fmt.Errorf("flushing the memtable to the store file failed; its changes are safe in the write-ahead log, and the flush is repeated: %w", err)
		f.buffer.flushFailed(err)
		return err
	}
	f.buffer.flushed(m)
	return nil
}
