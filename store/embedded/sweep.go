package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	sweepInterval = 30 * time.Second
	evictFraction = 8 // at most this fraction of an owner's evictable records is evicted at a time (1/8)
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
	for from := []byte{classDurable}; from != nil; {
		due, next, err := w.store.file.expired(time.Now().UnixMilli(), from)
		if err != nil {
			return err
		}
		if _, err := w.store.replaceAll(ctx, due, removeExpired); err != nil {
			return err
		}
		from = next
	}
	for more := true; more; {
		var err error
		if more, err = w.store.file.removeDeletedLog(); err != nil {
			return err
		}
	}
	return nil
}

// removeExpired is a function for replace.
func removeExpired(old *record) (next *record, change bool) { return nil, old.expired() }

// replaceAll calls replace for the records, and returns the number of changed records. It waits until the
// changes are flushed to the file, because the next search reads the file.
func (s *Store) replaceAll(ctx context.Context, keys []string, by func(*record) (next *record, change bool)) (changed int, err error) {
	for _, key := range keys {
		b, err := s.replace(ctx, key, by)
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

// makeRoom evicts records until there is room for the write. It first removes expired records, then evictable
// ones of the owner that use.yields returns, in the order of their expiry. The error is store.ErrShare or
// store.ErrFull if that owner has none left.
func (s *Store) makeRoom(ctx context.Context, w *write) error {
	if w.growth().bytes > s.options.MaxBytes {
		return store.ErrFull
	}
	select {
	case s.evicting <- struct{}{}:
		defer func() { <-s.evicting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	due, _, err := s.file.expired(time.Now().UnixMilli(), []byte{classDurable})
	if err != nil {
		return err
	}
	if _, err := s.replaceAll(ctx, due, removeExpired); err != nil {
		return err
	}
	for flushed := false; ; {
		v, err := s.buffer.yields(w)
		if v.number == 0 || err != nil {
			return err
		}
		evicted, err := s.evict(ctx, v)
		switch {
		case err != nil:
			return err
		case evicted == 0 && flushed:
			return store.ErrFull // the records are being changed
		case evicted == 0:
			// The index in the file lacks the records that are only in a memtable.
			if err := s.buffer.waitForFlush(ctx); err != nil {
				return err
			}
			flushed = true
		}
	}
}

// evict evicts records and returns the number of changed records.
func (s *Store) evict(ctx context.Context, v victim) (int, error) {
	due, err := s.file.oldest(v.owner, v.class, v.number)
	if err != nil {
		return 0, err
	}
	return s.replaceAll(ctx, due, func(r *record) (*record, bool) {
		// If the time in the index is too early, the record is indexed anew before it is evicted.
		return r.evicted(), r.expired() || r.class() == v.class && r.owner == v.owner && r.indexed == r.expires
	})
}
