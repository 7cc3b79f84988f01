package format2_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/embedded/format2"
)

// sampleOf2 unpacks the kept sample of format 2: a store file and its write-ahead log.
func sampleOf2(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store.db")
	for _, suffix := range []string{"", ".wal.1", ".wal.2"} {
		packed, err := os.Open("testdata/store.db" + suffix + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		reader, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err == nil {
			err = os.WriteFile(path+suffix, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestConvert converts the sample, whose log has changes of records in the file, deletions, a new record with an old key, and
// new records.
func TestConvert(t *testing.T) {
	path := sampleOf2(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, open := range map[string]func() error{
		"Open": func() error {
			_, err := embedded.Open(path, embedded.Options{})
			return err
		},
		"CheckPlace": func() error { return embedded.CheckPlace(path) },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "convert "+path) {
			t.Errorf("%s: %v, want the command with the path", what, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the start has changed the old file, error %v", err)
	}
	r, old, err := embedded.Convert(path, format2.Read)
	if err != nil || r.Records != 45 || r.Entries != 609 {
		t.Fatalf("%+v, %v, want 45 records with 609 entries", r, err)
	}
	if left, err := os.ReadFile(old); err != nil || string(left) != string(before) {
		t.Errorf("the old file is not as it was, error %v", err)
	}
	want := map[string]string{
		"engagement/again": "new of the new one",
		"engagement/e1":    "state 2 begun 1 finished 1  begun 2 finished 2",
		"engagement/e2":    "state 2 begun 1",
		"review/\x00\xff":  "",
		"task/new":         "only in the log a b",
	}
	long := []string{"columns"}
	for i := range 600 {
		long = append(long, fmt.Sprint("entry ", i))
	}
	want["calls/long"] = strings.Join(long, " ")
	for i := range 40 {
		want[fmt.Sprintf("otc/%02d", i)] = fmt.Sprintf(`{"status":201,"n":%d}`, i)
	}
	delete(want, "otc/07")
	want["otc/08"] = "later"
	s, err := embedded.Open(path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "after", store.Change{Value: []byte("x"), TTL: 1 << 40}); err != nil {
		t.Error(err)
	}
	keys, err := s.Keys(t.Context(), "", "", 100)
	if all := append(slices.Sorted(maps.Keys(want)), "after"); err != nil || len(keys) != len(all) {
		t.Errorf("got the keys %q, error %v, want %q", keys, err, all)
	}
	for key, content := range want {
		r, err := s.Get(t.Context(), key)
		parts := []string{string(r.Value)}
		entries, readErr := s.Read(t.Context(), key, 0, 1000)
		for _, e := range entries {
			parts = append(parts, string(e))
		}
		if got := strings.Join(parts, " "); got != content || errors.Join(err, readErr) != nil {
			t.Errorf("%q is %q, error %v, want %q", key, got, errors.Join(err, readErr), content)
		}
	}
}

// TestRestore_of_an_old_backup converts it.
func TestRestore_of_an_old_backup(t *testing.T) {
	packed, err := os.Open("testdata/store.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	path := filepath.Join(t.TempDir(), "store.db")
	r, old, err := embedded.Restore(packed, path, false, format2.Read)
	if err != nil || r.Records != 46 || old != "" {
		t.Fatalf("%+v, %q, %v, want 46 records", r, old, err)
	}
	if files, _ := filepath.Glob(path + "*"); len(files) != 1 {
		t.Errorf("files %q", files)
	}
	if _, err := embedded.Check(path); err != nil {
		t.Error(err)
	}
}

// TestConvert_refuses other files, and leaves them as they are.
func TestConvert_refuses(t *testing.T) {
	own := filepath.Join(t.TempDir(), "store.db")
	s, err := embedded.Open(own, embedded.Options{})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	damaged := sampleOf2(t)
	log, err := os.ReadFile(damaged + ".wal.1")
	if err != nil {
		t.Fatal(err)
	}
	log[100] ^= 1
	if err := os.WriteFile(damaged+".wal.1", log, 0o600); err != nil {
		t.Fatal(err)
	}
	inUse := sampleOf2(t)
	db, err := bbolt.Open(inUse, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for path, want := range map[string]string{own: "already", damaged: "damaged", inUse: "in use", filepath.Join(t.TempDir(), "none.db"): "no"} {
		files, _ := filepath.Glob(path + "*")
		if _, _, err := embedded.Convert(path, format2.Read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if left, _ := filepath.Glob(path + "*"); !slices.Equal(files, left) {
			t.Errorf("files %q, before %q", left, files)
		}
	}
}
