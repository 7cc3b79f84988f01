package embedded

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

// Store is the embedded store. It implements store.Store.
type Store struct {
	options  Options
	file     *file
	wal      *writeAheadLog // used by the committer only
	buffer   *writeBuffer
	locks    *store.KeyLocks // held from reading a record until its change is in the buffer
	waiters  store.Waiters
	evicting chan struct{} // held while evicting records
	copying  sync.Mutex    // held while a copy of the file exists

	closing   chan struct{}
	ended     sync.WaitGroup // the committer, the flusher and the sweeper
	unflushed error          // why the log has changes that the file lacks; set when the flusher has ended
	once      sync.Once
	closeErr  error // result of Close
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	r, at, err := s.durable(ctx, key)
	if err != nil {
		return store.Record{}, err
	}
	if r == nil {
		s.buffer.noteAbsent(key, at)
	}
	if r = r.live(); r == nil {
		return store.Record{}, store.ErrNotFound
	}
	return r.public(), nil
}

// latest returns the latest version of the record, durable or not, expired or not, or nil
// if there is none. For awaited, see writeBuffer.get.
func (s *Store) latest(key string) (r *record, at moment, awaited *batch, err error) {
	r, found, at, awaited, err := s.buffer.get(key)
	if found || err != nil {
		return r, at, awaited, err
	}
	r, err = s.file.get(key)
	return r, at, nil, err
}

// durable is latest for readers: it waits until the version is durable, except for asynchronous changes. So nothing that a reader sends
// to others is taken back by a crash.
func (s *Store) durable(ctx context.Context, key string) (r *record, at moment, err error) {
	for {
		r, at, awaited, err := s.latest(key)
		if err != nil || awaited == nil {
			return r, at, err
		}
		if awaited.wait(ctx) == nil {
			return r, at, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, at, err
		}
	}
}

// Wait implements store.Store.
func (s *Store) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	s.waiters.Join(key)
	defer s.waiters.Leave(key)
	for {
		changed := s.waiters.Changed(key)
		r, _, err := s.durable(ctx, key)
		if err != nil {
			return store.Record{}, err
		}
		r = r.live()
		if r == nil && seen != nil {
			return store.Record{}, store.ErrNotFound
		}
		if r != nil && (seen == nil || !bytes.Equal(r.value, seen)) {
			return r.public(), nil
		}
		if err := s.waitForChange(ctx, changed, r); err != nil {
			return store.Record{}, err
		}
	}
}

// waitForChange blocks until the record may have changed or expired.
func (s *Store) waitForChange(ctx context.Context, changed <-chan struct{}, r *record) error {
	var expired <-chan time.Time
	if r != nil {
		expired = time.After(time.Until(time.UnixMilli(r.expires)) + time.Millisecond)
	}
	select {
	case <-changed:
		return nil
	case <-expired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return store.ErrClosed
	}
}

// Usage implements store.Measured.
func (s *Store) Usage() []store.Usage {
	return []store.Usage{s.buffer.use.records.Usage(), s.buffer.use.bytes.Usage()}
}

// Exclusive implements store.Store. The process that has opened the files has locked them.
func (s *Store) Exclusive() bool { return true }

// Close implements store.Store. If the last flush failed, it returns an error. The changes
// are then still in the write-ahead log, and the next Open replays them.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.buffer.close()
		close(s.closing)
		s.ended.Wait()
		s.closeErr = errors.Join(s.unflushed, s.wal.close())
		if s.unflushed == nil {
			s.closeErr = errors.Join(s.closeErr, removeWAL(s.options.disk, s.file.path))
		}
		s.closeErr = errors.Join(s.closeErr, s.file.close())
	})
	return s.closeErr
}

// Interface guards
var (
	_ store.Store    = (*Store)(nil)
	_ store.Measured = (*Store)(nil)
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
	for evict := false; ; {
		w, b, err := s.makeWrite(ctx, key, func(old *record) (write, error) {
			w, err := s.decide(key, old, change)
			if evict && err == nil && w.new != nil {
				w.new = w.new.evicted()
			}
			return w, err
		})
		switch {
		case err == nil && (b == nil || w.async):
			return nil
		case err == nil:
			return b.wait(ctx)
		}
		if _, full := errors.AsType[*share.FullError](err); !full || w.new == nil { // or the error is that of change
			return err
		}
		if err := s.makeRoom(ctx, &w); err != nil {
			if evict || w.new.evicted() == nil {
				return err
			}
			evict = true // write the tombstone
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
		_, b, err := s.makeWrite(ctx, key, func(old *record) (write, error) { return write{key: key, old: old}, nil })
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

// replace replaces the record as the function by says; a nil next removes it. If change is false, replace
// corrects the time of the record in the expiry index. It returns the batch of the change, or nil if nothing
// changes.
func (s *Store) replace(ctx context.Context, key string, by func(*record) (next *record, change bool)) (*batch, error) {
	_, b, err := s.makeWrite(ctx, key, func(old *record) (write, error) {
		if old == nil {
			return write{}, nil
		}
		if next, change := by(old); change {
			return write{key: key, old: old, new: next}, nil
		}
		if old.indexed == old.expires {
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
// changes. With a *share.FullError it also returns the write that did not fit.
func (s *Store) makeWrite(ctx context.Context, key string, decide func(old *record) (write, error)) (write, *batch, error) {
	for {
		w, b, awaited, err := s.tryWrite(ctx, key, decide)
		if awaited != nil && awaited.wait(ctx) != nil && ctx.Err() == nil {
			continue // what the caller has decided not to change is gone
		}
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

// tryWrite is one attempt of makeWrite. If nothing changes, the caller waits for the batch awaited, on which the decision may depend.
func (s *Store) tryWrite(ctx context.Context, key string, decide func(old *record) (write, error)) (w write, b, awaited *batch, err error) {
	held, err := s.locks.Acquire(ctx, key)
	if err != nil {
		return w, nil, nil, err
	}
	defer held.Release()
	old, at, awaited, err := s.latest(key)
	if err != nil {
		return w, nil, nil, err
	}
	w, err = decide(old)
	if err != nil || w.old == nil && w.new == nil && (w.async || w.key == "" || !s.buffer.isPending(key)) {
		return w, nil, awaited, err
	}
	// The deletion of an absent record is written too if the record may still be there after a crash.
	if b, err = s.buffer.add(&w, at); err == nil {
		s.waiters.Wake(key)
	}
	return w, b, nil, err
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
	if c.Owner != share.Gateway {
		next.owner = c.Owner
	}
	next.evictable, next.tombstone = c.Evictable, nil
	if c.Evictable {
		next.tombstone = c.Tombstone
	}
	next.expires = time.Now().Add(c.TTL).UnixMilli()
	if live == nil || next.expires < live.indexed || next.class() != live.class() || next.owner != live.owner {
		next.indexed = next.expires
	}
	return write{key: key, old: old, new: next, entries: c.Entries, async: c.Async}, nil
}

// memory returns the approximate memory use of the write. Its encoded size in the
// write-ahead log is smaller.
func (w *write) memory() int {
	size := len(w.key) + store.EntriesSize(w.entries) + len(w.entries)*entryOverhead + recordOverhead
	if w.new != nil {
		size += len(w.new.value) + len(w.new.owner) + len(w.new.tombstone)
	}
	return size
}
