package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// write is one change of one record on its way to the file.
type write struct {
	key     string
	old     *kept // version after all earlier changes; nil if there is no record
	new     *kept // new version; nil deletes the record
	entries [][]byte
	later   bool
}

// batch is a group commit: the changes written to the write-ahead log with one sync.
type batch struct {
	writes []write
	bytes  int           // approximate memory use
	waited int           // number of writes whose callers wait
	totals totals        // totals after this batch
	done   chan struct{} // closed when the batch is durable or has failed
	err    error         // why the batch failed; valid after done is closed
}

// newBatch returns a batch with capacity for the given number of writes.
func newBatch(writes int) *batch {
	return &batch{writes: make([]write, 0, writes), done: make(chan struct{})}
}

var (
	// errNeedsRoom reports that a limit of the store is reached and records must be evicted.
	errNeedsRoom = errors.New("the store needs room")
	// errBehind reports that the memtables are full (backpressure).
	errBehind = errors.New("the file of the store is behind")
	// errOvertaken reports that a change was based on a version that was rolled back.
	errOvertaken = errors.New("an earlier change failed")
)

// Put implements Store.
func (s *Bolt) Put(ctx context.Context, key string, change Change) error {
	return s.Update(ctx, key, func(Record) (Change, error) { return change, nil })
}

// Update implements Store.
func (s *Bolt) Update(ctx context.Context, key string, change func(old Record) (Change, error)) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		w, b, err := s.locked(ctx, key, func(old *kept) (write, error) {
			return s.decide(key, old, change)
		})
		switch {
		case err == nil && (b == nil || w.later):
			return nil
		case err == nil:
			return b.wait(ctx)
		case !errors.Is(err, errNeedsRoom):
			return err
		}
		if err := s.makeRoom(ctx, w.growth()); err != nil {
			return err
		}
	}
}

// locked calls decide with the record while no other change of it can run, and stages the
// resulting write. It returns the batch of the write, or nil if nothing changes. With
// errNeedsRoom it also returns the write that did not fit.
func (s *Bolt) locked(ctx context.Context, key string, decide func(old *kept) (write, error)) (write, *batch, error) {
	for {
		w, b, err := s.lockedOnce(ctx, key, decide)
		switch {
		case err == nil:
			return w, b, nil
		case errors.Is(err, errBehind):
			if err := s.awaitApplier(ctx); err != nil {
				return w, nil, err
			}
		case !errors.Is(err, errOvertaken):
			return w, nil, err
		}
	}
}

func (s *Bolt) lockedOnce(ctx context.Context, key string, decide func(old *kept) (write, error)) (w write, b *batch, err error) {
	held, err := s.locks.acquire(ctx, key)
	if err != nil {
		return w, nil, err
	}
	defer held.release()
	old, failures, err := s.look(key)
	if err != nil {
		return w, nil, err
	}
	w, err = decide(old)
	if err != nil || w.old == nil && w.new == nil {
		return w, nil, err
	}
	b, err = s.stage(&w, failures)
	return w, b, err
}

// decide calls change with the current record and builds the write from the result.
func (s *Bolt) decide(key string, old *kept, change func(old Record) (Change, error)) (write, error) {
	alive := old.living()
	c, err := change(alive.record())
	if err != nil {
		return write{}, err
	}
	if c.Delete {
		return write{key: key, old: old, later: c.Later}, nil
	}
	if err := s.options.checkChange(&c); err != nil {
		return write{}, err
	}
	next := &kept{value: []byte{}}
	if alive != nil {
		*next = *alive
	}
	if err := checkLength(next.length, len(c.Entries)); err != nil {
		return write{}, err
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
	return write{key: key, old: old, new: next, entries: c.Entries, later: c.Later}, nil
}

// stage makes the write visible, adds it to the next batch and returns that batch.
// failures is the number of failed batches when the record was read.
func (s *Bolt) stage(w *write, failures uint64) (*batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shut:
		return nil, ErrClosed
	case s.broken != nil:
		return nil, fmt.Errorf("the store takes no changes until its file can be written: %w", s.broken)
	case s.failures != failures:
		return nil, errOvertaken
	case s.full():
		return nil, errBehind
	}
	totals := s.totals
	totals.count(w.key, w.old, -1)
	totals.count(w.key, w.new, +1)
	if totals.records > max(s.options.MaxRecords, s.totals.records) || totals.bytes > max(s.options.MaxBytes, s.totals.bytes) {
		return nil, errNeedsRoom
	}
	if w.new != nil && w.new.id == 0 {
		totals.lastID++
		w.new.id = totals.lastID
	}
	s.totals = totals
	b := s.batch
	if w.later && (len(b.writes) >= maxWaiting || b.bytes >= maxWaitingBytes) {
		w.later = false
	}
	if !w.later {
		b.waited++
	}
	if !w.later || len(b.writes) >= maxWaiting/2 {
		s.hasten()
	}
	b.bytes += s.top.add(w)
	b.writes = append(b.writes, *w)
	if len(b.writes) == 1 {
		signal(s.wake)
	}
	s.waiters.wake(w.key)
	return b, nil
}

func (t *totals) count(key string, k *kept, sign int64) {
	if k != nil {
		t.records += sign
		t.bytes += sign * k.size(key)
	}
}

// growth returns by how many bytes the write enlarges the store.
func (w *write) growth() int64 {
	var t totals
	t.count(w.key, w.old, -1)
	t.count(w.key, w.new, +1)
	return t.bytes
}

// size returns the approximate memory use of the write. Its encoded size in the
// write-ahead log is smaller.
func (w *write) size() int {
	size := len(w.key) + entriesSize(w.entries) + len(w.entries)*entryOverhead + recordOverhead
	if w.new != nil {
		size += len(w.new.value)
	}
	return size
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
