package idempotency

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

var errBroken = errors.New("the store is broken")

// brokenStore rejects all changes.
type brokenStore struct {
	store.Store
	updates atomic.Int64
}

func (s *brokenStore) Update(context.Context, string, func(store.Record) (store.Change, error)) error {
	s.updates.Add(1)
	return errBroken
}

// openBolt opens an embedded store for the test.
func openBolt(t *testing.T) *embedded.Store {
	t.Helper()
	st, err := embedded.Open(filepath.Join(t.TempDir(), "s"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// TestRetryStore_waiting_responses_are_bounded in number and in time.
func TestRetryStore_waiting_responses_are_bounded(t *testing.T) {
	st := &brokenStore{Store: openBolt(t)}
	p := New(Options{Lease: time.Second})
	for range 2 * maxRetrying {
		p.retryStore(st, "k", nodeID{1}, store.Change{Value: []byte("v")})
		if n := p.retrying.Load(); n > maxRetrying {
			t.Fatalf("%d answers wait", n)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for p.retrying.Load() > 0 {
		select {
		case <-ctx.Done():
			t.Fatalf("%d answers still wait", p.retrying.Load())
		case <-time.After(time.Millisecond):
		}
	}
}

// TestRetryStore_a_later_attempt_is_not_overwritten by the answer of an earlier one.
func TestRetryStore_a_later_attempt_is_not_overwritten(t *testing.T) {
	st := openBolt(t)
	theirs := (&record{state: stateBegun, attempt: nodeID{2}}).encode()
	if err := st.Put(t.Context(), "k", store.Change{Value: theirs, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	mine := store.Change{Value: []byte("v"), TTL: time.Hour}
	if err := putUnlessClaimed(t.Context(), st, "k", nodeID{1}, mine); !errors.Is(err, errClaimed) {
		t.Errorf("over the record of another attempt: %v", err)
	}
	if err := putUnlessClaimed(t.Context(), st, "k", nodeID{2}, mine); err != nil {
		t.Errorf("over the record of its own: %v", err)
	}
}

// TestRecord_invalid is none: it cannot be answered with.
func TestRecord_invalid(t *testing.T) {
	for _, r := range []record{{state: 'x', status: 200}, {state: stateDone}, {state: stateDone, status: 99}, {state: stateNotStored, status: 6000}} {
		if _, ok := decodeRecord(r.encode()); ok {
			t.Errorf("%c with status %d is a record", r.state, r.status)
		}
	}
	if _, ok := decodeRecord((&record{state: stateBegun}).encode()); !ok {
		t.Error("a call that has begun has no record")
	}
}

func TestRecord_of_another_version(t *testing.T) {
	whole := (&record{state: stateDone, status: 200}).encode()
	for i := range whole {
		if _, ok := decodeRecord(whole[:i]); ok {
			t.Errorf("%d bytes are a record", i)
		}
	}
	whole[0]++
	if _, ok := decodeRecord(whole); ok {
		t.Error("a record of another version is read")
	}
}
