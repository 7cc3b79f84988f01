package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
)

func large(t *testing.T, place Place) {
	s := open(t, place)
	big := bytes.Repeat([]byte{0, 'x', 0xff, '\n'}, store.DefaultMaxValue/4)
	put(t, s, "k", store.Change{Value: big, Entries: [][]byte{big}, TTL: time.Hour})
	r, err := s.Get(t.Context(), "k")
	if err != nil || !bytes.Equal(r.Value, big) {
		t.Errorf("%d bytes come back, error %v", len(r.Value), err)
	}
	const more = store.MaxReadBytes/store.DefaultMaxValue + 2
	for range more {
		put(t, s, "k", store.Change{Entries: [][]byte{big}, TTL: time.Hour})
	}
	entries, err := s.Read(t.Context(), "k", 0, store.MaxRead)
	if err != nil || len(entries) != store.MaxReadBytes/store.DefaultMaxValue || !bytes.Equal(entries[0], big) {
		t.Errorf("%d entries are read at once, error %v", len(entries), err)
	}
	if entries, err = s.Read(t.Context(), "k", int64(len(entries)), store.MaxRead); err != nil || len(entries) != 3 {
		t.Errorf("%d entries remain, error %v, want 3", len(entries), err)
	}
}

// long checks that appending to a long log costs as much as appending to a short one.
func long(t *testing.T, place Place) {
	const chunk, chunks, probes = store.MaxEntries, 40, 100
	s := open(t, place)
	probe := func(key string) time.Duration {
		start := time.Now()
		put(t, s, key, store.Change{Value: []byte("state"), Entries: [][]byte{[]byte("x")}, TTL: time.Hour})
		return time.Since(start)
	}
	entries := make([][]byte, chunk)
	for c := range chunks {
		for i := range entries {
			entries[i] = fmt.Appendf(nil, "%d: what was called and what came of it", c*chunk+i)
		}
		put(t, s, "k", store.Change{Entries: entries, TTL: time.Hour})
	}
	// Alternate, since the speed of the disk and the machine varies.
	var inShort, inLong [probes]time.Duration
	for i := range probes {
		inShort[i], inLong[i] = probe("short"), probe("k")
	}
	slices.Sort(inShort[:])
	slices.Sort(inLong[:])
	short, long := inShort[probes/2], inLong[probes/2]
	t.Logf("one more entry: %s after %d, %s after %d", short, probes, long, chunk*chunks)
	if long > 10*short+5*time.Millisecond {
		t.Errorf("an entry costs %s in a short log and %s in a long one", short, long)
	}
	want(t, s, "k", "state", chunk*chunks+probes)
	wantLog(t, s, "k", 12_345, 1, "12345: what was called and what came of it")
	wantLog(t, s, "k", chunk*chunks+probes-1, 5, "x")
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s, "k", 0, 1)
}
