package embedded

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
)

// maxWaitingChanges is the capacity of the queue of the committer.
const maxWaitingChanges = 1024

// Store is the embedded store. It implements store.Store.
type Store struct {
	options      Options
	file         *file
	use          use
	changes      chan *change // for the committer
	pending      pending
	waiters      store.Waiters
	copying      sync.Mutex // held while a copy of the file exists
	acknowledged acknowledged
	failed       atomic.Pointer[error] // committer.failed

	closing  chan struct{}
	ended    chan struct{} // closed when the committer has ended
	sweeping sync.WaitGroup
	once     sync.Once
	closeErr error // result of Close
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	r, err := s.get(ctx, key)
	if err != nil {
		return store.Record{}, err
	}
	if r == nil {
		return store.Record{}, store.ErrNotFound
	}
	return r.public(), nil
}

// get returns the record, or nil if there is none or it has expired.
func (s *Store) get(ctx context.Context, key string) (*record, error) {
	if err := s.settle(ctx, key); err != nil {
		return nil, err
	}
	r, err := s.file.get(key)
	return r.live(), err
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, key string, from int64, limit int) (entries [][]byte, err error) {
	limit, err = store.CheckRange(from, limit)
	if err = errors.Join(err, s.settle(ctx, key)); err != nil {
		return nil, err
	}
	size := 0
	err = s.file.view(func(tx *bbolt.Tx) error {
		r, err := readRecord(tx, key, false)
		if r = r.live(); err != nil || r == nil {
			return err
		}
		return readLog(tx, key, r, from, func(entry []byte) bool {
			if size += len(entry); len(entries) > 0 && size > store.MaxReadBytes {
				return false
			}
			entries = append(entries, append([]byte{}, entry...))
			return len(entries) < limit
		})
	})
	return entries, err
}

// Keys implements store.Store.
func (s *Store) Keys(ctx context.Context, prefix, after string, limit int) (keys []string, err error) {
	limit, err = store.CheckRange(0, limit)
	if err = errors.Join(err, s.settle(ctx, "")); err != nil {
		return nil, err
	}
	err = s.file.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketRecords).Cursor()
		for at, _ := c.Seek([]byte(max(prefix, after))); bytes.HasPrefix(at, []byte(prefix)) && at != nil && len(keys) < limit; at, _ = c.Next() {
			key := string(at)
			r, err := readRecord(tx, key, false)
			if err != nil {
				return err
			}
			if key != after && r.live() != nil {
				keys = append(keys, key)
			}
		}
		return nil
	})
	return keys, err
}

// Wait implements store.Store.
func (s *Store) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	return s.waiters.Await(ctx, key, seen, s.closing, func() (store.Record, time.Duration, error) {
		switch r, err := s.get(ctx, key); {
		case err != nil:
			return store.Record{}, 0, err
		case r == nil:
			return store.Record{}, store.MaxTTL, store.ErrNotFound // nothing happens before a change, which wakes the waiter
		default:
			return r.public(), max(time.Until(time.UnixMilli(r.expires)), 0) + time.Millisecond, nil
		}
	})
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change) error {
	return s.Update(ctx, key, func(store.Record) (store.Change, error) { return change, nil })
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, change func(old store.Record) (store.Change, error)) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	for {
		if err := s.update(ctx, key, change); !errors.Is(err, errStale) {
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
	return s.do(ctx, "", nil, func(c *committer) (bool, error) {
		for _, key := range keys {
			old, err := c.latest(key)
			if err != nil {
				return false, err
			}
			c.put(key, old, nil, nil)
		}
		return false, nil
	})
}

// do hands a change to the committer, and waits until it is durable, or has been made if it is asynchronous. The turn of the
// caller ends when the change has been made.
func (s *Store) do(ctx context.Context, key string, t *turn, by func(*committer) (async bool, err error)) error {
	c := &change{key: key, turn: t, make: by, done: make(chan error, 1)}
	if err := s.handOver(ctx, c); err != nil {
		s.pending.leave(key, t)
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		c.abandoned.Store(true)
		return ctx.Err()
	case <-s.ended:
	}
	select {
	case err := <-c.done:
		return err
	default:
		return store.ErrClosed // it came too late
	}
}

func (s *Store) handOver(ctx context.Context, c *change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.changes <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return store.ErrClosed
	}
}

// Health implements store.Checked.
func (s *Store) Health() error { return *s.failed.Load() }

// Usage implements store.Measured.
func (s *Store) Usage() []store.Usage {
	return []store.Usage{s.use.records.Usage(), s.use.bytes.Usage()}
}

// Exclusive implements store.Store. The process that has opened the file has locked it.
func (s *Store) Exclusive() bool { return true }

// Close implements store.Store.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.sweeping.Wait()
		<-s.ended
		s.closeErr = s.file.db.Close()
	})
	return s.closeErr
}

// Interface guards
var (
	_ store.Store    = (*Store)(nil)
	_ store.Measured = (*Store)(nil)
	_ store.Checked  = (*Store)(nil)
)
