package embedded

import (
	"fmt"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	// A group commit of fifty changes costs about the same as a commit of one: the sync, and
	// the work of the Go scheduler around a blocking system call. Therefore a commit starts when
	// all expected callers wait for it (see writeBuffer.expected). It starts at the latest
	// this long after the start of the last commit: syncShare times the average duration of a
	// commit, but at least commitInterval and at most maxCommitInterval. When the processors
	// are busy, commits take long and become rare, which leaves more time to the calls.
	commitInterval    = time.Millisecond
	maxCommitInterval = 10 * time.Millisecond
	syncShare         = 4
	// syncSamples is the number of syncs over which their duration is averaged.
	syncSamples = 8
	// commitDelay is how long a batch of asynchronous changes waits before it is committed.
	commitDelay = 10 * time.Millisecond
)

// committer commits batches to the write-ahead log. It runs in one goroutine.
type committer struct {
	options *Options
	buffer  *writeBuffer
	wal     *writeAheadLog
	waiters *store.Waiters
	sealed  chan<- *memtable // immutable memtables for the flusher; capacity 1
	closing <-chan struct{}

	timer      *time.Timer   // used by sleep
	lastStart  time.Time     // start of the last group commit
	syncTime   time.Duration // average duration of a group commit
	flushTimer *time.Timer   // started by the first group commit of a memtable
	flushArmed bool          // flushTimer is running or has fired
	flushDue   bool          // flushTimer has fired
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// run commits batch after batch until the store is closed and everything is durable.
func (c *committer) run() {
	for !c.awaitBatch() {
		c.commitBatch()
	}
	c.commitBatch() // the last batch: the buffer accepts no further changes
}

// awaitBatch blocks until there is a batch to commit or a memtable to flush. It returns
// true when the store is being closed.
func (c *committer) awaitBatch() (closing bool) {
	select {
	case <-c.buffer.wake:
	case <-c.flushTimer.C:
		c.flushDue = true
		return false
	case <-c.closing:
		return true
	}
	if !c.buffer.isUrgent() && c.sleep(commitDelay, c.buffer.expedite) {
		return true
	}
	if c.buffer.isComplete() {
		return false
	}
	interval := max(c.options.commitInterval, min(syncShare*c.syncTime, maxCommitInterval))
	if early := interval - time.Since(c.lastStart); early > 0 {
		return c.sleep(early, c.buffer.complete)
	}
	return false
}

// sleep blocks for the duration d, or until wake can be received. It returns true when the
// store is being closed.
func (c *committer) sleep(d time.Duration, wake <-chan struct{}) (closing bool) {
	c.timer.Reset(d)
	defer c.timer.Stop()
	select {
	case <-c.timer.C:
	case <-wake:
	case <-c.closing:
		return true
	}
	return false
}

// commitBatch commits the next batch to the write-ahead log. If the active memtable is due,
// it becomes immutable and goes to the flusher.
func (c *committer) commitBatch() {
	b, m, sealed := c.buffer.take(c.flushDue)
	if b != nil {
		c.lastStart = time.Now()
		frame, err := c.wal.append(b.writes)
		if err != nil {
			c.fail(b, m, fmt.Errorf("the change was not made, because appending to the write-ahead log failed: %w", err))
			return
		}
		c.syncTime += (time.Since(c.lastStart) - c.syncTime) / syncSamples
		c.buffer.commit(b, m, frame)
	}
	switch {
	case sealed:
		c.wal.rotate()
		c.sealed <- m // does not block: no other memtable is being flushed
		c.flushTimer.Stop()
		c.flushArmed, c.flushDue = false, false
	case b != nil && !c.flushArmed:
		c.flushTimer.Reset(c.options.flushInterval)
		c.flushArmed = true
	}
}

// fail rolls back the batch and all changes after it, which may depend on it.
func (c *committer) fail(b *batch, m *memtable, err error) {
	failed := []*batch{b, c.buffer.rollBack(m, err)}
	for _, b := range failed {
		for _, w := range b.writes {
			if w.async { // no caller waits to get the error
				c.options.Failed(fmt.Errorf("record %q: %w", w.key, err))
			}
		}
	}
	for _, b := range failed {
		b.err = err
		close(b.done)
		for _, w := range b.writes {
			c.waiters.Wake(w.key)
		}
	}
}
