package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"
)

const (
	sweepAtOnce   = 256  // records that one step of the sweeper looks at
	deadAtOnce    = 4096 // entries of dead logs that one step removes
	evictFraction = 64   // this part of the limits is free when room has been made
)

// Delete implements Store.
func (s *Bolt) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	var last *batch
	for _, key := range keys {
		b, err := s.remove(ctx, key, func(*kept) bool { return true })
		if err != nil {
			return err
		}
		if b != nil {
			last = b
		}
	}
	if last == nil {
		return nil
	}
	return last.wait(ctx) // the others are in it or in one before
}

// remove removes the record if it is to go; else it sees that the expiry index
// has it at the right time. It returns the batch that does, if anything changes.
func (s *Bolt) remove(ctx context.Context, key string, goes func(*kept) bool) (*batch, error) {
	_, b, err := s.locked(ctx, key, func(old *kept) (write, error) {
		switch {
		case old == nil:
			return write{}, nil
		case goes(old):
			return write{key: key, old: old}, nil
		case old.indexed == old.expires:
			return write{}, nil
		}
		next := *old
		next.indexed = next.expires
		return write{key: key, old: old, new: &next}, nil
	})
	return b, err
}

// sweepAll removes what has expired, until the store is closed.
func (s *Bolt) sweepAll() {
	defer s.ended.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ticker := time.NewTicker(s.options.sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.closing:
			return
		}
		if err := s.sweep(ctx); err != nil && !errors.Is(err, ErrClosed) {
			s.options.Failed(fmt.Errorf("sweeping the store: %w", err))
		}
	}
}

// sweep removes what has expired, a few records in each transaction, so that
// nobody waits long for it.
func (s *Bolt) sweep(ctx context.Context) error {
	for {
		due, err := s.indexed(time.Now().UnixMilli(), classKept, classSpare)
		if err != nil {
			return err
		}
		removed, err := s.removeAll(ctx, due, func(k *kept) bool { return k.living() == nil })
		if err != nil {
			return err
		}
		more, err := s.sweepDead()
		if err != nil {
			return err
		}
		if removed == 0 && !more {
			return nil
		}
	}
}

// removeAll removes those of the records that are to go, and returns how many
// it has changed. It returns when they are removed from the file as well, where the
// next are looked for.
func (s *Bolt) removeAll(ctx context.Context, keys []string, goes func(*kept) bool) (changed int, err error) {
	for _, key := range keys {
		b, err := s.remove(ctx, key, goes)
		if err != nil {
			return changed, err
		}
		if b != nil {
			changed++
		}
	}
	if changed == 0 {
		return 0, nil
	}
	return changed, s.settle(ctx)
}

// indexed returns the first records that the expiry index looks at until then,
// sweepAtOnce of them at most.
func (s *Bolt) indexed(until int64, classes ...byte) ([]string, error) {
	var keys []string
	err := s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketExpiry).Cursor()
		for _, class := range classes {
			for at, key := c.Seek([]byte{class}); len(at) == 17 && at[0] == class; at, key = c.Next() {
				if int64(binary.BigEndian.Uint64(at[1:])) > until || len(keys) == sweepAtOnce {
					break
				}
				keys = append(keys, string(key))
			}
		}
		return nil
	})
	return keys, err
}

// sweepDead removes entries of logs whose record is gone, and reports whether
// there may be more.
func (s *Bolt) sweepDead() (more bool, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		id, _ := tx.Bucket(bucketDead).Cursor().First()
		more = id != nil
		return nil
	})
	if err != nil || !more {
		return false, err
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		dead, log := tx.Bucket(bucketDead), tx.Bucket(bucketLog)
		id, _ := dead.Cursor().First()
		id = bytes.Clone(id)
		c := log.Cursor()
		var entries [][]byte
		for key, _ := c.Seek(id); bytes.HasPrefix(key, id) && len(entries) < deadAtOnce; key, _ = c.Next() {
			entries = append(entries, bytes.Clone(key))
		}
		for _, key := range entries {
			if err := log.Delete(key); err != nil {
				return err
			}
		}
		if len(entries) < deadAtOnce {
			return dead.Delete(id)
		}
		return nil
	})
	return true, err
}

// makeRoom evicts until there is room for so many bytes more and one record: what
// has expired, then spare records in the order in which they expire. It returns
// ErrFull when there are none.
func (s *Bolt) makeRoom(ctx context.Context, bytes int64) error {
	if bytes > s.options.MaxBytes {
		return ErrFull
	}
	select {
	case s.evictor <- struct{}{}:
		defer func() { <-s.evictor }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for flushed := false; !s.hasRoom(bytes, evictFraction); {
		removed, err := s.evict(ctx, bytes)
		switch {
		case err != nil:
			return err
		case removed > 0:
		case s.hasRoom(bytes, 0):
			return nil
		case flushed:
			return ErrFull
		default:
			// What is staged is not in the index of the file yet.
			if err := s.settle(ctx); err != nil {
				return err
			}
			flushed = true
		}
	}
	return nil
}

// evict removes some records, and returns how many it has changed.
func (s *Bolt) evict(ctx context.Context, bytes int64) (int, error) {
	due, err := s.indexed(time.Now().UnixMilli(), classKept, classSpare)
	if err != nil {
		return 0, err
	}
	expired := func(k *kept) bool { return k.living() == nil }
	if removed, err := s.removeAll(ctx, due, expired); removed > 0 || err != nil {
		return removed, err
	}
	if due, err = s.indexed(math.MaxInt64, classSpare); err != nil {
		return 0, err
	}
	return s.removeAll(ctx, due, func(k *kept) bool {
		// One that the index looks at too early gets its right place first.
		return expired(k) || k.spare && k.indexed == k.expires && !s.hasRoom(bytes, evictFraction)
	})
}

// hasRoom reports whether there is room for so many bytes more and one record,
// and, but for 0, beside that this fraction of the limits.
func (s *Bolt) hasRoom(bytes, fraction int64) bool {
	records, limit := s.options.MaxRecords, s.options.MaxBytes
	if fraction > 0 {
		records -= records / fraction
		limit -= limit / fraction
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals.records < records && s.totals.bytes < limit && s.totals.bytes+bytes <= s.options.MaxBytes
}
