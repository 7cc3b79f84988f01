package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// When a memtable is flushed. Flushing many changes together is cheaper, since most
// of them modify the same pages, and often the same records.
const (
	applyEvery   = 250 * time.Millisecond // after the first group commit of the memtable
	applyChanges = 16_384                 // or when the memtable has this many changes
	applyBytes   = 16 << 20               // or this many bytes

	// Limits of both memtables together. Beyond them writers wait for a flush (backpressure).
	maxStaged      = 65_536   // changes
	maxStagedBytes = 64 << 20 // bytes

	applyRetry = time.Second // delay before a failed flush is retried
)

// mark is the state of the write-ahead log as recorded in the store file.
type mark struct {
	salt    uint64
	applied uint64 // number of the last frame that the file contains
}

// asker waits until all memtables up to the given number are flushed.
type asker struct {
	layer uint64
	done  chan error
}

// behindAll is higher than the number of any memtable.
const behindAll = math.MaxUint64

// settle blocks until all staged changes are flushed to the file.
func (s *Bolt) settle(ctx context.Context) error {
	a := asker{done: make(chan error, 1)}
	s.mu.Lock()
	switch {
	case s.shut:
		s.mu.Unlock()
		return ErrClosed
	case s.broken != nil:
		defer s.mu.Unlock()
		return s.broken
	case s.top.changes > 0:
		a.layer = s.top.number
		s.askForAll()
	case s.below != nil:
		a.layer = s.below.number
	default:
		s.mu.Unlock()
		return nil
	}
	s.askers = append(s.askers, a)
	s.mu.Unlock()
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askForAll requests a flush of the active memtable as soon as the immutable one is
// flushed. The caller must hold s.mu.
func (s *Bolt) askForAll() {
	s.asked = true
	s.hasten()
	signal(s.wake)
}

// answer reports the result to callers that wait for memtables up to the given number.
// The caller must hold s.mu.
func (s *Bolt) answer(upTo uint64, err error) {
	s.askers = slices.DeleteFunc(s.askers, func(a asker) bool {
		if a.layer <= upTo {
			a.done <- err
			return true
		}
		return false
	})
}

// full reports whether the memtables have reached their limits. The caller must hold
// s.mu.
func (s *Bolt) full() bool {
	changes, bytes := s.top.changes, s.top.bytes
	if s.below != nil {
		changes += s.below.changes
		bytes += s.below.bytes
	}
	return changes >= s.options.maxStaged || bytes >= maxStagedBytes
}

// awaitApplier blocks while the memtables are full (backpressure).
func (s *Bolt) awaitApplier(ctx context.Context) error {
	s.mu.Lock()
	full, way := s.full(), s.way
	if full {
		s.askForAll()
	}
	s.mu.Unlock()
	if !full {
		return nil
	}
	select {
	case <-way:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ErrClosed
	}
}

// makeWay wakes writers blocked by backpressure. The caller must hold s.mu.
func (s *Bolt) makeWay() {
	close(s.way)
	s.way = make(chan struct{})
}

// applyAll flushes one memtable after the other until the store is closed. It then
// flushes the rest and ends, after journalAll has ended.
func (s *Bolt) applyAll() {
	defer s.ended.Done()
	for {
		select {
		case l := <-s.handover:
			s.applyUntilDone(l)
		case <-s.journalEnded:
			s.unapplied = s.applyRest()
			return
		}
	}
}

// applyUntilDone retries the flush until it succeeds or the store is closed.
func (s *Bolt) applyUntilDone(l *layer) {
	for told := false; ; told = true {
		err := s.apply(l)
		if err == nil {
			return
		}
		if !told {
			s.options.Failed(err)
		}
		select {
		case <-time.After(applyRetry):
		case <-s.journalEnded:
			return
		}
	}
}

// applyRest flushes the remaining memtables. If that fails, their changes stay in the
// write-ahead log.
func (s *Bolt) applyRest() error {
	s.mu.Lock()
	below, top := s.below, s.top
	s.mu.Unlock()
	for _, l := range []*layer{below, top} {
		if l == nil {
			continue
		}
		if err := s.apply(l); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.answer(behindAll, ErrClosed)
	s.mu.Unlock()
	return nil
}

// apply flushes a memtable to the file in one transaction. If it fails, the store
// rejects changes until a retry succeeds.
func (s *Bolt) apply(l *layer) error {
	err := s.commit(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("writing the store, which its journal is ahead of: %w", err)
		s.broken = err
		s.answer(behindAll, err)
		s.makeWay()
		return err
	}
	s.broken = nil
	switch l {
	case s.below:
		s.below = nil
	case s.top: // only when the store is closed
		s.top = newLayer(l.number+1, 0)
	}
	s.answer(l.number, nil)
	s.makeWay()
	s.hasten() // the active memtable may be due too
	signal(s.wake)
	return nil
}

// commit writes the memtable to the file, together with the number of the last frame.
func (s *Bolt) commit(l *layer) error {
	if len(l.batches) == 0 {
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		f := openBuckets(tx)
		if err := f.applyLayer(l); err != nil {
			return err
		}
		if err := f.putTotals(l.totals); err != nil {
			return err
		}
		return errors.Join(f.putMark(mark{salt: s.journal.salt, applied: l.last}), s.options.beforeCommit())
	})
}

// applyLayer writes the latest version of each record of the memtable. It sorts the
// keys, since bbolt is fastest with sorted keys.
func (f *buckets) applyLayer(l *layer) error {
	type change struct {
		key string
		*pending
	}
	changes := make([]change, 0, len(l.records))
	size := 0
	for key, p := range l.records {
		if p.old == nil && p.new == nil {
			continue
		}
		changes = append(changes, change{key, p})
		if p.new != nil {
			size += len(idKey(0)) + keptHeader + len(p.new.value)
		}
	}
	f.memory = make([]byte, 0, size)
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.key, b.key) })
	for _, c := range changes {
		if err := f.name(c.key, c.old, c.new); err != nil {
			return err
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.id(), b.id()) })
	for _, c := range changes {
		if err := f.apply(c.key, c.old, c.new, c.entries); err != nil {
			return err
		}
	}
	return nil
}

// id returns the id of the latest version, or of the deleted record.
func (p *pending) id() uint64 {
	if p.new != nil {
		return p.new.id
	}
	return p.old.id
}
