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
	sweepAtOnce   = 256  // records that one step of the sweeper checks
	deadAtOnce    = 4096 // entries of dead logs that one step removes
	evictFraction = 64   // eviction frees this fraction of the limits (1/64)
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
	return last.wait(ctx) // the other deletions are in this batch or an earlier one
}

// remove removes the record if goes returns true for it. Otherwise it corrects the time of
// the record in the expiry index. It returns the batch of the change, or nil if nothing
// changes.
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

// sweepAll removes expired records periodically until the store is closed.
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

// sweep removes expired records in small transactions, so that other writers are not
// blocked for long.
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

// removeAll removes those of the records for which goes returns true, and returns the
// number of changed records. It waits until the removals are flushed to the file, because
// the next search reads the file.
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

// indexed returns the first records of the classes in the expiry index with a time up to
// until, at most sweepAtOnce of them.
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

// sweepDead removes log entries of deleted records. It reports whether there may be more.
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

// makeRoom evicts records until there is room for one more record and the given number of
// bytes. It first removes expired records, then spare records in the order of their
// expiry. If there are none left, it returns ErrFull.
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
			// The index in the file lacks the records that are only in a memtable.
			if err := s.settle(ctx); err != nil {
				return err
			}
			flushed = true
		}
	}
	return nil
}

// evict removes some records and returns the number of changed records.
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
		// If the time in the index is too early, the record is indexed anew before it is evicted.
		return expired(k) || k.spare && k.indexed == k.expires && !s.hasRoom(bytes, evictFraction)
	})
}

// hasRoom reports whether there is room for one more record and the given number of
// bytes. If fraction is more than 0, 1/fraction of the limits must be free too.
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
