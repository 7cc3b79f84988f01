package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A commit of fifty changes costs about the same as a commit of one: the syncs, and
	// the pages that all of them change. Therefore a commit starts when
	// all expected callers wait for it. It starts at the latest
	// this long after the start of the last commit: commitShare times the average duration of a
	// commit, but at least commitInterval and at most maxCommitInterval. When the processors
	// are busy, commits take long and become rare, which leaves more time to the calls.
	commitInterval    = time.Millisecond
	maxCommitInterval = 10 * time.Millisecond
	commitShare       = 2
	commitSamples     = 8 // commits over which their duration is averaged

	// commitDelay is how long asynchronous changes wait for others before they are committed.
	commitDelay = 10 * time.Millisecond

	maxBatch      = 4096     // changes of one commit
	maxBatchBytes = 16 << 20 // bytes of one commit

	// While the last commit has failed, a probe is made this often.
	probeInterval = time.Second
	probeSize     = 256 << 10 // bytes
)

// change is what a caller hands to the committer.
type change struct {
	key  string // "" for a change that concerns several records
	turn *turn  // of the caller at the record; nil if it has none
	make func(*committer) (async bool, err error)
	done chan error // capacity 1

	abandoned atomic.Bool // the caller has gone, so the change need not be made
	err       error       // of make
}

// run calls make, unless the caller has gone.
func (c *change) run(by *committer) (async bool, err error) {
	if c.abandoned.Load() {
		return false, nil
	}
	err = guard(func() (err error) {
		async, err = c.make(by)
		return err
	})
	return async, err
}

// acknowledged counts, by key, the asynchronous changes that are not committed yet.
type acknowledged struct {
	sync.Mutex
	changes map[string]int
}

func (a *acknowledged) add(n int, keys ...string) {
	a.Lock()
	defer a.Unlock()
	for _, key := range keys {
		if a.changes[key] += n; a.changes[key] == 0 {
			delete(a.changes, key)
		}
	}
}

// settle waits until asynchronous changes of the record, or of any record if key is "", are committed: who has made one reads it.
func (s *Store) settle(ctx context.Context, key string) error {
	s.acknowledged.Lock()
	pending := s.acknowledged.changes[key] > 0 || key == "" && len(s.acknowledged.changes) > 0
	s.acknowledged.Unlock()
	if pending {
		_ = s.barrier(ctx) // after a failed commit, the record is as before
	}
	return ctx.Err()
}

// barrier waits until all earlier changes are durable.
func (s *Store) barrier(ctx context.Context) error {
	return s.do(ctx, "", nil, func(*committer) (bool, error) { return false, nil })
}

// batch is what one transaction of the file makes.
type batch struct {
	writes  []*write
	bytes   int       // approximate memory use
	changed ownerSums // what the writes have added to use
	waiting []*change // whose callers wait
	async   []string  // keys of the other changes
	began   time.Time // when the first change came
}

func newBatch() *batch { return &batch{changed: make(ownerSums)} }

// committer makes all changes of a store. Callers compute theirs and hand them over, so that a slow function of one caller
// does not delay others. The committer runs in one goroutine, beside which another one writes: changes are made in memory, in
// the next batch, while the last one is written.
type committer struct {
	store   *Store
	next    *batch
	writing *batch     // nil if none
	written chan error // the result of writing
	lastID  uint64     // last id given to a record

	timer     *time.Timer
	lastStart time.Time     // of the last commit
	took      time.Duration // average duration of a commit
	expected  int           // callers that the next commit waits for, up to an interval
	failed    error         // why the last commit failed; nil if it did not
	probed    time.Time     // when it failed, or when the last probe was made
}

// run makes changes until the store is closed.
func (c *committer) run() {
	c.timer = time.NewTimer(time.Hour)
	for c.step() {
	}
	for n := len(c.store.changes); n > 0; n-- { // what was handed over before
		c.add(<-c.store.changes)
	}
	_ = c.flush()
}

// step does what is next. It returns false when the store is being closed.
func (c *committer) step() bool {
	changes := c.store.changes
	if len(c.next.waiting)+len(c.next.async) >= maxBatch || c.next.bytes >= maxBatchBytes {
		changes = nil // callers wait
	}
	select {
	case next := <-changes:
		c.add(next)
		return true
	default:
	}
	wait := c.untilDue()
	switch {
	case wait <= 0 && c.failed != nil:
		c.probe()
		return true
	case wait <= 0:
		c.start()
		return true
	}
	c.timer.Reset(wait)
	select {
	case next := <-changes:
		c.add(next)
	case err := <-c.written:
		c.finish(err)
	case <-c.timer.C:
	case <-c.store.closing:
		return false
	}
	return true
}

// untilDue returns how long to wait for more changes before the next batch is written.
func (c *committer) untilDue() time.Duration {
	switch b := c.next; {
	case c.failed != nil:
		return time.Until(c.probed.Add(probeInterval))
	case c.writing != nil || len(b.waiting)+len(b.writes) == 0:
		return time.Hour
	case len(b.waiting) == 0:
		return time.Until(b.began.Add(commitDelay))
	case len(b.waiting) >= c.expected:
		return 0
	}
	return time.Until(c.lastStart.Add(max(commitInterval, min(commitShare*c.took, maxCommitInterval))))
}

// add makes a change in the next batch.
func (c *committer) add(next *change) {
	defer c.store.pending.leave(next.key, next.turn)
	if c.failed != nil {
		next.done <- c.failed
		return
	}
	if b := c.next; len(b.waiting)+len(b.writes) == 0 {
		b.began = time.Now()
	}
	async, err := next.run(c)
	switch next.err = err; {
	case c.failed != nil: // in flush
		next.done <- c.failed
	case err == nil && async:
		c.next.async = append(c.next.async, next.key)
		c.store.acknowledged.add(+1, next.key)
		next.done <- nil
	case next.key != "" && c.store.pending.writes[next.key] == nil:
		next.done <- err // it has changed nothing, and depends on durable changes only
	default:
		c.next.waiting = append(c.next.waiting, next)
	}
}

// start begins to write the next batch.
func (c *committer) start() {
	b := c.next
	c.next, c.writing, c.lastStart = newBatch(), b, time.Now()
	if len(b.writes) == 0 {
		c.written <- nil // the callers have waited for the batch before
		return
	}
	lastID := c.lastID
	go func() { c.written <- c.store.file.write(b.writes, lastID, c.store.options.beforeCommit) }()
}

// finish lets the callers of the batch that was written return. After an error, also those of the next batch, which depends on it.
func (c *committer) finish(err error) {
	b := c.writing
	c.writing = nil
	c.took += (time.Since(c.lastStart) - c.took) / commitSamples
	if c.setFailed(err); err != nil {
		c.undo(b)
		c.undo(c.next)
		c.next = newBatch()
		c.store.pending.clear()
		return
	}
	c.store.pending.remove(b.writes)
	for _, w := range b.writes {
		c.store.waiters.Wake(w.key)
	}
	c.store.acknowledged.add(-1, b.async...)
	for _, w := range b.waiting {
		w.done <- w.err
	}
	c.expected = max(1, len(b.waiting)+len(c.next.waiting)+len(c.store.changes))
}

func (c *committer) setFailed(err error) {
	if c.failed = nil; err != nil {
		c.failed = fmt.Errorf("the change was not made, because the store cannot be written: %w", err)
	}
	c.probed = time.Now()
	failed := c.failed
	c.store.failed.Store(&failed)
}

// undo undoes the changes of a batch that was not written.
func (c *committer) undo(b *batch) {
	c.store.use.add(b.changed, -1)
	c.store.acknowledged.add(-1, b.async...)
	for _, key := range b.async { // no caller waits to get the error
		c.store.options.Failed(fmt.Errorf("record %q: %w", key, c.failed))
	}
	for _, w := range b.waiting {
		w.done <- c.failed
	}
}

// flush writes everything, and waits until it is durable.
func (c *committer) flush() error {
	for c.failed == nil && (c.writing != nil || len(c.next.writes)+len(c.next.waiting) > 0) {
		if c.writing == nil {
			c.start()
		}
		c.finish(<-c.written)
	}
	return c.failed
}

// probe makes changes possible again if the disk has room and a commit works. After a failed commit, bbolt reads the whole file, so a
// small file beside it is tried first.
func (c *committer) probe() {
	path := c.store.file.path + ".probe"
	err := os.WriteFile(path, make([]byte, probeSize), 0o600)
	if err = errors.Join(err, os.Remove(path)); err == nil {
		c.setFailed(c.store.file.write(nil, c.lastID, c.store.options.beforeCommit))
	}
}
