package memory

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// records is a store.Store.
type records struct {
	options store.Options
	max     int
	locks   *store.KeyLocks // so that updates of one key run one after the other
	ended   chan struct{}   // closed by Close

	mu      sync.Mutex
	byKey   map[string]*record
	changed chan struct{} // closed by the next change
	closed  bool
}

type record struct {
	value   []byte
	log     [][]byte
	expires time.Time
}

func newRecords(options store.Options, limit int) *records {
	options.SetDefaults()
	return &records{
		options: options, max: limit, locks: store.NewKeyLocks(), ended: make(chan struct{}), byKey: make(map[string]*record), changed: make(chan struct{}),
	}
}

// find returns a record, nil if there is none. The caller holds mu.
func (s *records) find(key string) *record {
	if r := s.byKey[key]; r != nil && time.Now().Before(r.expires) {
		return r
	}
	return nil
}

// begin locks mu, unless the store is closed or the context has ended. The caller must unlock it.
func (s *records) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

// Get implements store.Store.
func (s *records) Get(ctx context.Context, key string) (store.Record, error) {
	if err := s.begin(ctx); err != nil {
		return store.Record{}, err
	}
	defer s.mu.Unlock()
	if r := s.find(key); r != nil {
		return store.Record{Value: r.value, Length: int64(len(r.log))}, nil
	}
	return store.Record{}, store.ErrNotFound
}

// Update implements store.Store.
func (s *records) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	held, err := s.locks.Acquire(ctx, key)
	if err != nil {
		return err
	}
	defer held.Release()
	old, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	c, err := change(old)
	if err != nil {
		return err
	}
	return s.write(ctx, key, &c)
}

// Put implements store.Store.
func (s *records) Put(ctx context.Context, key string, change store.Change) error {
	return s.Update(ctx, key, func(store.Record) (store.Change, error) { return change, nil })
}

// Delete implements store.Store.
func (s *records) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := s.Put(ctx, key, store.Change{Delete: true}); err != nil {
			return err
		}
	}
	return nil
}

// write makes a change.
func (s *records) write(ctx context.Context, key string, c *store.Change) error {
	if err := s.options.CheckChange(c); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r := s.find(key)
	switch {
	case c.Delete:
		delete(s.byKey, key)
	case r == nil:
		if len(s.byKey) >= s.max {
			maps.DeleteFunc(s.byKey, func(_ string, r *record) bool { return !time.Now().Before(r.expires) })
		}
		if len(s.byKey) >= s.max {
			return store.ErrFull
		}
		r = &record{value: []byte{}}
		s.byKey[key] = r
		fallthrough
	default:
		if err := store.CheckLength(int64(len(r.log)), len(c.Entries)); err != nil {
			return err
		}
		if c.Value != nil {
			r.value = c.Value
		}
		r.log, r.expires = append(r.log, c.Entries...), time.Now().Add(c.TTL)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Read implements store.Store.
func (s *records) Read(ctx context.Context, key string, from int64, limit int) (entries [][]byte, err error) {
	if limit, err = store.CheckRange(from, limit); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	size := 0
	if r := s.find(key); r != nil {
		for i := from; i < int64(len(r.log)) && len(entries) < limit && size < store.MaxReadBytes; i++ {
			entries = append(entries, r.log[i])
			size += len(r.log[i])
		}
	}
	return entries, nil
}

// Wait implements store.Store.
func (s *records) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	for {
		if err := s.begin(ctx); err != nil {
			return store.Record{}, err
		}
		r, changed, expiry := s.find(key), s.changed, (<-chan time.Time)(nil)
		if r != nil && (seen == nil || !bytes.Equal(r.value, seen)) {
			defer s.mu.Unlock()
			return store.Record{Value: r.value, Length: int64(len(r.log))}, nil
		}
		if r != nil {
			expiry = time.After(time.Until(r.expires))
		}
		s.mu.Unlock()
		if r == nil && seen != nil {
			return store.Record{}, store.ErrNotFound
		}
		select {
		case <-changed:
		case <-expiry:
		case <-s.ended:
		case <-ctx.Done():
		}
	}
}

// Keys implements store.Store.
func (s *records) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	limit, err := store.CheckRange(0, limit)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var keys []string
	for key := range s.byKey {
		if strings.HasPrefix(key, prefix) && key > after && s.find(key) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys[:min(limit, len(keys))], nil
}

// Exclusive implements store.Store. The records are in the memory of this process.
func (s *records) Exclusive() bool { return true }

// Close implements store.Store.
func (s *records) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.ended)
	}
	return nil
}
