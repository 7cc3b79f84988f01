package store

import (
	"fmt"
	"time"
)

const (
	// flushPace is the least time from the beginning of one flush of the journal to
	// that of the next. A flush costs about the same for one change as for fifty, so
	// under load there are a thousand in a second, each with all that came meanwhile,
	// and not as many as the disk can do. Who writes alone does not wait for it.
	flushPace = time.Millisecond
	// lingerFor is how long changes wait to be flushed for which nobody waits.
	lingerFor = 10 * time.Millisecond

	maxWaiting      = 4096     // changes that wait for a flush before none is made later
	maxWaitingBytes = 16 << 20 // bytes of those
)

// flusher is what the goroutine that writes the journal knows.
type flusher struct {
	*Bolt
	timer  *time.Timer // of sleep
	began  time.Time   // when the last flush did
	waited int         // how many waited for it
	due    *time.Timer // runs from the first flush of a layer on
	armed  bool        // it runs or has fired
	aged   bool        // it has fired: the top layer is to be applied
}

// journalAll flushes batch after batch until the store is closed and all is
// durable, and hands layer after layer to the applier.
func (s *Bolt) journalAll() {
	defer s.ended.Done()
	defer close(s.journalEnded)
	f := flusher{Bolt: s, timer: stoppedTimer(), due: stoppedTimer()}
	for !f.await() {
		f.flush()
	}
	f.flush() // nothing more is staged: what is taken now is the last
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// await returns when there is something to flush or to apply, or, and then it
// reports so, when the store is being closed.
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
		return false // one who waits for each change before it makes the next
	}
	if early := f.options.flushPace - time.Since(f.began); early > 0 {
		return f.sleep(early, nil)
	}
	return false
}

// urgency reports whether the next flush is not to linger, and how many wait for
// it.
func (s *Bolt) urgency() (hurried bool, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hurried, s.batch.waited
}

// sleep returns after that time, when it can receive from hurry, or, and then it
// reports so, when the store is being closed.
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

// hasten ends the lingering of the next flush, as somebody waits for it. s.mu is
// held.
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

// flush makes the next batch durable, and hands the top layer over if it is to be
// applied.
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
		f.handover <- l // there is room: nothing else is being applied
		f.due.Stop()
		f.armed, f.aged = false, false
	case b != nil && !f.armed:
		f.due.Reset(f.options.applyEvery)
		f.armed = true
	}
}

// take takes the batch to flush, nil if there is none, and the layer it is in. whole says that it is the
// layer's last one: the layer is the one below now, as it is aged, or large, or
// asked for, and the one before is in the file.
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
	case <-s.hurry: // it was for this batch
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

// journaled notes that the batch is durable, and tells those who wait for it.
func (s *Bolt) journaled(b *batch, l *layer, number uint64) {
	s.mu.Lock()
	l.batches = append(l.batches, b)
	l.totals, l.last = b.totals, number
	s.written = b.totals
	s.mu.Unlock()
	close(b.done)
}

// fail takes back the batch and all that was staged behind it, which may stand on
// it. What is journaled stays.
func (s *Bolt) fail(b *batch, l *layer, err error) {
	s.mu.Lock()
	behind := s.batch
	s.batch = newBatch(0)
	s.top = l.rebuilt()
	if s.below == l {
		s.below = nil // it was not handed over, and has the same file of the journal still
	}
	lastID := s.totals.lastID
	s.totals = s.written
	s.totals.lastID = lastID
	s.failures++
	s.asked = false
	s.makeWay()
	s.answer(behindAll, err)
	signal(s.wake) // the layer may have to be applied
	s.mu.Unlock()
	for _, failed := range []*batch{b, behind} {
		for _, w := range failed.writes {
			if w.later { // nobody waits for it
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
