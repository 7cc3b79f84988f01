package embedded

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
)

// TestChecksums checks that a changed byte of a record or of its log is an error that names the record, of every read and of Check, and
// leaves other records alone.
func TestChecksums(t *testing.T) {
	s := openTest(t, Options{sweepInterval: time.Hour})
	path, names := s.file.path, []string{"damaged", "intact"}
	for _, key := range names {
		c := store.Change{Value: []byte("value"), Entries: [][]byte{[]byte("entry")}, TTL: time.Hour, Owner: "user ada", Evictable: true, Tombstone: []byte("gone")}
		if err := s.Put(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	pristine, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// edit flips a bit of the n-th byte of the first value of a bucket. It returns false if there is none.
	edit := func(bucket []byte, n int) (edited bool) {
		t.Helper()
		if err := os.WriteFile(path, pristine, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			key, value := b.Cursor().First()
			if value = bytes.Clone(value); n >= len(value) {
				return nil
			}
			edited = true
			value[n] ^= 4
			return b.Put(bytes.Clone(key), value)
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		return edited
	}
	damaged := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "damaged\"") {
			t.Errorf("%s: %v, want an error that names the record", what, err)
		}
	}
	for _, bucket := range [][]byte{bucketRecords, bucketValues, bucketLog} {
		for n := 0; edit(bucket, n); n++ {
			_, err := Check(path)
			if err == nil {
				t.Errorf("byte %d of %s: Check finds nothing", n, bucket)
			}
			s, err := Open(path, Options{})
			if err != nil {
				continue // the length of a part is wrong
			}
			_, err = s.Read(t.Context(), "damaged", 0, 9)
			damaged("Read", err)
			if !bytes.Equal(bucket, bucketLog) {
				_, err = s.Get(t.Context(), "damaged")
				damaged("Get", err)
				_, err = s.Keys(t.Context(), "", "", 9)
				damaged("Keys", err)
				damaged("Put", s.Put(t.Context(), "damaged", store.Change{TTL: time.Hour}))
				damaged("Delete", s.Delete(t.Context(), "damaged"))
			}
			if err := s.Put(t.Context(), "intact", store.Change{TTL: time.Hour}); err != nil {
				t.Errorf("the other record: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
