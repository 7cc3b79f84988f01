package embedded

import (
	"bytes"
	"path/filepath"
	"testing"
)

// TestConvert_keeps_what_no_reader_shows checks the owner of a record, and what remains of a dropped one.
func TestConvert_keeps_what_no_reader_shows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	old := Old{ID: 7, Value: []byte("v"), Owner: "user ada", Tombstone: []byte("dropped"), Expires: 1 << 50, Evictable: true}
	read := func(_ string, visit func(string, *Old) error) error { return visit("k", &old) }
	if err := convertInto(path, path, read); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r := stored(t, s, "k"); r.owner != "user ada" || !r.evictable || !bytes.Equal(r.tombstone, old.Tombstone) {
		t.Errorf("%+v, want what the old record has", r)
	}
}
