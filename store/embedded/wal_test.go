package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
)

// killed copies the files of an idle store, as a kill would leave them, and returns the
// path of the copy.
func killed(t *testing.T, s *Store) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "records.db")
	to := walPaths(copied)
	for i, from := range walPaths(s.file.path) {
		copyFile(t, from, to[i])
	}
	copyFile(t, s.file.path, copied)
	return copied
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func reopen(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{Options: store.Options{Failed: func(err error) { t.Errorf("failed: %v", err) }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fill makes n changes of ten records, each with an entry.
func fill(t *testing.T, s *Store, n int) {
	t.Helper()
	for i := range n {
		text := fmt.Append(nil, i)
		if err := s.Put(t.Context(), fmt.Sprint("key", i%10), store.Change{Value: text, Entries: [][]byte{text}, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
}

// filled returns a store with n changes that are in the write-ahead log but not flushed.
func filled(t *testing.T, n int) *Store {
	t.Helper()
	s := openTest(t, Options{flushInterval: time.Hour})
	fill(t, s, n)
	if err := s.Delete(t.Context(), "key0", "ghost"); err != nil {
		t.Fatal(err)
	}
	return s
}

// inTheFile counts the records in the file of a store that is closed or killed.
func inTheFile(t *testing.T, path string) (records int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error { records = tx.Bucket(bucketRecords).Stats().KeyN; return nil }); err != nil {
		t.Fatal(err)
	}
	return records
}

// wantLog checks that a log has the texts of these numbers.
func wantLog(t *testing.T, s *Store, key string, numbers ...int) {
	t.Helper()
	entries, err := s.Read(t.Context(), key, 0, store.MaxRead)
	var got []string
	for _, e := range entries {
		got = append(got, string(e))
	}
	var want []string
	for _, n := range numbers {
		want = append(want, fmt.Sprint(n))
	}
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the log of %s is %q, error %v, want %q", key, got, err, want)
	}
}

// TestReplay checks that after each of several kills all acknowledged changes are there
// exactly once, and that the numbering continues.
func TestReplay(t *testing.T) {
	s := filled(t, 100)
	path := killed(t, s)
	if n := inTheFile(t, path); n != 0 {
		t.Fatalf("%d records are in the file before the journal is applied", n)
	}
	want := total(t, s)
	for round := range 3 {
		again := reopen(t, path)
		if got := total(t, again); got.records != want.records || got.bytes < want.bytes || again.buffer.lastID != s.buffer.lastID {
			t.Errorf("totals are %+v, want %+v", got, want)
		}
		for i := range 10 {
			r, err := again.Get(t.Context(), fmt.Sprint("key", i))
			if i == 0 && !errors.Is(err, store.ErrNotFound) || i > 0 && (err != nil || string(r.Value) != fmt.Sprint(90+i) || r.Length != int64(10+round)) {
				t.Errorf("key%d is %q with %d entries, error %v", i, r.Value, r.Length, err)
			}
			if i > 0 {
				if err := again.Put(t.Context(), fmt.Sprint("key", i), store.Change{Entries: [][]byte{{1}}, TTL: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
		}
		path = killed(t, again)
	}
}

// TestReplay_applied checks that recovery skips frames whose changes are in the store file,
// and reads the frames of both log files in order.
func TestReplay_applied(t *testing.T) {
	s := openTest(t, Options{flushInterval: time.Hour})
	fill(t, s, 20)
	if err := s.buffer.waitForFlush(t.Context()); err != nil { // in the first file, which keeps its frames until it is reused
		t.Fatal(err)
	}
	again := reopen(t, killed(t, s))
	wantLog(t, again, "key1", 1, 11)
	tx, err := s.file.db.Begin(true) // blocks the flush
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 20)
	s.buffer.mu.Lock()
	s.buffer.requestFlush()
	s.buffer.mu.Unlock()
	testkit.Eventually(t, "the second file is to be applied", func() bool {
		s.buffer.mu.Lock()
		defer s.buffer.mu.Unlock()
		return s.buffer.immutable != nil
	})
	fill(t, s, 20) // in the first file again
	path := killed(t, s)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	again = reopen(t, path)
	wantLog(t, again, "key1", 1, 11, 1, 11, 1, 11)
	wantLog(t, s, "key1", 1, 11, 1, 11, 1, 11)
	if got, want := total(t, again), total(t, s); got != want {
		t.Errorf("totals are %+v, want %+v", got, want)
	}
}

// TestReplay_torn truncates or overwrites the last frame at each offset. Recovery must drop
// that frame and keep all earlier ones.
func TestReplay_torn(t *testing.T) {
	s := openTest(t, Options{flushInterval: time.Hour})
	fill(t, s, 9)
	begins := s.wal.files[0].end
	if err := s.Put(t.Context(), "key0", store.Change{Value: []byte("torn"), Entries: [][]byte{[]byte("torn")}, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	ends := s.wal.files[0].end
	db, err := os.ReadFile(s.file.path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(walPaths(s.file.path)[0])
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(db))
	db = bytes.TrimRight(db, "\x00")
	path := filepath.Join(t.TempDir(), "records.db")
	check := func(what string, content []byte, length int64) {
		t.Helper()
		for name, content := range map[string][]byte{path: db, walPaths(path)[0]: content} {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Truncate(path, size); err != nil { // the file is sparse, as the whole one
			t.Fatal(err)
		}
		again, err := Open(path, Options{walGrowth: zerosAtOnce})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		r, err := again.Get(t.Context(), "key0")
		if err != nil || r.Length != length {
			t.Errorf("%s: key0 has %d entries, error %v, want %d", what, r.Length, err, length)
		}
		if last, err := again.Get(t.Context(), "key8"); err != nil || last.Length != 1 {
			t.Errorf("%s: key8 has %d entries, error %v, want 1", what, last.Length, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check("whole", wal[:ends], 2)
	step := int64(1)
	if testing.Short() {
		step = 13
	}
	for at := begins; at < ends; at += step {
		if at < ends-frameAlign {
			check(fmt.Sprint("cut at ", at-begins), wal[:at], 1)
		}
		zeros := append(bytes.Clone(wal[:at]), make([]byte, 4096)...)
		if !bytes.Equal(zeros[:ends], wal[:ends]) {
			check(fmt.Sprint("zeros from ", at-begins), zeros, 1)
		}
	}
}

// TestReplay_damaged checks that a log with a missing or damaged frame before others is
// rejected, and that the error names the file and the offset.
func TestReplay_damaged(t *testing.T) {
	s := filled(t, 100)
	ends := int(s.wal.files[0].end)
	// Any part of the second frame can be damaged.
	second := walHeader
	content, err := os.ReadFile(walPaths(s.file.path)[0])
	if err != nil {
		t.Fatal(err)
	}
	_, size := parseFrame(content[second:], s.wal.salt)
	second += size
	secondAt := fmt.Sprintf("byte %d,", second)
	for name, test := range map[string]struct {
		damage func([]byte) []byte
		want   string // in the error; "": the store opens
		length int64  // of key9
	}{
		"whole":            {func(b []byte) []byte { return b }, "", 10},
		"cut behind":       {func(b []byte) []byte { return b[:ends] }, "", 10},
		"empty":            {func([]byte) []byte { return nil }, "", 0},
		"zeros":            {func(b []byte) []byte { return make([]byte, len(b)) }, "", 0},
		"magic":            {func(b []byte) []byte { b[3] ^= 1; return b }, "byte 0", 0},
		"salt":             {func(b []byte) []byte { b[9] ^= 1; return b }, "byte 0", 0},
		"header of zeros":  {func(b []byte) []byte { clear(b[:walHeader]); return b }, "byte 0", 0},
		"first frame":      {func(b []byte) []byte { b[walHeader+30] ^= 1; return b }, "byte 32,", 0},
		"length of second": {func(b []byte) []byte { b[second+3] = 0x7f; return b }, secondAt, 0},
		"number of second": {func(b []byte) []byte { b[second+8] ^= 1; return b }, secondAt, 0},
		"body of second":   {func(b []byte) []byte { b[second+frameHeader] ^= 1; return b }, secondAt, 0},
		"sector of zeros":  {func(b []byte) []byte { clear(b[512:1024]); return b }, "damaged byte", 0},
		"newer version": {func(b []byte) []byte {
			copy(b, encodeHeader([]byte("fwwalog9"), s.wal.salt))
			return b
		}, "version", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := killed(t, s)
			name := walPaths(path)[0]
			if err := os.WriteFile(name, test.damage(bytes.Clone(content)), 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := Open(path, Options{})
			if test.want != "" {
				if !errors.Is(err, errWAL) || !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), name) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			r, err := again.Get(t.Context(), "key9")
			if r.Length != test.length || err != nil && test.length > 0 {
				t.Errorf("key9 has %d entries, error %v, want %d", r.Length, err, test.length)
			}
		})
	}
}

// TestReplay_foreign checks that the log of another store is rejected.
func TestReplay_foreign(t *testing.T) {
	path := killed(t, filled(t, 10))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, errWAL) || !testkit.ContainsAll(err.Error(), "another store") {
		t.Errorf("error %v", err)
	}
}

// TestWAL_close checks that Close flushes everything, including asynchronous changes,
// and removes the write-ahead log.
func TestWAL_close(t *testing.T) {
	s := filled(t, 100)
	file := s.file.path
	for _, path := range walPaths(file) {
		if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v", path, stat.Mode(), err)
		}
	}
	if err := s.Put(t.Context(), "later", store.Change{TTL: time.Hour, Async: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range walPaths(file) {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s after Close: %v", path, err)
		}
	}
	if n := inTheFile(t, file); n != 10 {
		t.Errorf("%d records are in the file, want 10", n)
	}
}

// TestMemtables checks that Read and Keys merge the file and the memtables correctly for each
// state of a record.
func TestMemtables(t *testing.T) {
	s := openTest(t, Options{flushInterval: time.Hour})
	ctx := t.Context()
	put := func(key string, n int) {
		t.Helper()
		if err := s.Put(ctx, key, store.Change{Entries: [][]byte{fmt.Append(nil, n)}, TTL: time.Hour, Async: true}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(keys ...string) {
		t.Helper()
		if err := s.Delete(ctx, keys...); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a1", "a2", "a3", "a4"} {
		put(key, 1)
	}
	if err := s.buffer.waitForFlush(ctx); err != nil {
		t.Fatal(err)
	}
	tx, err := s.file.db.Begin(true) // blocks the flush
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a1", "a2", "b"} {
		put(key, 2)
	}
	remove("a3")
	s.buffer.mu.Lock()
	s.buffer.requestFlush()
	s.buffer.mu.Unlock()
	testkit.Eventually(t, "there are two layers", func() bool {
		s.buffer.mu.Lock()
		defer s.buffer.mu.Unlock()
		return s.buffer.immutable != nil
	})
	for _, key := range []string{"a1", "a3", "a5"} {
		put(key, 3)
	}
	remove("b")
	put("b", 4) // a new record with the same key
	check := func() {
		t.Helper()
		wantLog(t, s, "a1", 1, 2, 3)
		wantLog(t, s, "a2", 1, 2)
		wantLog(t, s, "a3", 3)
		wantLog(t, s, "a4", 1)
		wantLog(t, s, "b", 4)
		for from := range int64(4) {
			for limit := 1; limit < 4; limit++ {
				entries, err := s.Read(ctx, "a1", from, limit)
				want := []string{"1", "2", "3"}[from:min(int(from)+limit, 3)]
				if got := fmt.Sprintf("%s", entries); err != nil || got != fmt.Sprint(want) {
					t.Errorf("from %d, limit %d: %s, error %v, want %s", from, limit, got, err, want)
				}
			}
		}
		for _, test := range []struct {
			prefix, after string
			limit         int
			want          string
		}{
			{"", "", 10, "[a1 a2 a3 a4 a5 b]"},
			{"a", "", 10, "[a1 a2 a3 a4 a5]"},
			{"a", "a2", 2, "[a3 a4]"},
			{"a", "a4", 2, "[a5]"},
			{"", "a3", 1, "[a4]"},
			{"b", "", 1, "[b]"},
			{"b", "b", 1, "[]"},
			{"c", "", 1, "[]"},
		} {
			keys, err := s.Keys(ctx, test.prefix, test.after, test.limit)
			if err != nil || fmt.Sprint(keys) != test.want {
				t.Errorf("keys %q after %q: %v, error %v, want %s", test.prefix, test.after, keys, err, test.want)
			}
		}
	}
	check()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	check()
	if err := s.buffer.waitForFlush(ctx); err != nil {
		t.Fatal(err)
	}
	check()
	if got := counted(t, s); got["log"] != 3+2+1+1+1+1 || got["expiry"] != 6 {
		t.Errorf("the file has %v", got)
	}
}

// TestWAL_bounded checks the backpressure: writers wait while the flush is slow, until
// their context ends, and the log files are reused.
func TestWAL_bounded(t *testing.T) {
	const writers, each = 16, 50
	s := openTest(t, Options{memtableChanges: 10, maxBufferedChanges: 100})
	tx, err := s.file.db.Begin(true) // blocks the flush
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				if err := s.Put(t.Context(), fmt.Sprint(i), store.Change{Value: fmt.Append(nil, n), TTL: time.Hour}); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	staged := func() int {
		s.buffer.mu.Lock()
		defer s.buffer.mu.Unlock()
		n := s.buffer.active.changes
		if s.buffer.immutable != nil {
			n += s.buffer.immutable.changes
		}
		return n
	}
	testkit.Eventually(t, "writers are held up", func() bool { return staged() == 100 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Put(ctx, "late", store.Change{TTL: time.Hour}) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("who is held up gets %v", err)
	}
	if n := staged(); n != 100 {
		t.Errorf("%d changes are staged", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for i := range writers {
		if r, err := s.Get(t.Context(), fmt.Sprint(i)); err != nil || string(r.Value) != fmt.Sprint(each-1) {
			t.Errorf("record %d is %q, error %v", i, r.Value, err)
		}
	}
	for _, f := range walPaths(s.file.path) {
		if stat, err := os.Stat(f); err != nil || stat.Size() > walGrowth {
			t.Errorf("%s has %d bytes, error %v", f, stat.Size(), err)
		}
	}
}

// TestFlushFails checks that changes are rejected while the file cannot be written, that
// Close returns an error, and that the next Open recovers all acknowledged changes.
func TestFlushFails(t *testing.T) {
	failures := make(chan error, 100)
	s := openTest(t, Options{flushInterval: time.Hour, Options: store.Options{Failed: func(err error) { failures <- err }}})
	fill(t, s, 20)
	if err := s.file.db.Close(); err != nil { // makes every transaction fail
		t.Fatal(err)
	}
	if err := s.buffer.waitForFlush(t.Context()); err == nil {
		t.Fatal("a memtable was flushed to a closed file")
	}
	if err := <-failures; !testkit.ContainsAll(err.Error(), "flushing") {
		t.Errorf("reported %v", err)
	}
	for _, later := range []bool{false, true} {
		err := s.Put(t.Context(), "key1", store.Change{TTL: time.Hour, Async: later})
		if err == nil || !testkit.ContainsAll(err.Error(), "rejects") {
			t.Errorf("a writer gets %v", err)
		}
	}
	if r, err := s.Get(t.Context(), "key1"); err != nil || r.Length != 2 {
		t.Errorf("key1 has %d entries, error %v", r.Length, err)
	}
	if err := s.Close(); err == nil {
		t.Error("closed without an error, though the file has not everything")
	}
	wantLog(t, reopen(t, s.file.path), "key1", 1, 11)
}

// TestFlushFails_recovers checks that changes are accepted again when the file can be
// written again.
func TestFlushFails_recovers(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	broken := errors.New("the disk is full")
	s := openTest(t, Options{flushInterval: time.Millisecond, Options: store.Options{Failed: func(err error) {
		if !errors.Is(err, broken) {
			t.Errorf("failed: %v", err)
		}
	}}, beforeFlush: func() error {
		if failing.Load() {
			return broken
		}
		return nil
	}})
	put := func(n int) error {
		return s.Put(t.Context(), "k", store.Change{Entries: [][]byte{fmt.Append(nil, n)}, TTL: time.Hour})
	}
	acknowledged := []int{}
	testkit.Eventually(t, "writers are refused", func() bool {
		err := put(len(acknowledged))
		if err == nil {
			acknowledged = append(acknowledged, len(acknowledged))
		}
		return errors.Is(err, broken)
	})
	failing.Store(false)
	testkit.Eventually(t, "writers are taken", func() bool { return put(len(acknowledged)) == nil })
	acknowledged = append(acknowledged, len(acknowledged))
	wantLog(t, s, "k", acknowledged...)
	if err := s.buffer.waitForFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s, "k", acknowledged...)
}

// TestClose_failing checks that Close ends while neither the write-ahead log nor the file
// can be written and writers wait for a commit or for room.
func TestClose_failing(t *testing.T) {
	broken := errors.New("the disk is gone")
	s := openTest(t, Options{
		Options: store.Options{Failed: func(error) {}}, maxBufferedChanges: 4, memtableChanges: 2, flushInterval: time.Millisecond,
		syncWAL:     func(diskFile) error { return broken },
		beforeFlush: func() error { return broken },
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for {
				err := s.Put(t.Context(), fmt.Sprint(i), store.Change{TTL: time.Hour})
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if !errors.Is(err, broken) {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	if err := s.Put(t.Context(), "one", store.Change{TTL: time.Hour}); !errors.Is(err, broken) {
		t.Errorf("put: %v", err)
	}
	if err := s.Close(); err != nil { // no change was acknowledged
		t.Errorf("close: %v", err)
	}
	all.Wait()
}

// TestPace checks that concurrent writers share group commits, and that a single writer
// does not wait for others.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int64
		slowDisk := func(diskFile) error {
			syncs.Add(1)
			time.Sleep(time.Millisecond)
			return nil
		}
		alone := openTest(t, Options{commitInterval: time.Minute, syncWAL: slowDisk})
		began := time.Now()
		for range 3 {
			if err := alone.Put(t.Context(), "k", store.Change{TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took >= time.Minute {
			t.Errorf("a single writer waited %s", took)
		}
		const writers, each = 32, 20
		together := openTest(t, Options{commitInterval: 5 * time.Millisecond, syncWAL: slowDisk})
		syncs.Store(0)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for n := range each {
					if err := together.Put(t.Context(), fmt.Sprint(i, n), store.Change{TTL: time.Hour}); err != nil {
						t.Errorf("put: %v", err)
					}
				}
			})
		}
		all.Wait()
		if n := syncs.Load(); n > writers*each/2 {
			t.Errorf("%d flushes of %d changes", n, writers*each)
		}
	})
}
