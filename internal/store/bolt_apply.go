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

// When a layer is brought into the file: many changes at once cost less, as most
// of them change the same pages, and often the same records.
const (
	applyEvery   = 250 * time.Millisecond // after its first flush
	applyChanges = 16_384                 // or as soon as it has so many changes
	applyBytes   = 16 << 20               // or bytes

	// What may be staged, in both layers. Beyond it writers wait for the applier.
	maxStaged      = 65_536   // changes
	maxStagedBytes = 64 << 20 // bytes

	applyRetry = time.Second // until it is tried again, when it has failed
)

// mark is what the file knows of its journal.
type mark struct {
	salt    uint64
	applied uint64 // number of the last frame that is in the file
}

// asker waits until the layers up to that one are in the file.
type asker struct {
	layer uint64
	done  chan error
}

// behindAll is for all layers.
const behindAll = math.MaxUint64

// settle returns when all that is staged is in the file.
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

// askForAll has the top layer applied as soon as the one below is. s.mu is held.
func (s *Bolt) askForAll() {
	s.asked = true
	s.hasten()
	signal(s.wake)
}

// answer tells those who ask for layers up to that one. s.mu is held.
func (s *Bolt) answer(upTo uint64, err error) {
	s.askers = slices.DeleteFunc(s.askers, func(a asker) bool {
		if a.layer <= upTo {
			a.done <- err
			return true
		}
		return false
	})
}

// full reports whether too much is staged. s.mu is held.
func (s *Bolt) full() bool {
	changes, bytes := s.top.changes, s.top.bytes
	if s.below != nil {
		changes += s.below.changes
		bytes += s.below.bytes
	}
	return changes >= s.options.maxStaged || bytes >= maxStagedBytes
}

// awaitApplier returns when there may be room to stage something.
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

// makeWay wakes those who wait to stage something. s.mu is held.
func (s *Bolt) makeWay() {
	close(s.way)
	s.way = make(chan struct{})
}

// applyAll brings layer after layer into the file until the store is closed and
// all is in it. It ends after the journal.
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

// applyUntilDone tries until it has brought the layer into the file, or the store
// is closed.
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

// applyRest brings what is left into the file. What cannot be stays in the journal.
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

// apply brings a layer into the file, in one transaction, on which no other
// changes are made. If it cannot be the store takes no changes until it can.
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
	case s.top: // when the store is closed
		s.top = newLayer(l.number+1, 0)
	}
	s.answer(l.number, nil)
	s.makeWay()
	s.hasten() // the top layer may have to follow
	signal(s.wake)
	return nil
}

// commit writes the layer to the file, and up to where the journal is in it.
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

// applyLayer makes what a layer has of each record the file's. bbolt is quickest
// where keys come in order.
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

// id is that of the record's new life, or of its last.
func (p *pending) id() uint64 {
	if p.new != nil {
		return p.new.id
	}
	return p.old.id
}
