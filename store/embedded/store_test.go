package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
)

func openTest(t *testing.T, options Options) *Store {
	t.Helper()
	if options.Failed == nil {
		options.Failed = func(err error) { t.Errorf("failed: %v", err) }
	}
	s, err := Open(filepath.Join(t.TempDir(), "records.db"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// counted returns the number of pairs in each bucket.
func counted(t *testing.T, s *Store) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	err := s.file.db.View(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketRecords, bucketLog, bucketExpiry, bucketDeleted} {
			counts[string(name)] = tx.Bucket(name).Stats().KeyN
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// total returns the sums over all owners when everything is flushed. It checks that those in memory and in
// the file are equal.
func total(t *testing.T, s *Store) (all sums) {
	t.Helper()
	if err := s.buffer.waitForFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, _, err := s.file.readSums()
	if err != nil {
		t.Fatal(err)
	}
	s.buffer.mu.Lock()
	defer s.buffer.mu.Unlock()
	for owner, o := range stored {
		all = sums{records: all.records + o.records, bytes: all.bytes + o.bytes}
		if evictable, shrinkable := s.buffer.use.evictable[owner], s.buffer.use.shrinkable[owner]; evictable != o.evictable || shrinkable != o.shrinkable {
			t.Errorf("%q has %d evictable and %d shrinkable records in memory, in the file: %+v", owner, evictable, shrinkable, o)
		}
	}
	u := s.Usage()
	if u[0].Used != all.records || u[1].Used != all.bytes {
		t.Errorf("use in memory is %+v, in the file %+v", u, all)
	}
	return all
}

// TestSweep checks that nothing is left of expired records and long logs.
func TestSweep(t *testing.T) {
	s := openTest(t, Options{sweepInterval: time.Millisecond})
	ctx := t.Context()
	for i := range 3 * maxDueRecords {
		c := store.Change{Value: []byte("x"), Entries: [][]byte{{1}, {2}}, TTL: 5 * time.Millisecond, Async: true, Evictable: i%2 == 0}
		if err := s.Put(ctx, fmt.Sprintf("short%d", i), c); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		c := store.Change{Entries: make([][]byte, store.MaxEntries), TTL: time.Second / 2, Async: true}
		if err := s.Put(ctx, "long", c); err != nil {
			t.Fatal(err)
		}
	}
	prolonged(t, s, "stays")
	deadline := time.Now().Add(time.Minute)
	for want := map[string]int{"records": 1, "log": 2, "expiry": 1, "deleted": 0}; ; runtime.Gosched() {
		counts := counted(t, s)
		early, _, err := s.file.expired(time.Now().Add(time.Minute).UnixMilli(), []byte{classDurable})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(counts) == fmt.Sprint(want) && len(early) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("what remains is %v, want %v; the index looks too early at %q", counts, want, early)
		}
	}
	k, _, _, err := s.latest("stays")
	if err != nil || k == nil {
		t.Fatalf("the other record is %v, error %v", k, err)
	}
	if got := total(t, s); got.records != 1 || got.bytes != k.size("stays") {
		t.Errorf("totals are %+v, want 1 record of %d bytes", got, k.size("stays"))
	}
}

// prolonged creates a record with two entries whose expiry is later than its time in the
// index. If the first lifetime ends before the second change, on a slow machine, it creates
// the record again.
func prolonged(t *testing.T, s *Store, key string) {
	t.Helper()
	for ttl := time.Second; ; ttl *= 2 {
		for _, ttl := range []time.Duration{ttl, time.Hour} {
			if err := s.Put(t.Context(), key, store.Change{Value: []byte("y"), Entries: [][]byte{{1}}, TTL: ttl}); err != nil {
				t.Fatal(err)
			}
		}
		k, _, _, err := s.latest(key)
		if err != nil {
			t.Fatal(err)
		}
		if k.length == 2 {
			return
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEviction checks the limits: evictable records are evicted in the order of their expiry,
// and new records are rejected if there are none.
func TestEviction(t *testing.T) {
	for name, options := range map[string]Options{
		"records": {MaxRecords: 100},
		"bytes":   {MaxBytes: 100 * (1000 + recordOverhead + 9)},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, options)
			ctx := t.Context()
			value := make([]byte, 1000)
			put := func(key string, ttl time.Duration, spare bool) error {
				return s.Put(ctx, key, store.Change{Value: value, TTL: ttl, Evictable: spare, Async: true})
			}
			for i := range 1000 {
				if err := put(fmt.Sprintf("spare%04d", i), time.Hour+time.Duration(i)*time.Second, true); err != nil {
					t.Fatal(err)
				}
			}
			keys, err := s.Keys(ctx, "", "", 1001)
			if err != nil || len(keys) < 90 || len(keys) > 100 {
				t.Fatalf("%d keys remain, want 90 to 100; error %v", len(keys), err)
			}
			if first, last := keys[0], keys[len(keys)-1]; first < "spare0900" || last != "spare0999" {
				t.Fatalf("the keys %q to %q remain, want spare0900 or later to spare0999", first, last)
			}
			kept := 0
			for ; err == nil && kept < 200; kept++ {
				err = put(fmt.Sprintf("kept%05d", kept), time.Hour, false)
			}
			if kept--; !errors.Is(err, store.ErrFull) || kept < 99 || kept > 100 {
				t.Fatalf("%d are kept, error %v, want 100 and store.ErrFull", kept, err)
			}
			if err := put("kept00000", 2*time.Hour, false); err != nil {
				t.Errorf("a record that is there cannot be changed: %v", err)
			}
			if err := s.Put(ctx, "big", store.Change{Value: make([]byte, store.DefaultMaxValue), TTL: time.Hour}); !errors.Is(err, store.ErrFull) {
				t.Errorf("a record larger than all: %v", err)
			}
			if err := s.Delete(ctx, "kept00000"); err != nil {
				t.Fatal(err)
			}
			if err := put("kept99999", time.Hour, false); err != nil {
				t.Errorf("after one is deleted: %v", err)
			}
			var recount sums
			for key := range allKept(t, s) {
				k, _, _, _ := s.latest(key)
				recount.add(key, k, +1)
			}
			if got := total(t, s); got.records != recount.records || got.bytes != recount.bytes {
				t.Errorf("totals are %+v, want %+v", got, recount)
			}
		})
	}
}

func allKept(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	keys, err := s.Keys(t.Context(), "", "", store.MaxRead)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, key := range keys {
		all[key] = true
	}
	return all
}

// TestBatchFails checks that a failed batch leaves nothing behind, that all its writers get
// the error, and that the store works afterwards, even when it is opened again.
func TestBatchFails(t *testing.T) {
	var mu sync.Mutex
	var failures []error
	syncing, outcome := make(chan struct{}), make(chan error)
	var hold atomic.Bool
	options := Options{flushInterval: time.Hour, Options: store.Options{Failed: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failures = append(failures, err)
	}}}
	options.syncWAL = func(file diskFile) error {
		if !hold.Load() {
			return file.Sync()
		}
		syncing <- struct{}{}
		return <-outcome
	}
	s := openTest(t, options)
	ctx := t.Context()
	put := func(key, value string, later bool) error {
		return s.Put(ctx, key, store.Change{Value: []byte(value), Entries: [][]byte{[]byte(value)}, TTL: time.Hour, Async: later})
	}
	if err := put("a", "first", false); err != nil {
		t.Fatal(err)
	}
	hold.Store(true)
	failed := make(chan error)
	go func() { failed <- put("a", "second", false) }()
	<-syncing
	hold.Store(false)
	for _, key := range []string{"a", "b"} {
		if err := put(key, "third", true); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("the disk is broken")
	outcome <- broken
	if err := <-failed; !errors.Is(err, broken) {
		t.Fatalf("the batch fails with %v", err)
	}
	if r, err := s.Get(ctx, "a"); err != nil || string(r.Value) != "first" || r.Length != 1 {
		t.Errorf("a is %q with %d entries, error %v, want the first", r.Value, r.Length, err)
	}
	if _, err := s.Get(ctx, "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("b: %v", err)
	}
	mu.Lock()
	if len(failures) != 2 {
		t.Errorf("reported %v, want two records", failures)
	}
	mu.Unlock()
	if err := put("b", "fourth", false); err != nil {
		t.Fatal(err)
	}
	again := reopen(t, killed(t, s))
	for _, s := range []*Store{s, again} {
		if got := total(t, s); got.records != 2 {
			t.Errorf("totals are %+v, want 2 records", got)
		}
		if entries, err := s.Read(ctx, "a", 0, 9); err != nil || len(entries) != 1 || string(entries[0]) != "first" {
			t.Errorf("the log of a is %q, error %v", entries, err)
		}
	}
}

// TestLocked checks that the error for a file in use says how to fix it.
func TestLocked(t *testing.T) {
	s := openTest(t, Options{})
	_, err := Open(s.file.path, Options{})
	if err == nil || !testkit.ContainsAll(err.Error(), "use") {
		t.Fatalf("error %v", err)
	}
	if runtime.GOOS == "linux" && !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("%v does not name process %d", err, os.Getpid())
	}
}

func TestFile(t *testing.T) {
	s := openTest(t, Options{})
	stat, err := os.Stat(s.file.path)
	if err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, error %v", stat.Mode(), err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	if err := os.WriteFile(foreign, []byte(strings.Repeat("not a store", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(foreign, Options{}); err == nil || !testkit.ContainsAll(err.Error(), "not store") {
		t.Errorf("a foreign file: %v", err)
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil {
		t.Error("a folder is opened")
	}
	path := s.file.path
	err = s.file.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketStore).Put(keyFormat, []byte{9}) })
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "format 9") {
		t.Errorf("another format: %v", err)
	}
}

// TestGroups checks that concurrent writers share syncs.
func TestGroups(t *testing.T) {
	const writers, each = 64, 20
	var syncs atomic.Int64
	s := openTest(t, Options{syncWAL: func(file diskFile) error {
		syncs.Add(1)
		return file.syncData()
	}})
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				err := s.Put(context.Background(), fmt.Sprintf("%d/%d", i, n), store.Change{Value: []byte("x"), TTL: time.Hour})
				if err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	all.Wait()
	if n := syncs.Load(); n > writers*each/4 {
		t.Errorf("%d changes took %d syncs", writers*each, n)
	}
}

// TestAbsent checks that a store that knows that there is no record notices when there is one.
func TestAbsent(t *testing.T) {
	s := openTest(t, Options{})
	put := func(key string) {
		t.Helper()
		if err := s.Put(t.Context(), key, store.Change{Value: []byte(key), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, key string, found bool) {
		t.Helper()
		r, err := s.Get(t.Context(), key)
		if found && (err != nil || string(r.Value) != key) || !found && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %q, %v; want a record: %v", when, r.Value, err, found)
		}
	}
	flush := func() {
		t.Helper()
		if err := s.buffer.waitForFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want("before", "a", false)
	if !s.buffer.isAbsent("a") {
		t.Error("the next change reads the file again")
	}
	put("a")
	want("after the change", "a", true)
	flush()
	want("after the flush", "a", true)
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	want("after the deletion", "a", false)

	_, at, _, err := s.latest("b")
	if err != nil {
		t.Fatal(err)
	}
	put("b")
	flush()
	s.buffer.noteAbsent("b", at)
	want("after a read before the flush ends", "b", true)
}

// TestReaders_wait_until_a_change_is_durable checks that no reader sees a change that a crash would take back: not the caller of Get, Wait
// and Read, and not a decision of Update that changes nothing. If the change fails, they see the version before.
func TestReaders_wait_until_a_change_is_durable(t *testing.T) {
	errUnchanged := errors.New("nothing to change")
	readers := map[string]func(s *Store) (string, error){
		"Get": func(s *Store) (string, error) {
			r, err := s.Get(t.Context(), "k")
			return string(r.Value), err
		},
		"Wait": func(s *Store) (string, error) {
			r, err := s.Wait(t.Context(), "k", nil)
			return string(r.Value), err
		},
		"Read": func(s *Store) (string, error) {
			entries, err := s.Read(t.Context(), "k", 0, 10)
			return string(bytes.Join(entries, nil)), err
		},
		"Update": func(s *Store) (seen string, err error) {
			err = s.Update(t.Context(), "k", func(old store.Record) (store.Change, error) {
				seen = string(old.Value)
				return store.Change{}, errUnchanged
			})
			if errors.Is(err, errUnchanged) {
				err = nil
			}
			return seen, err
		},
	}
	for name, read := range readers {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/fails=%t", name, fails), func(t *testing.T) {
				syncing, proceed := make(chan struct{}, 8), make(chan error)
				var blocked atomic.Bool
				s := openTest(t, Options{syncWAL: func(diskFile) error {
					if !blocked.Load() {
						return nil
					}
					syncing <- struct{}{}
					return <-proceed
				}})
				change := func(value string) error {
					return s.Put(t.Context(), "k", store.Change{Value: []byte(value), Entries: [][]byte{[]byte(value)}, TTL: time.Hour})
				}
				if err := change("a"); err != nil {
					t.Fatal(err)
				}
				blocked.Store(true)
				written := make(chan error, 1)
				go func() { written <- change("b") }()
				<-syncing
				type answer struct {
					value string
					err   error
				}
				answered := make(chan answer, 1)
				go func() {
					value, err := read(s)
					answered <- answer{value, err}
				}()
				select {
				case a := <-answered:
					t.Errorf("the reader got %q before it was durable", a.value)
				case <-time.After(20 * time.Millisecond):
				}
				blocked.Store(false)
				var failure error
				if fails {
					failure = errors.New("the disk is full")
				}
				proceed <- failure
				if err := <-written; (err != nil) != fails {
					t.Errorf("writing: %v", err)
				}
				want := map[string]string{"Read": "ab"}[name]
				switch {
				case fails:
					want = "a"
				case want == "":
					want = "b"
				}
				if a := <-answered; a.err != nil || a.value != want {
					t.Errorf("the reader got %q, %v, want %q", a.value, a.err, want)
				}
			})
		}
	}
}

// TestUpdate_returns_the_error_of_the_change also if it is one that the store uses itself.
func TestUpdate_returns_the_error_of_the_change(t *testing.T) {
	s := openTest(t, Options{})
	want := &share.FullError{Name: "slots"}
	err := s.Update(t.Context(), "k", func(store.Record) (store.Change, error) { return store.Change{}, want })
	if got, _ := errors.AsType[*share.FullError](err); got != want {
		t.Errorf("error %v, want that of the change", err)
	}
}
