package chat

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

func TestPassed_texts_are_bounded(t *testing.T) {
	key := func(n int) (k [sha256.Size]byte) {
		binary.BigEndian.PutUint64(k[:], uint64(n)) //nolint:gosec // not negative
		return k
	}
	var p passedTexts
	if p.has(key(0)) {
		t.Fatal("it remembers a text that it did not get")
	}
	for n := range 5 * maxPassed {
		p.add(key(n))
		if !p.has(key(n)) || !p.has(key(0)) {
			t.Fatalf("a text that is looked up all the time was evicted at %d", n)
		}
	}
	if len(p.young)+len(p.old) > 2*maxPassed+2 {
		t.Errorf("it remembers %d", len(p.young)+len(p.old))
	}
	if p.has(key(1)) {
		t.Error("it remembers for ever")
	}
}
