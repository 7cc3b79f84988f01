package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	sweepInterval = 30 * time.Second
	evictFraction = 64 // eviction frees this fraction of the limits (1/64)
)

// sweeper removes expired records and the logs of deleted ones. It runs in one goroutine.
type sweeper struct {
	store *Store
}

// run sweeps periodically until the store is closed.
func (w *sweeper) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ticker := time.NewTicker(w.store.options.sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-w.store.closing:
			return
		}
		if err := w.sweep(ctx); err != nil && !errors.Is(err, store.ErrClosed) {
			w.store.options.Failed(fmt.Errorf("removing expired records failed, and is repeated: %w", err))
		}
	}
}

// sweep removes expired records in small transactions, so that other writers are not
// blocked for long.
func (w *sweeper) sweep(ctx context.Context) error {
	for {
		due, err := w.store.file.dueRecords(time.Now().UnixMilli(), classDurable, classEvictable)
		if err != nil {
			return err
		}
		removed, err := w.store.removeAll(ctx, due, (*record).expired)
		if err != nil {
			return err
		}
		more, err := w.store.file.removeDeletedLog()
		if err != nil {
			return err
		}
		if removed == 0 && !more {
			return nil
		}
	}
}

// removeAll removes those of the records for which remove returns true, and returns the
// number of changed records. It waits until the removals are flushed to the file, because
// the next search reads the file.
func (s *Store) removeAll(ctx context.Context, keys []string, remove func(*record) bool) (changed int, err error) {
	for _, key := range keys {
		b, err := s.removeIf(ctx, key, remove)
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
	return changed, s.buffer.waitForFlush(ctx)
}

// makeRoom evicts records until there is room for one more record and the given number of
// bytes. It first removes expired records, then evictable ones in the order of their
// expiry. If there are none left, it returns store.ErrFull.
func (s *Store) makeRoom(ctx context.Context, bytes int64) error {
	if bytes > s.options.MaxBytes {
		return store.ErrFull
	}
	select {
	case s.evicting <- struct{}{}:
		defer func() { <-s.evicting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for flushed := false; !s.buffer.hasRoom(bytes, evictFraction); {
		removed, err := s.evict(ctx, bytes)
		switch {
		case err != nil:
			return err
		case removed > 0:
		case s.buffer.hasRoom(bytes, 0):
			return nil
		case flushed:
			return store.ErrFull
		default:
			// The index in the file lacks the records that are only in a memtable.
			if err := s.buffer.waitForFlush(ctx); err != nil {
				return err
			}
			flushed = true
		}
	}
	return nil
}

// evict removes some records and returns the number of changed records.
func (s *Store) evict(ctx context.Context, bytes int64) (int, error) {
	due, err := s.file.dueRecords(time.Now().UnixMilli(), classDurable, classEvictable)
	if err != nil {
		return 0, err
	}
	if removed, err := s.removeAll(ctx, due, (*record).expired); removed > 0 || err != nil {
		return removed, err
	}
	if due, err = s.file.dueRecords(math.MaxInt64, classEvictable); err != nil {
		return 0, err
	}
	return s.removeAll(ctx, due, func(r *record) bool {
		// If the time in the index is too early, the record is indexed anew before it is evicted.
		return r.expired() || r.evictable && r.indexed == r.expires && !s.buffer.hasRoom(bytes, evictFraction)
	})
}
