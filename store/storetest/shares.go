package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// ShareLimit is the number of bytes that the store of RunShares can hold.
const ShareLimit = 12 << 20

// RunShares tests that no owner takes the place of another. The store at each place has room for ShareLimit
// bytes, and about as many records as it likes.
func RunShares(t *testing.T, place func(*testing.T) Place) {
	for _, check := range []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"the largest owner loses its own oldest records", evictsOwnRecords},
		{"an owner whose records stay is refused", refusesOwner},
		{"unauthenticated networks hold at most half", networksHoldHalf},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, open(t, place(t))) })
	}
}

const ada, bob = store.Owner("user ada"), store.Owner("user bob")

var (
	shareValue = bytes.Repeat([]byte("v"), 16<<10)
	tombstone  = []byte("tombstone")
)

const manyValues = 2 * ShareLimit / (16 << 10) // values that are twice as large as the store

// putShare writes a large record of an owner.
func putShare(t *testing.T, s store.Store, o store.Owner, n int, evictable bool) error {
	t.Helper()
	c := store.Change{Value: bytes.Clone(shareValue), TTL: time.Hour + time.Duration(n)*time.Second, Owner: o, Evictable: evictable, Tombstone: tombstone}
	return s.Put(t.Context(), shareKey(o, n), c)
}

func shareKey(o store.Owner, n int) string { return fmt.Sprintf("%s/%06d", o, n) }

// wantValue checks the value of a record of putShare.
func wantValue(t *testing.T, s store.Store, o store.Owner, n int, want []byte) {
	t.Helper()
	r, err := s.Get(t.Context(), shareKey(o, n))
	if err != nil || !bytes.Equal(r.Value, want) {
		t.Errorf("record %d of %q is %.20q, error %v; want %.20q", n, o, r.Value, err, want)
	}
}

func evictsOwnRecords(t *testing.T, s store.Store) {
	const few = 10
	for n := range few {
		if err := putShare(t, s, ada, n, true); err != nil {
			t.Fatal(err)
		}
	}
	for n := range manyValues {
		if err := putShare(t, s, bob, n, true); err != nil {
			t.Fatalf("record %d of the flooder: %v", n, err)
		}
	}
	for n := range 5 * few {
		if err := putShare(t, s, ada, few+n, true); err != nil {
			t.Fatalf("record %d of the other owner: %v", few+n, err)
		}
	}
	for n := range 6 * few {
		wantValue(t, s, ada, n, shareValue)
	}
	wantValue(t, s, bob, 0, tombstone)
	wantValue(t, s, bob, manyValues/4, tombstone)
	wantValue(t, s, bob, manyValues-1, shareValue)
	if err := s.Delete(t.Context(), shareKey(bob, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), shareKey(bob, 0)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a deleted tombstone: %v", err)
	}
}

func refusesOwner(t *testing.T, s store.Store) {
	kept := 0
	var err error
	for ; err == nil && kept < manyValues; kept++ {
		err = putShare(t, s, bob, kept, false)
	}
	if !errors.Is(err, store.ErrShare) || kept < manyValues/4 {
		t.Fatalf("record %d: %v, want store.ErrShare after about three quarters", kept, err)
	}
	if err := putShare(t, s, bob, 0, false); err != nil {
		t.Errorf("a change that needs no room: %v", err)
	}
	for n := range 10 {
		if err := putShare(t, s, ada, n, false); err != nil {
			t.Errorf("record %d of the other owner: %v", n, err)
		}
	}
	wantValue(t, s, bob, 1, shareValue)
	err = s.Put(t.Context(), "tombstone", store.Change{
		Value: bytes.Clone(shareValue), TTL: time.Hour, Owner: bob, Evictable: true, Tombstone: tombstone,
	})
	if r, _ := s.Get(t.Context(), "tombstone"); err != nil && !errors.Is(err, store.ErrShare) || err == nil && !bytes.Equal(r.Value, tombstone) {
		t.Errorf("a response for which there is no room: %v, %.20q, want its tombstone", err, r.Value)
	}
	for n := range kept / 2 {
		if err := s.Delete(t.Context(), shareKey(bob, n)); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(patience)
	for err = putShare(t, s, bob, 0, false); errors.Is(err, store.ErrShare) && time.Now().Before(deadline); {
		err = putShare(t, s, bob, 0, false)
	}
	if err != nil {
		t.Errorf("after records were deleted: %v", err)
	}
}

func networksHoldHalf(t *testing.T, s store.Store) {
	const owners = 16
	network := func(n int) store.Owner { return store.Owner(fmt.Sprintf("network 192.0.2.%d/32", n%owners)) }
	for n := range manyValues {
		if err := putShare(t, s, network(n), n, true); err != nil {
			t.Fatalf("record %d of a network: %v", n, err)
		}
	}
	own := manyValues / 16 // an eighth of the store
	for n := range own {
		if err := putShare(t, s, ada, n, true); err != nil {
			t.Fatalf("record %d of the user: %v", n, err)
		}
	}
	for n := range manyValues {
		if err := putShare(t, s, network(n), manyValues+n, true); err != nil {
			t.Fatalf("record %d of a network: %v", manyValues+n, err)
		}
	}
	for n := range own {
		wantValue(t, s, ada, n, shareValue)
	}
	held := 0
	for n := range 2 * manyValues {
		r, err := s.Get(t.Context(), shareKey(network(n), n))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(r.Value), string(tombstone)) {
			held++
		}
	}
	if most := manyValues * 5 / 16; held < manyValues/16 || held > most {
		t.Errorf("networks hold %d values, want at most %d", held, most)
	}
}
