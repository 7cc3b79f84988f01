package store

import (
	"fmt"
	"time"
)

const (
	// flushPace is the minimum time between the starts of two group commits. A commit of
	// fifty changes costs about the same as a commit of one. Under load this gives at most
	// a thousand commits a second, each with all changes that arrived in the meantime. A
	// single writer does not wait for it.
	flushPace = time.Millisecond
	// lingerFor is how long a batch of asynchronous changes waits before it is committed.
	lingerFor = 10 * time.Millisecond

	maxWaiting      = 4096     // queued changes; beyond this number asynchronous changes become synchronous
	maxWaitingBytes = 16 << 20 // bytes of queued changes, likewise
)

// flusher is the state of the goroutine that writes the write-ahead log.
type flusher struct {
	*Bolt
	timer  *time.Timer // used by sleep
	began  time.Time   // start of the last group commit
	waited int         // number of changes in it whose writers waited
	due    *time.Timer // started by the first group commit of a memtable
	armed  bool        // due is running or has fired
	aged   bool        // due has fired: the active memtable must be flushed
}

// journalAll commits batch after batch to the write-ahead log until the store is closed
// and everything is durable. It hands each full memtable to applyAll.
func (s *Bolt) journalAll() {
	defer s.ended.Done()
	defer close(s.journalEnded)
	f := flusher{Bolt: s, timer: stoppedTimer(), due: stoppedTimer()}
	for !f.await() {
		f.flush()
	}
	f.flush() // the last batch: the store accepts no further changes
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// await blocks until there is a batch to commit or a memtable to flush. It returns true
// when the store is being closed.
func (f *flusher) await() (closing bool) {
	select {
	case <-f.wake:
	case <-f.due.C:
		f.aged = true
		return false
	case <-f.closing:
		return true
	}
	if hurried, _ := f.urgency(); !hurried && f.sleep(lingerFor, f.hurry) {
		return true
	}
	if _, waiting := f.urgency(); waiting <= 1 && f.waited <= 1 {
		return false // a single writer, which waits for each change before it makes the next
	}
	if early := f.options.flushPace - time.Since(f.began); early > 0 {
		return f.sleep(early, nil)
	}
	return false
}

// urgency reports whether the next batch must not linger, and how many of its writers
// wait.
func (s *Bolt) urgency() (hurried bool, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hurried, s.batch.waited
}

// sleep blocks for the duration d, or until hurry can be received. It returns true when
// the store is being closed.
func (f *flusher) sleep(d time.Duration, hurry <-chan struct{}) (closing bool) {
	f.timer.Reset(d)
	defer f.timer.Stop()
	select {
	case <-f.timer.C:
	case <-hurry:
	case <-f.closing:
		return true
	}
	return false
}

// hasten ends the lingering of the next batch, because a caller waits for it. The
// caller must hold s.mu.
func (s *Bolt) hasten() {
	s.hurried = true
	signal(s.hurry)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// flush commits the next batch to the write-ahead log. If the active memtable is due, it
// hands it over to be flushed to the file.
func (f *flusher) flush() {
	b, l, whole := f.take(f.aged)
	if b != nil {
		f.began, f.waited = time.Now(), b.waited
		number, err := f.journal.write(b.writes)
		if err != nil {
			f.fail(b, l, fmt.Errorf("writing the store's journal: %w", err))
			return
		}
		f.journaled(b, l, number)
	}
	switch {
	case whole:
		f.journal.turn()
		f.handover <- l // does not block: no other memtable is being flushed
		f.due.Stop()
		f.armed, f.aged = false, false
	case b != nil && !f.armed:
		f.due.Reset(f.options.applyEvery)
		f.armed = true
	}
}

// take returns the batch to commit, or nil if there is none, and its memtable. whole
// reports that the batch is the last one of the memtable, which has become immutable.
// That happens when the memtable is old or large, or when a caller has requested a flush,
// and the previous memtable has been flushed.
func (s *Bolt) take(aged bool) (b *batch, l *layer, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.top
	if len(s.batch.writes) > 0 {
		b = s.batch
		b.totals = s.totals
		s.batch = newBatch(min(len(b.writes), maxWaiting))
	}
	s.hurried = false
	select {
	case <-s.hurry: // the signal was for this batch
	default:
	}
	if s.below != nil || l.changes == 0 {
		return b, l, false
	}
	if aged || s.asked || l.changes >= s.options.applyChanges || l.bytes >= applyBytes {
		s.below, s.top = l, newLayer(l.number+1, len(l.records))
		s.asked = false
		whole = true
	}
	return b, l, whole
}

// journaled records that the batch is durable and wakes its writers.
func (s *Bolt) journaled(b *batch, l *layer, number uint64) {
	s.mu.Lock()
	l.batches = append(l.batches, b)
	l.totals, l.last = b.totals, number
	s.written = b.totals
	s.mu.Unlock()
	close(b.done)
}

// fail rolls back the batch and all changes staged after it, which may depend on it.
// Changes that are in the write-ahead log are kept.
func (s *Bolt) fail(b *batch, l *layer, err error) {
	s.mu.Lock()
	behind := s.batch
	s.batch = newBatch(0)
	s.top = l.rebuilt()
	if s.below == l {
		s.below = nil // it was not handed over, and still has the same file of the write-ahead log
	}
	lastID := s.totals.lastID
	s.totals = s.written
	s.totals.lastID = lastID
	s.failures++
	s.asked = false
	s.makeWay()
	s.answer(behindAll, err)
	signal(s.wake) // the memtable may be due
	s.mu.Unlock()
	for _, failed := range []*batch{b, behind} {
		for _, w := range failed.writes {
			if w.later { // no writer waits to get the error
				s.options.Failed(fmt.Errorf("record %q: %w", w.key, err))
			}
		}
	}
	for _, failed := range []*batch{b, behind} {
		failed.err = err
		close(failed.done)
		for _, w := range failed.writes {
			s.waiters.wake(w.key)
		}
	}
}
