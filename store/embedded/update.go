package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// write is one change of one record on its way to the file.
type write struct {
	key     string
	old     *record // version after all earlier changes; nil if there is no record
	new     *record // new version; nil deletes the record
	entries [][]byte
	async   bool // the caller does not wait until the change is durable
}

var (
	// errNoRoom reports that a limit of the store is reached and records must be evicted.
	errNoRoom = errors.New("the store has no room")
	// errBackpressure reports that the memtables are full.
	errBackpressure = errors.New("the memtables are full")
	// errRolledBack reports that a change was based on a version that was rolled back.
	errRolledBack = errors.New("an earlier change was rolled back")
)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change) error {
	return s.Update(ctx, key, func(store.Record) (store.Change, error) { return change, nil })
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, change func(old store.Record) (store.Change, error)) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		w, b, err := s.makeWrite(ctx, key, func(old *record) (write, error) {
			return s.decide(key, old, change)
		})
		switch {
		case err == nil && (b == nil || w.async):
			return nil
		case err == nil:
			return b.wait(ctx)
		case !errors.Is(err, errNoRoom):
			return err
		}
		if err := s.makeRoom(ctx, w.growth()); err != nil {
			return err
		}
	}
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := store.CheckKey(key); err != nil {
			return err
		}
	}
	var last *batch
	for _, key := range keys {
		b, err := s.removeIf(ctx, key, func(*record) bool { return true })
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

// removeIf removes the record if remove returns true for it. Otherwise it corrects the time
// of the record in the expiry index. It returns the batch of the change, or nil if nothing
// changes.
func (s *Store) removeIf(ctx context.Context, key string, remove func(*record) bool) (*batch, error) {
	_, b, err := s.makeWrite(ctx, key, func(old *record) (write, error) {
		switch {
		case old == nil:
			return write{}, nil
		case remove(old):
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

// makeWrite calls decide with the record while no other change of it can run, and adds the
// resulting write to the buffer. It returns the batch of the write, or nil if nothing
// changes. With errNoRoom it also returns the write that did not fit.
func (s *Store) makeWrite(ctx context.Context, key string, decide func(old *record) (write, error)) (write, *batch, error) {
	for {
		w, b, err := s.tryWrite(ctx, key, decide)
		switch {
		case err == nil:
			return w, b, nil
		case errors.Is(err, errBackpressure):
			if err := s.buffer.waitForSpace(ctx, s.closing); err != nil {
				return w, nil, err
			}
		case !errors.Is(err, errRolledBack):
			return w, nil, err
		}
	}
}

func (s *Store) tryWrite(ctx context.Context, key string, decide func(old *record) (write, error)) (w write, b *batch, err error) {
	held, err := s.locks.Acquire(ctx, key)
	if err != nil {
		return w, nil, err
	}
	defer held.Release()
	old, at, err := s.latest(key)
	if err != nil {
		return w, nil, err
	}
	w, err = decide(old)
	if err != nil || w.old == nil && w.new == nil {
		return w, nil, err
	}
	if b, err = s.buffer.add(&w, at); err == nil {
		s.waiters.Wake(key)
	}
	return w, b, err
}

// decide calls change with the current record and builds the write from the result.
func (s *Store) decide(key string, old *record, change func(old store.Record) (store.Change, error)) (write, error) {
	live := old.live()
	c, err := change(live.public())
	if err != nil {
		return write{}, err
	}
	if c.Delete {
		return write{key: key, old: old, async: c.Async}, nil
	}
	if err := s.options.CheckChange(&c); err != nil {
		return write{}, err
	}
	next := &record{value: []byte{}}
	if live != nil {
		*next = *live
	}
	if err := store.CheckLength(next.length, len(c.Entries)); err != nil {
		return write{}, err
	}
	if c.Value != nil {
		next.value = c.Value
	}
	next.length += int64(len(c.Entries))
	next.logBytes += int64(store.EntriesSize(c.Entries))
	next.evictable = c.Evictable
	next.expires = time.Now().Add(c.TTL).UnixMilli()
	if live == nil || next.expires < live.indexed || next.evictable != live.evictable {
		next.indexed = next.expires
	}
	return write{key: key, old: old, new: next, entries: c.Entries, async: c.Async}, nil
}

// growth returns by how many bytes the write enlarges the store.
func (w *write) growth() int64 {
	var t totals
	t.add(w.key, w.old, -1)
	t.add(w.key, w.new, +1)
	return t.bytes
}

// memory returns the approximate memory use of the write. Its encoded size in the
// write-ahead log is smaller.
func (w *write) memory() int {
	size := len(w.key) + store.EntriesSize(w.entries) + len(w.entries)*entryOverhead + recordOverhead
	if w.new != nil {
		size += len(w.new.value)
	}
	return size
}
