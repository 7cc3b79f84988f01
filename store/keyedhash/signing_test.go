package keyedhash

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// signingNodes returns keys of two nodes with one store, a function that lets time pass, and a switch
// that makes the store unavailable.
func signingNodes(t *testing.T) (a, b *SigningKeys, st store.Store, pass func(time.Duration), down *error) {
	t.Helper()
	st, err := embedded.Open(filepath.Join(t.TempDir(), "store.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	now := time.Now()
	down = new(error)
	node := func() *SigningKeys {
		k := NewSigningKeys(func(context.Context) (store.Store, error) { return st, *down })
		k.now = func() time.Time { return now }
		return k
	}
	return node(), node(), st, func(d time.Duration) { now = now.Add(d) }, down
}

func keysOf(t *testing.T, k *SigningKeys) [][]byte {
	t.Helper()
	set, err := k.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return set.Keys
}

func accepts(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(other []byte) bool { return bytes.Equal(other, key) })
}

func TestSigningKeys_are_those_of_all_nodes(t *testing.T) {
	a, b, _, _, _ := signingNodes(t) //nolint:dogsled // other tests use the rest
	first, other := keysOf(t, a), keysOf(t, b)
	if len(first) != 1 || len(first[0]) != keySize || !bytes.Equal(first[0], other[0]) {
		t.Errorf("keys %x and %x", first, other)
	}
}

// TestSigningKeys_rotate signs on one node at any time of two rotations. The other node, which has read
// the keys at another time, accepts it.
func TestSigningKeys_rotate(t *testing.T) {
	a, b, _, pass, _ := signingNodes(t)
	first := keysOf(t, a)[0]
	keysOf(t, b)
	pass(keyReload / 2)
	keysOf(t, b)
	pass(signingPeriod - keyReload)
	signed := first
	for range 12 {
		pass(keyReload / 2)
		now := keysOf(t, a)
		if other := keysOf(t, b); !accepts(other, now[0]) || !accepts(now, other[0]) {
			t.Fatalf("the nodes sign with keys that the other does not accept: %x and %x", now, other)
		}
		signed = now[0]
	}
	if bytes.Equal(signed, first) {
		t.Fatal("the key was not replaced")
	}
	if !accepts(keysOf(t, a), first) {
		t.Error("the replaced key is not accepted")
	}
	pass(signingPeriod)
	if keys := keysOf(t, a); len(keys) != 2 || accepts(keys, first) || !accepts(keys, signed) {
		t.Errorf("after two rotations: %x", keys)
	}
}

func TestSigningKeys_outage(t *testing.T) {
	a, b, st, pass, down := signingNodes(t)
	first := keysOf(t, a)[0]
	*down = errors.New("down")
	if _, err := b.Current(t.Context()); !errors.Is(err, *down) {
		t.Errorf("a node that never read the keys: %v", err)
	}
	pass(2 * keyReload)
	if keys := keysOf(t, a); !bytes.Equal(keys[0], first) {
		t.Errorf("during an outage: %x, before %x", keys, first)
	}
	*down = nil
	if err := st.Delete(t.Context(), signingRecord); err != nil {
		t.Fatal(err)
	}
	pass(2 * keyReload)
	keysOf(t, a)
	if keys := keysOf(t, b); !bytes.Equal(keys[0], first) {
		t.Errorf("the store lost the keys, and a node did not restore them: %x, before %x", keys, first)
	}
}
