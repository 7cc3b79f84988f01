package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// short is a time to live that tests wait for.
const short = 100 * time.Millisecond

func expiry(t *testing.T, place Place) {
	s := open(t, place)
	put(t, s, "k", store.Change{Value: []byte("x"), Entries: [][]byte{{1}, {2}}, TTL: short})
	put(t, s, "stays", value("y"))
	until(t, "the record expires", func() bool {
		_, err := s.Get(t.Context(), "k")
		return errors.Is(err, store.ErrNotFound)
	})
	wantLog(t, s, "k", 0, 10)
	found, err := s.Keys(t.Context(), "", "", 10)
	if err != nil || !slices.Equal(found, []string{"stays"}) {
		t.Errorf("keys %q, error %v", found, err)
	}
}

func refresh(t *testing.T, place Place) {
	s := open(t, place)
	// The second change must be made before the record expires, even on a slow machine.
	ttl, inTime := short/2, false
	for !inTime {
		ttl *= 2
		put(t, s, "k", store.Change{Delete: true})
		put(t, s, "k", store.Change{Value: []byte("x"), TTL: ttl})
		err := s.Update(t.Context(), "k", func(old store.Record) (store.Change, error) {
			inTime = old.Value != nil
			return store.Change{Entries: [][]byte{{1}}, TTL: time.Hour}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "first to go", store.Change{Value: []byte("y"), TTL: ttl})
	put(t, s, "shorter", value("z"))
	put(t, s, "shorter", store.Change{TTL: short})
	for _, key := range []string{"first to go", "shorter"} {
		until(t, key+" expires", func() bool {
			_, err := s.Get(t.Context(), key)
			return errors.Is(err, store.ErrNotFound)
		})
	}
	want(t, s, "k", "x", 1)
}

func rebirth(t *testing.T, place Place) {
	s := open(t, place)
	first := store.Change{Value: []byte("first"), Entries: [][]byte{[]byte("a"), []byte("b")}, TTL: short}
	put(t, s, "k", first)
	until(t, "the record expires", func() bool {
		_, err := s.Get(t.Context(), "k")
		return errors.Is(err, store.ErrNotFound)
	})
	again := store.Change{Entries: [][]byte{[]byte("c")}, TTL: time.Hour}
	put(t, s, "k", again)
	want(t, s, "k", "", 1)
	wantLog(t, s, "k", 0, 10, "c")
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", again)
	want(t, s, "k", "", 1)
	wantLog(t, s, "k", 0, 10, "c")
}
