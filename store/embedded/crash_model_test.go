package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

// version is what one change makes of a record.
type version struct {
	Key       string
	Number    int // counts the versions of the key from 1; 0: the record never existed
	Value     string
	Entries   []string // the whole log
	Deleted   bool
	Evictable bool
	Tombstone string
	Expires   time.Time // the earliest
	acked     bool      // the store has confirmed that it is durable
}

// model has the versions of each record that the store may have. Only one goroutine at a time changes a key.
type model struct {
	mu       sync.Mutex
	versions map[string][]*version
	faults   []string
	crashed  func() bool    // what happens after the crash does not count; may be nil
	tried    func(*version) // called before a change is made
	acked    func(*version) // called after it is durable
}

func newModel() *model { return &model{versions: make(map[string][]*version)} }

func (m *model) fault(format string, arguments ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf(format, arguments...))
}

func (m *model) failed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.faults) > 0
}

// candidates returns the versions from the last durable one on.
func (m *model) candidates(key string) []*version {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.versions[key]
	for i, v := range slices.Backward(all) {
		if v.acked {
			return slices.Clone(all[i:])
		}
	}
	return append([]*version{{Key: key, Deleted: true}}, all...)
}

func (m *model) add(v *version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[v.Key] = append(m.versions[v.Key], v)
	if m.tried != nil {
		m.tried(v)
	}
}

// forget removes a version that the store has rejected.
func (m *model) forget(v *version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[v.Key] = slices.DeleteFunc(m.versions[v.Key], func(x *version) bool { return x == v })
}

func (m *model) ack(v *version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed != nil && m.crashed() {
		return
	}
	v.acked = true
	if m.acked != nil {
		m.acked(v)
	}
}

// ackAll notes that all changes are durable.
func (m *model) ackAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, all := range m.versions {
		if len(all) > 0 {
			all[len(all)-1].acked = true
		}
	}
}

// state is what the store returns for a key.
type state struct {
	exists  bool
	value   string
	length  int64
	entries []string // nil: not read
}

func (s state) String() string {
	if !s.exists {
		return "absent"
	}
	return fmt.Sprintf("%.40q with %d entries %.80q", s.value, s.length, s.entries)
}

// is reports whether the record can have this state in this version.
func (v *version) is(s state) bool {
	if !s.exists {
		return v.Deleted || v.Evictable && v.Tombstone == "" || !time.Now().Before(v.Expires)
	}
	if v.Deleted || s.length != int64(len(v.Entries)) || s.entries != nil && !slices.Equal(s.entries, v.Entries) {
		return false
	}
	return s.value == v.Value || v.Evictable && v.Tombstone != "" && s.value == v.Tombstone
}

// find returns the version of the state, or nil if the record must not have it.
func (m *model) find(key string, s state) *version {
	for _, v := range slices.Backward(m.candidates(key)) {
		if v.is(s) {
			return v
		}
	}
	return nil
}

// describe returns the versions that a record may have.
func (m *model) describe(key string) string {
	var all strings.Builder
	for _, v := range m.candidates(key) {
		fmt.Fprintf(&all, "\n\t%.300s", fmt.Sprintf("%+v", *v))
	}
	return all.String()
}

// read returns the state of a record. If the record expires between the reads, it reads again.
func read(ctx context.Context, s *Store, key string) (state, error) {
	for {
		r, err := s.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return state{}, nil
		}
		if err != nil {
			return state{}, err
		}
		got := state{exists: true, value: string(r.Value), length: r.Length, entries: []string{}}
		entries, err := s.Read(ctx, key, 0, store.MaxRead)
		if err != nil {
			return state{}, err
		}
		for _, e := range entries {
			got.entries = append(got.entries, string(e))
		}
		if _, err := s.Get(ctx, key); err == nil {
			return got, nil
		}
	}
}

// check compares all records with the model. If settled is true, what it finds is durable.
func (m *model) check(ctx context.Context, s *Store, keys []string, settled bool) {
	var live []string
	expires := make(map[string]time.Time)
	for _, key := range keys {
		got, err := read(ctx, s, key)
		if err != nil {
			m.fault("read %s: %v", key, err)
			continue
		}
		v := m.find(key, got)
		if v == nil {
			m.fault("record %s is %s; it may be:%s", key, got, m.describe(key))
			continue
		}
		if got.exists {
			live = append(live, key)
			expires[key] = v.Expires
		}
		if settled {
			found := *v
			found.Value, found.Deleted, found.acked = got.value, !got.exists, true
			found.Evictable = v.Evictable && got.value == v.Value // the tombstone stays
			m.mu.Lock()
			m.versions[key] = []*version{&found}
			m.mu.Unlock()
		}
	}
	found, err := s.Keys(ctx, "k", "", store.MaxRead)
	slices.Sort(live)
	live = slices.DeleteFunc(live, func(key string) bool { // expired since Get
		return !slices.Contains(found, key) && !time.Now().Before(expires[key])
	})
	if err != nil || !slices.Equal(found, live) {
		m.fault("keys are %q, error %v, want %q", found, err, live)
	}
}

// checkFile checks that the buckets of the store file agree with each other.
func (m *model) checkFile(s *Store) {
	err := s.file.view(func(tx *bbolt.Tx) error {
		sum, expiry, values, entries := make(ownerSums), map[string]string{}, map[string]int64{}, 0
		_ = tx.Bucket(bucketRecords).ForEach(func(key, id []byte) error {
			r := decodeRecord(tx.Bucket(bucketValues).Get(id))
			if r == nil || !bytes.Equal(idKey(r.id), id) {
				m.fault("the record %q has the id %x and the value %+v", key, id, r)
				return nil
			}
			sum.add(string(key), r, +1)
			expiry[string(r.expiryKey())] = string(key)
			values[string(id)] = r.length
			size := int64(0)
			for n := range r.length {
				e := tx.Bucket(bucketLog).Get(logKey(r.id, n))
				if e == nil {
					m.fault("the record %q has no entry %d of %d", key, n, r.length)
				}
				size += int64(len(e))
				entries++
			}
			if size != r.logBytes {
				m.fault("the log of %q has %d bytes, want %d", key, size, r.logBytes)
			}
			return nil
		})
		if n := tx.Bucket(bucketValues).Stats().KeyN; n != len(values) {
			m.fault("there are %d values of %d records", n, len(values))
		}
		_ = tx.Bucket(bucketExpiry).ForEach(func(at, key []byte) error {
			if expiry[string(at)] != string(key) {
				m.fault("the expiry index has %x for %q", at, key)
			}
			delete(expiry, string(at))
			return nil
		})
		if len(expiry) > 0 {
			m.fault("the expiry index lacks %q", slices.Collect(maps.Values(expiry)))
		}
		_ = tx.Bucket(bucketLog).ForEach(func(key, _ []byte) error {
			if _, known := values[string(key[:8])]; !known && tx.Bucket(bucketDeleted).Get(key[:8]) == nil {
				m.fault("there is an entry %x of no record", key)
			}
			return nil
		})
		_ = tx.Bucket(bucketOwners).ForEach(func(owner, encoded []byte) error {
			if got, want := decodeSums(encoded), sum[share.Owner(owner[1:])]; got != want {
				m.fault("the sums of %q are %+v, want %+v", owner[1:], got, want)
			}
			delete(sum, share.Owner(owner[1:]))
			return nil
		})
		if len(sum) > 0 {
			m.fault("there are no sums of %v", sum)
		}
		return nil
	})
	if err != nil {
		m.fault("reading the file: %v", err)
	}
}

// worker makes random changes of its keys, one after the other.
type worker struct {
	random *rand.Rand
	store  *Store
	model  *model
	keys   []string
	pause  time.Duration // at most, between two changes
	number *int          // of the last version
}

// change makes a random change. It returns the error of the store.
func (w *worker) change(ctx context.Context) error {
	key := w.keys[w.random.IntN(len(w.keys))]
	number := *w.number + 1
	*w.number = number
	kind := w.random.IntN(10)
	c := store.Change{
		TTL:       []time.Duration{time.Hour, time.Hour, time.Hour, 30 * time.Millisecond}[w.random.IntN(4)],
		Async:     w.random.IntN(3) == 0,
		Evictable: w.random.IntN(3) == 0,
		Delete:    kind == 0,
		Owner:     []share.Owner{"", "", "ada", "bob"}[w.random.IntN(4)],
	}
	value := fmt.Sprintf("%s|%d|%s", key, number, strings.Repeat("x", []int{0, 30, 300, 3000}[w.random.IntN(4)]))
	if kind < 8 {
		c.Value = []byte(value)
	}
	entries := w.random.IntN(4) * w.random.IntN(2)
	if c.Value == nil { // each version has content of its own
		entries++
	}
	for i := range entries {
		c.Entries = append(c.Entries, fmt.Appendf(nil, "%s|%d|%d", key, number, i))
	}
	if w.random.IntN(400) == 0 { // a log that the sweeper removes
		for i := range maxLogAtOnce + 10 {
			c.Entries = append(c.Entries, fmt.Appendf(nil, "%s|%d|long%d", key, number, i))
		}
	}
	if c.Evictable && w.random.IntN(2) == 0 {
		c.Tombstone = fmt.Appendf(nil, "%s|%d|evicted", key, number)
	}
	var v *version
	update := func(old store.Record) (store.Change, error) {
		if v != nil { // an earlier attempt, which the store has rolled back or rejected
			w.model.forget(v)
		}
		before := state{exists: old.Value != nil, value: string(old.Value), length: old.Length}
		parent := w.model.find(key, before)
		if parent == nil {
			w.model.fault("update %d of %s gets %s; it may be:%s", number, key, before, w.model.describe(key))
			parent = &version{}
		}
		v = &version{
			Key: key, Number: number, Value: string(old.Value), Deleted: c.Delete, Evictable: c.Evictable, Tombstone: string(c.Tombstone),
			Expires: time.Now().Add(c.TTL).Truncate(time.Millisecond),
		}
		if c.Delete {
			v.Value = ""
		} else if c.Value != nil {
			v.Value = value
		}
		if before.exists {
			v.Entries = slices.Clone(parent.Entries)
		}
		for _, e := range c.Entries {
			v.Entries = append(v.Entries, string(e))
		}
		w.model.add(v)
		return c, nil
	}
	var err error
	if kind == 1 {
		c = store.Change{Delete: true}
		v = &version{Key: key, Number: number, Deleted: true}
		w.model.add(v)
		err = w.store.Delete(ctx, key)
	} else {
		err = w.store.Update(ctx, key, update)
	}
	switch {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrShare):
		if v != nil {
			w.model.forget(v)
		}
		return nil
	case err == nil && !c.Async:
		w.model.ack(v)
	}
	return err
}
