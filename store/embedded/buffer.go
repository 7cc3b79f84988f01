package embedded

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	// A memtable is flushed when it reaches one of these limits. Flushing many changes
	// together is cheaper, since most of them modify the same pages, and often the same
	// records: a second takes 10 to 15 % less CPU per call than a quarter of a second, and
	// 15 MB more memory under full load.
	flushInterval   = time.Second // after the first group commit of the memtable
	memtableChanges = 16_384
	memtableBytes   = 16 << 20

	// Limits of both memtables together. Beyond them writers wait for a flush (backpressure).
	maxBufferedChanges = 65_536
	maxBufferedBytes   = 64 << 20

	// Limits of the next batch. Beyond them asynchronous changes become synchronous.
	maxBatchWrites = 4096
	maxBatchBytes  = 16 << 20
)

// writeBuffer holds the changes that are not in the file yet: both memtables and the next
// batch to commit. Writers add changes, the committer takes batches, and the flusher
// reports memtables as flushed.
type writeBuffer struct {
	options  *Options
	wake     chan struct{} // signals the committer that there is a batch to commit or a memtable to flush
	expedite chan struct{} // signals the committer not to delay the next batch
	complete chan struct{} // signals the committer that all expected callers wait for the next batch

	mu             sync.Mutex
	expected       int // number of callers that the next batch waits for, up to commitInterval
	active         *memtable
	immutable      *memtable // being flushed; nil if none
	next           *batch    // next batch to commit
	urgent         bool      // the next batch must not be delayed
	flushRequested bool      // flush the active memtable soon
	flushWaiters   []flushWaiter
	space          chan struct{} // closed when a flush ends or changes are rolled back
	flushErr       error         // why the last flush failed; nil if it succeeded
	use            use           // of all changes
	lastID         uint64        // last id given to a record
	rollbacks      uint64        // number of failed batches
	uncertain      bool          // the last batch has failed, and may be in the write-ahead log
	closed         bool
}

// batch is a group commit: the changes written to the write-ahead log with one sync.
type batch struct {
	writes  []write
	bytes   int           // approximate memory use
	waiting int           // number of writes whose callers wait
	done    chan struct{} // closed when the batch is durable or has failed
	err     error         // why the batch failed; valid after done is closed
}

func newWriteBuffer(options *Options, all ownerSums, lastID uint64) *writeBuffer {
	return &writeBuffer{
		options:  options,
		wake:     make(chan struct{}, 1),
		expedite: make(chan struct{}, 1),
		complete: make(chan struct{}, 1),
		expected: 1,
		active:   newMemtable(1, 0),
		next:     newBatch(0),
		space:    make(chan struct{}),
		use:      newUse(options, all),
		lastID:   lastID,
	}
}

// newBatch returns a batch with capacity for the given number of writes.
func newBatch(writes int) *batch {
	return &batch{writes: make([]write, 0, writes), done: make(chan struct{})}
}

// wait blocks until the batch is durable or has failed.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal sends to a channel of capacity 1 unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drain receives the signal of a channel of capacity 1, if there is one.
func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// moment identifies the time of a read.
type moment struct {
	rollbacks uint64 // number of failed batches
	memtable  uint64 // number of the active memtable
}

// get returns the latest version of the record if a memtable has one. If found is true and
// r is nil, there is no record. If awaited is not nil, a crash may take the version back until that batch is durable.
func (b *writeBuffer) get(key string) (r *record, found bool, at moment, awaited *batch, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at = moment{b.rollbacks, b.active.number}
	if b.closed {
		return nil, false, at, nil, store.ErrClosed
	}
	newer, older := b.lookup(key)
	if newer == nil {
		return nil, b.isAbsent(key), at, nil, nil
	}
	return newer.new, true, at, awaitedOf(newer, older), nil
}

// awaitedOf returns the batch for which a caller that changed the record waits; nil if there is none.
func awaitedOf(entries ...*memEntry) *batch {
	for _, e := range entries {
		if e != nil && e.awaited != nil {
			select {
			case <-e.awaited.done:
				return nil // so are earlier ones
			default:
				return e.awaited
			}
		}
	}
	return nil
}

// isPending reports whether what is durable of a record may differ from what readers see.
func (b *writeBuffer) isPending(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	newer, _ := b.lookup(key)
	return newer != nil || b.uncertain
}

// isAbsent reports whether the file is known not to have the record. The caller must hold b.mu and have
// checked the memtables.
func (b *writeBuffer) isAbsent(key string) bool {
	_, absent := b.active.absent[key]
	if !absent && b.immutable != nil {
		_, absent = b.immutable.absent[key]
	}
	return absent
}

// noteAbsent records that the file had no record with the key when it was read after the given moment. It
// does nothing if another memtable is active now, because the file may have the record by now.
func (b *writeBuffer) noteAbsent(key string, at moment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.active
	if m.number != at.memtable || len(m.absent) >= memtableChanges {
		return
	}
	if m.absent == nil {
		m.absent = make(map[string]struct{})
	}
	m.absent[key] = struct{}{}
}

// lookup returns the entries of a record in the memtables, the most recent first. If there
// is none, both are nil. The caller must hold b.mu.
func (b *writeBuffer) lookup(key string) (newer, older *memEntry) {
	newer = b.active.records[key]
	if b.immutable == nil {
		return newer, nil
	}
	if newer == nil {
		return b.immutable.records[key], nil
	}
	return newer, b.immutable.records[key]
}

// log returns the live record and the last entries of its log, if a memtable has the record.
// If found is true and r is nil, the record was deleted or has expired. For awaited, see get.
func (b *writeBuffer) log(key string) (r *record, tail [][]byte, found bool, awaited *batch, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, false, nil, store.ErrClosed
	}
	newer, older := b.lookup(key)
	if newer == nil {
		return nil, nil, false, nil, nil
	}
	r, tail = newer.new.live(), newer.entries
	if r != nil && older != nil && older.new != nil && older.new.id == r.id {
		tail = slices.Concat(older.entries, tail)
	}
	return r, tail, true, awaitedOf(newer, older), nil
}

// keys returns the keys with the prefix that are in a memtable, and whether each is a live
// record.
func (b *writeBuffer) keys(prefix string) (map[string]bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, store.ErrClosed
	}
	live := make(map[string]bool)
	for _, m := range []*memtable{b.immutable, b.active} {
		if m == nil {
			continue
		}
		for key, e := range m.records {
			if strings.HasPrefix(key, prefix) {
				live[key] = e.new.live() != nil
			}
		}
	}
	return live, nil
}

// add makes the write visible, adds it to the next batch and returns that batch. at is when
// the record was read.
func (b *writeBuffer) add(w *write, at moment) (*batch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, store.ErrClosed
	case b.flushErr != nil:
		return nil, fmt.Errorf("the store rejects changes until a flush succeeds: %w", b.flushErr)
	case b.rollbacks != at.rollbacks:
		return nil, errRolledBack
	case b.full():
		return nil, errBackpressure
	}
	if err := b.use.take(w); err != nil {
		return nil, err
	}
	if w.new != nil && w.new.id == 0 {
		b.lastID++
		w.new.id = b.lastID
	}
	next := b.next
	if w.async && (len(next.writes) >= maxBatchWrites || next.bytes >= maxBatchBytes) {
		w.async = false
	}
	if !w.async {
		if next.waiting++; next.waiting == b.expected {
			signal(b.complete)
		}
	}
	if !w.async || len(next.writes) >= maxBatchWrites/2 {
		b.commitSoon()
	}
	next.bytes += b.active.add(w)
	if !w.async {
		b.active.records[w.key].awaited = next
	}
	next.writes = append(next.writes, *w)
	if len(next.writes) == 1 {
		signal(b.wake)
	}
	return next, nil
}

// commitSoon makes the committer commit the next batch without delay. The caller must hold b.mu.
func (b *writeBuffer) commitSoon() {
	b.urgent = true
	signal(b.expedite)
}

// isUrgent reports whether the next batch must not be delayed.
func (b *writeBuffer) isUrgent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.urgent
}

// isComplete reports whether no further caller is expected to wait for the next batch.
func (b *writeBuffer) isComplete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next.waiting == 0 || b.next.waiting >= b.expected
}

// take returns the batch to commit, or nil if there is none, and its memtable. sealed
// reports that the batch is the last one of the memtable, which has become immutable. That
// happens when the memtable is old or large or a caller has requested a flush, and the
// previous memtable has been flushed.
func (b *writeBuffer) take(old bool) (next *batch, m *memtable, sealed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m = b.active
	if len(b.next.writes) > 0 {
		next = b.next
		b.next = newBatch(min(len(next.writes), maxBatchWrites))
	}
	b.urgent = false
	drain(b.expedite) // the signals were for this batch
	drain(b.complete)
	if b.immutable != nil || m.changes == 0 {
		return next, m, false
	}
	if old || b.flushRequested || m.changes >= b.options.memtableChanges || m.bytes >= memtableBytes {
		b.immutable, b.active = m, newMemtable(m.number+1, len(m.records))
		b.flushRequested = false
		sealed = true
	}
	return next, m, sealed
}

// commit records that the batch is in the write-ahead log.
func (b *writeBuffer) commit(done *batch, m *memtable, frame uint64) {
	b.mu.Lock()
	m.batches = append(m.batches, done)
	m.lastFrame = frame
	b.uncertain = false
	// The callers of the batch may make their next changes soon. If the next commit includes
	// them, fewer commits serve the same callers.
	b.expected = max(1, done.waiting+b.next.waiting)
	drain(b.complete) // the signal was for the number expected before
	b.mu.Unlock()
	close(done.done)
}

// rollBack removes the changes of the failed batch and of the next one, which may depend on
// it, and returns the next one. Changes that are in the write-ahead log are kept.
func (b *writeBuffer) rollBack(failed *batch, m *memtable, err error) (next *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next = b.next
	b.next = newBatch(0)
	b.active = m.committed()
	if b.immutable == m {
		b.immutable = nil // it is active again, and has the same file of the write-ahead log
	}
	for _, undone := range []*batch{failed, next} {
		for i := range undone.writes {
			b.use.undo(&undone.writes[i])
		}
	}
	b.rollbacks++
	b.uncertain = true
	b.flushRequested = false
	b.releaseWriters()
	b.releaseFlushWaiters(allMemtables, err)
	signal(b.wake) // the memtable may be due
	return next
}

// yields is use.yields.
func (b *writeBuffer) yields(w *write) (victim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.use.yields(w)
}

// close rejects further changes and reads.
func (b *writeBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
