package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
)

// putAll writes records that have as many log entries as their value says.
func putAll(t *testing.T, s *Store, prefix string, records int) {
	t.Helper()
	for i := range records {
		c := store.Change{Value: []byte(strconv.Itoa(i % 5)), Entries: make([][]byte, i%5), TTL: time.Hour, Owner: "user ada"}
		if err := s.Put(t.Context(), prefix+strconv.Itoa(i), c); err != nil {
			t.Fatal(err)
		}
	}
}

// backupOf returns a backup of the store.
func backupOf(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBackup_has_all_acknowledged_changes takes backups while there are changes. Each backup has what was acknowledged before
// it, and of each record one state.
func TestBackup_has_all_acknowledged_changes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	acknowledged := make([]int, 8)
	for i := range acknowledged {
		writers.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				c := store.Change{Value: []byte(strconv.Itoa(n)), Entries: [][]byte{{1}}, TTL: time.Hour}
				if err := s.Put(t.Context(), fmt.Sprintf("w/%d", i), c); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[i] = n
				mu.Unlock()
			}
		})
	}
	for round := range 5 {
		mu.Lock()
		before := append([]int{}, acknowledged...)
		mu.Unlock()
		backup := backupOf(t, s)
		restored := filepath.Join(t.TempDir(), "restored", "store.db")
		if _, old, err := Restore(bytes.NewReader(backup), restored, false, nil); err != nil || old != "" {
			t.Fatalf("restored over %q, error %v", old, err)
		}
		if info, err := os.Stat(restored); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, error %v", info.Mode(), err)
		}
		copied, err := Open(restored, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range before {
			r, err := copied.Get(t.Context(), fmt.Sprintf("w/%d", i))
			if has, _ := strconv.Atoi(string(r.Value)); has < n || int64(has) != r.Length || err != nil && n > 0 {
				t.Errorf("round %d, writer %d: %d with %d entries, error %v; %d were acknowledged", round, i, has, r.Length, err, n)
			}
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	writers.Wait()
	if files, _ := filepath.Glob(path + ".copy*"); len(files) > 0 {
		t.Errorf("left %q", files)
	}
}

// TestRestore checks when a backup replaces a store, and that damaged backups are refused.
func TestRestore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	putAll(t, s, "a/", 100)
	backup := backupOf(t, s)
	restore := func(backup []byte, replace bool) (string, error) {
		_, old, err := Restore(bytes.NewReader(backup), path, replace, nil)
		return old, err
	}
	if _, err := restore(backup, true); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a store in use: error %v", err)
	}
	putAll(t, s, "b/", 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := restore(backup, false); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a store with records: error %v", err)
	}
	flipped := bytes.Clone(backup)
	flipped[len(flipped)/2] ^= 1
	for what, bad := range map[string][]byte{"cut": backup[:len(backup)-1], "changed": flipped, "text": []byte("no backup")} {
		if _, err := restore(bad, true); err == nil || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	old, err := restore(backup, true)
	if err != nil {
		t.Fatal(err)
	}
	for file, records := range map[string]int64{path: 100, old: 101} {
		if r, err := Check(file); err != nil || r.Records != records {
			t.Errorf("%s: %+v, error %v, want %d records", file, r, err, records)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(files) != 2 {
		t.Errorf("files %q, want the store and the old one", files)
	}
}

// TestCheck checks what a report has, and that damage is found.
func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{MaxRecords: 1000})
	if err != nil {
		t.Fatal(err)
	}
	putAll(t, s, "a/", 10)
	putAll(t, s, "no kind", 1)
	r, err := s.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := [...]int64{r.Records, r.Entries, r.Kinds["a"].Records, r.Kinds["other"].Records, r.MaxRecords}
	if want := [...]int64{11, 20, 10, 1, 1000}; got != want {
		t.Errorf("records, entries, records of both kinds, limit: got %d, want %d", got, want)
	}
	if left := time.Until(r.Oldest); left > time.Hour {
		t.Errorf("the oldest record is from %s later, want at most 1h", left)
	}
	if len(r.Owners) != 1 || r.Owners[0].Owner != "user ada" || r.Owners[0].Bytes != r.Bytes {
		t.Errorf("got the owners %+v, want user ada with %d bytes", r.Owners, r.Bytes)
	}
	if _, err := Check(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a store in use: error %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	intact, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change := func(bucket []byte, to func(b *bbolt.Bucket) error) func() error {
		return func() error {
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				return err
			}
			return errors.Join(db.Update(func(tx *bbolt.Tx) error { return to(tx.Bucket(bucket)) }), db.Close())
		}
	}
	removeFirst := func(b *bbolt.Bucket) error {
		key, _ := b.Cursor().First()
		return b.Delete(key)
	}
	for want, damage := range map[string]func() error{
		"expiry index":   change(bucketExpiry, removeFirst),
		"entry 0":        change(bucketLog, removeFirst),
		"record":         change(bucketValues, removeFirst),
		"keys in values": change(bucketValues, func(b *bbolt.Bucket) error { return b.Put(idKey(1<<40), new(record).encode("x")) }),
		"format":         change(bucketStore, func(b *bbolt.Bucket) error { return b.Put(keyFormat, []byte{99}) }),
		"damaged": func() error {
			return os.WriteFile(path, append(bytes.Clone(intact[:pageSize*2]), make([]byte, len(intact)-2*pageSize)...), 0o600)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if err := os.WriteFile(path, intact, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Check(path); err != nil {
		t.Error(err)
	}
}
