package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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

// stored returns the record as the file has it, or nil.
func stored(t *testing.T, s *Store, key string) (r *record) {
	t.Helper()
	err := s.file.view(func(tx *bbolt.Tx) (err error) {
		r, err = readRecord(tx, key, true)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// total closes the store and returns the sums over all owners in the file. It checks that those in memory are equal.
func total(t *testing.T, s *Store) (all sums) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stored, _, err := checkFile(s.file.path)
	if err != nil {
		t.Fatal(err)
	}
	for owner, o := range stored {
		all = sums{records: all.records + o.records, bytes: all.bytes + o.bytes}
		if evictable, shrinkable := s.use.evictable[owner], s.use.shrinkable[owner]; evictable != o.evictable || shrinkable != o.shrinkable {
			t.Errorf("%q has %d evictable and %d shrinkable records in memory, in the file: %+v", owner, evictable, shrinkable, o)
		}
	}
	if u := s.Usage(); u[0].Used != all.records || u[1].Used != all.bytes {
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
		var early []string
		err := s.file.view(func(tx *bbolt.Tx) error {
			early, _ = expired(tx, time.Now().Add(time.Minute).UnixMilli(), []byte{classDurable})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "stays", store.Change{TTL: time.Hour}); err != nil { // a long log goes with later changes
			t.Fatal(err)
		}
		if fmt.Sprint(counts) == fmt.Sprint(want) && len(early) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("what remains is %v, want %v; the index looks too early at %q", counts, want, early)
		}
	}
	k := stored(t, s, "stays")
	if k == nil {
		t.Fatal("the other record is gone")
	}
	if size, got := k.size(len("stays")), total(t, s); got.records != 1 || got.bytes != size {
		t.Errorf("totals are %+v, want 1 record of %d bytes", got, size)
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
		if stored(t, s, key).length == 2 {
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
				return s.Put(ctx, key, store.Change{Value: value, TTL: ttl, Evictable: spare, Async: key < "spare0999"})
			}
			for i := range 1000 {
				if err := put(fmt.Sprintf("spare%04d", i), time.Hour+time.Duration(i)*time.Second, true); err != nil {
					t.Fatal(err)
				}
			}
			if err := put("spare0999", time.Hour+999*time.Second, true); err != nil {
				t.Fatal(err)
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
			if err := s.Delete(ctx, "none"); err != nil { // after the changes before
				t.Fatal(err)
			}
			var recount sums
			for key := range allKept(t, s) {
				recount.add(len(key), stored(t, s, key), +1)
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

// TestUpdate_returns_the_error_of_the_change also if it is one that the store uses itself.
func TestUpdate_returns_the_error_of_the_change(t *testing.T) {
	s := openTest(t, Options{})
	want := &share.FullError{Name: "slots"}
	err := s.Update(t.Context(), "k", func(store.Record) (store.Change, error) { return store.Change{}, want })
	if got, _ := errors.AsType[*share.FullError](err); got != want {
		t.Errorf("error %v, want that of the change", err)
	}
}

// TestStore_wait_ends_with_the_record wants a caller that waits to learn of the expiry of a record at once: nothing else wakes it before
// the sweep.
func TestStore_wait_ends_with_the_record(t *testing.T) {
	s := openTest(t, Options{})
	if err := s.Put(t.Context(), "k", store.Change{Value: []byte("x"), TTL: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := s.Wait(t.Context(), "k", []byte("x")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v, want %v", err, store.ErrNotFound)
	}
	if took := time.Since(began); took >= store.PollInterval/2 {
		t.Errorf("the expiry was noticed after %s", took)
	}
}
