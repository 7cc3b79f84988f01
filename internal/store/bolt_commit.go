package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// A write is one change of one record, on its way to the file.
type write struct {
	key     string
	old     *kept // what the file has when all before is written; nil: nothing
	new     *kept // nil: nothing any more
	entries [][]byte
	batch   *batch
	later   bool
}

// A batch is what is written in one transaction.
type batch struct {
	writes  []*write
	bytes   int
	written chan struct{} // closed when it is, or failed
	err     error         // why it failed, once written is closed
}

func newBatch() *batch {
	return &batch{written: make(chan struct{})}
}

var (
	// errNeedsRoom says that the limits are reached.
	errNeedsRoom = errors.New("the store needs room")
	// errOvertaken says that what a change stands on has not been written.
	errOvertaken = errors.New("an earlier change failed")
)

// Put implements Store.
func (s *Bolt) Put(ctx context.Context, key string, change Change) error {
	return s.Update(ctx, key, func(Record) (Change, error) { return change, nil })
}

// Update implements Store.
func (s *Bolt) Update(ctx context.Context, key string, change func(old Record) (Change, error)) error {
	if err := errors.Join(checkKey(key), ctx.Err()); err != nil {
		return err
	}
	for {
		w, err := s.locked(ctx, key, func(old *kept) (*write, error) {
			return s.decide(key, old, change)
		})
		switch {
		case errors.Is(err, errOvertaken):
			continue
		case errors.Is(err, errNeedsRoom):
			if err = s.makeRoom(ctx, w.growth()); err != nil {
				return err
			}
			continue
		case err != nil || w == nil || w.later:
			return err
		}
		return w.batch.wait(ctx)
	}
}

// locked stages what decide makes of the record, which nobody else changes in
// the meantime. A nil write changes nothing.
func (s *Bolt) locked(ctx context.Context, key string, decide func(old *kept) (*write, error)) (*write, error) {
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.mu.Lock()
	failures := s.failures
	s.mu.Unlock()
	old, err := s.look(key)
	if err != nil {
		return nil, err
	}
	w, err := decide(old)
	if err != nil || w == nil {
		return nil, err
	}
	return w, s.stage(w, failures) // with errNeedsRoom, what it would be
}

// decide lets change say what is to become of the record.
func (s *Bolt) decide(key string, old *kept, change func(old Record) (Change, error)) (*write, error) {
	alive := old.living()
	c, err := change(alive.record())
	if err != nil {
		return nil, err
	}
	if c.Delete {
		if old == nil {
			return nil, nil
		}
		return &write{key: key, old: old, later: c.Later}, nil
	}
	if err := s.options.checkChange(&c); err != nil {
		return nil, err
	}
	next := &kept{value: []byte{}}
	if alive != nil {
		*next = *alive
	}
	if err := checkLength(next.length, len(c.Entries)); err != nil {
		return nil, err
	}
	if c.Value != nil {
		next.value = c.Value
	}
	next.length += int64(len(c.Entries))
	next.logBytes += int64(entriesSize(c.Entries))
	next.spare = c.Spare
	next.expires = time.Now().Add(c.TTL).UnixMilli()
	if alive == nil || next.expires < alive.indexed || next.spare != alive.spare {
		next.indexed = next.expires
	}
	return &write{key: key, old: old, new: next, entries: c.Entries, later: c.Later}, nil
}

// stage makes the write visible and puts it into the next batch. failures is
// what it was before the record was read.
func (s *Bolt) stage(w *write, failures uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return ErrClosed
	}
	if s.failures != failures {
		return errOvertaken
	}
	totals := s.totals
	totals.count(w.key, w.old, -1)
	totals.count(w.key, w.new, +1)
	if totals.records > max(s.options.MaxRecords, s.totals.records) || totals.bytes > max(s.options.MaxBytes, s.totals.bytes) {
		return errNeedsRoom
	}
	if w.new != nil && w.new.id == 0 {
		totals.lastID++
		w.new.id = totals.lastID
	}
	s.totals = totals
	w.batch = s.batch
	if w.later && (len(s.batch.writes) >= maxWaiting || s.batch.bytes >= maxWaitingBytes) {
		w.later = false
	}
	if !w.later || len(s.batch.writes) >= maxWaiting/2 {
		s.hasten()
	}
	s.batch.writes = append(s.batch.writes, w)
	s.batch.bytes += w.size()
	s.staged[w.key] = w
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.waiters.wake(w.key)
	return nil
}

func (t *totals) count(key string, k *kept, sign int64) {
	if k != nil {
		t.records += sign
		t.bytes += sign * k.size(key)
	}
}

// growth is by how many bytes the store would grow.
func (w *write) growth() int64 {
	var t totals
	t.count(w.key, w.old, -1)
	t.count(w.key, w.new, +1)
	return t.bytes
}

// size is about how many bytes the write holds in memory.
func (w *write) size() int {
	size := len(w.key) + entriesSize(w.entries) + recordOverhead
	if w.new != nil {
		size += len(w.new.value)
	}
	return size
}

// wait returns when the batch is on disk.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.written:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flush returns when what is staged for the key, or for "" all that is staged, is
// on disk.
func (s *Bolt) flush(ctx context.Context, key string) error {
	s.mu.Lock()
	shut := s.shut
	var wait *batch
	if w := s.staged[key]; w != nil {
		wait = w.batch
		s.hasten()
	} else if key == "" && len(s.staged) > 0 {
		wait = s.batch
		s.hasten()
		select {
		case s.wake <- struct{}{}: // the batch may be empty, behind one that is being written
		default:
		}
	}
	s.mu.Unlock()
	if shut {
		return ErrClosed
	}
	if wait == nil {
		return nil
	}
	return wait.wait(ctx)
}

// commitAll writes batch after batch until the store is closed and all is written.
func (s *Bolt) commitAll() {
	defer s.ended.Done()
	for {
		var closing bool
		select {
		case <-s.wake:
			closing = s.linger()
		case <-s.closing:
			closing = true // and nothing more is staged: what is taken now is the last
		}
		s.mu.Lock()
		b, totals := s.batch, s.totals
		s.batch = newBatch()
		s.hurried = false
		select {
		case <-s.hurry: // it was for this batch
		default:
		}
		s.mu.Unlock()
		s.commit(b, totals)
		if closing {
			return
		}
	}
}

// linger lets a batch grow for which nobody waits. It reports whether the store is
// being closed.
func (s *Bolt) linger() (closing bool) {
	s.mu.Lock()
	hurried := s.hurried
	s.mu.Unlock()
	if hurried {
		return false
	}
	timer := time.NewTimer(lingerFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.hurry:
	case <-s.closing:
		return true
	}
	return false
}

// hasten ends the lingering of the next batch, as somebody waits for it. s.mu is
// held.
func (s *Bolt) hasten() {
	s.hurried = true
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// commit writes the batch, after which the totals are these.
func (s *Bolt) commit(b *batch, totals totals) {
	if len(b.writes) == 0 {
		close(b.written)
		return
	}
	err := s.db.Update(func(tx *bbolt.Tx) error {
		f := openBuckets(tx)
		for _, w := range b.writes {
			if err := f.apply(w); err != nil {
				return err
			}
		}
		return f.putTotals(totals)
	})
	if err != nil {
		s.fail(b, fmt.Errorf("writing the store: %w", err))
		return
	}
	s.mu.Lock()
	s.written = totals
	for _, w := range b.writes {
		if s.staged[w.key] == w {
			delete(s.staged, w.key)
		}
	}
	s.mu.Unlock()
	close(b.written)
}

// fail takes back the batch and what was staged behind it.
func (s *Bolt) fail(b *batch, err error) {
	s.mu.Lock()
	behind := s.batch
	s.batch = newBatch()
	s.staged = make(map[string]*write)
	lastID := s.totals.lastID
	s.totals = s.written
	s.totals.lastID = lastID
	s.failures++
	s.mu.Unlock()
	for _, failed := range []*batch{b, behind} {
		failed.err = err
		close(failed.written)
		for _, w := range failed.writes {
			if w.later {
				s.options.Failed(fmt.Errorf("record %q: %w", w.key, err))
			}
			s.waiters.wake(w.key)
		}
	}
}
