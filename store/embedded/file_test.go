package embedded_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// TestFile_values checks that the file keeps no value of a record that was deleted or
// replaced.
func TestFile_values(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	s := openStore(t, path, embedded.Options{})
	put := func(key string, ttl time.Duration) {
		t.Helper()
		if err := s.Put(t.Context(), key, store.Change{Value: []byte("x"), TTL: ttl, Entries: [][]byte{[]byte("e")}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		put(fmt.Sprint("stays-", i), time.Hour)
		put(fmt.Sprint("goes-", i), time.Hour)
	}
	put("reborn", time.Millisecond)
	if _, err := s.Wait(t.Context(), "reborn", []byte("x")); err == nil {
		t.Fatal("the record does not expire")
	}
	put("reborn", time.Hour)
	for i := range 10 {
		if err := s.Delete(t.Context(), fmt.Sprint("goes-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for _, bucket := range []string{"records", "values", "log", "expiry"} {
			if n := tx.Bucket([]byte(bucket)).Stats().KeyN; n != 11 {
				t.Errorf("%s has %d keys, want 11", bucket, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
