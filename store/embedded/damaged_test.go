package embedded_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// TestDamagedFile checks that a truncated or overwritten file gives an error and does not
// terminate the process. If the damage is not detected, the store must be readable.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records.db")
	s := openStore(t, path, embedded.Options{})
	for i := range 500 {
		change := store.Change{Value: make([]byte, 300), TTL: time.Hour, Async: true}
		if err := s.Put(t.Context(), fmt.Sprint("key-", i), change); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, used := os.Getpagesize(), bytes.TrimRight(whole, "\x00")
	open := func(name string, content []byte, size int) (refused bool) {
		damaged := filepath.Join(dir, name)
		if err := os.WriteFile(damaged, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(damaged, int64(size)); err != nil { // the file is sparse, as the whole one
			t.Fatal(err)
		}
		s, err := embedded.Open(damaged, embedded.Options{})
		if err != nil {
			if !testkit.ContainsAll(err.Error(), "damaged move") {
				t.Errorf("%s: %v", name, err)
			}
			return true
		}
		for i := range 500 {
			_, _ = s.Get(t.Context(), fmt.Sprint("key-", i))
		}
		_ = s.Close()
		return false
	}
	refused := 0
	for at := 2 * page; at < min(len(whole), 200*page); at += page {
		content := make([]byte, max(len(used), at+page))
		copy(content, used)
		for i := at; i < at+page; i++ {
			content[i] = byte(7 * i)
		}
		if open(fmt.Sprint("page-", at/page), content, len(whole)) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no overwritten page was noticed")
	}
	for _, size := range []int{1, page, 2 * page, 3 * page, 8 * page} {
		if !open(fmt.Sprint("cut-", size), whole[:size], size) {
			t.Errorf("a file cut to %d bytes is opened", size)
		}
	}
	if open("empty", nil, 0) {
		t.Error("an empty file is refused")
	}
}
