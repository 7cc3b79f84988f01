package idempotency

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/lease"
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

// testCall is a call that is not idempotent.
type testCall struct{ Call }

func (testCall) Idempotent() bool   { return false }
func (testCall) ReadOnly() bool     { return false }
func (testCall) Owner() store.Owner { return "" }

// begun returns an execution that has claimed the record k.
func begun(t *testing.T, r *Records, st store.Store) *execution {
	t.Helper()
	e := &execution{Records: r, store: &openStore{st, lease.Terms{Duration: r.options.Lease}}, call: testCall{}, key: "k"}
	if err := e.begin(t.Context()); e.found != nil || err != nil {
		t.Fatalf("found %+v, error %v", e.found, err)
	}
	return e
}

// TestPutLater_waiting_responses_are_bounded in number and in time.
func TestPutLater_waiting_responses_are_bounded(t *testing.T) {
	r := New(Options{Lease: time.Second})
	e := begun(t, r, openBolt(t))
	e.store.Store = &brokenStore{Store: e.store.Store}
	for range 2 * maxRetrying {
		e.putLater(store.Change{Value: []byte("v")})
		if n := r.retrying.Load(); n > maxRetrying {
			t.Fatalf("%d answers wait", n)
		}
	}
	testkit.Eventually(t, "no more responses that wait", func() bool { return r.retrying.Load() == 0 })
}

// TestPut_a_later_attempt_is_not_overwritten by the answer of an earlier one.
func TestPut_a_later_attempt_is_not_overwritten(t *testing.T) {
	st := openBolt(t)
	r := New(Options{})
	mine := store.Change{Value: []byte("v"), TTL: time.Hour}
	e := begun(t, r, st)
	theirs := (&record{state: stateBegun, lease: lease.Lease{Token: "another claim"}}).encode()
	if err := st.Put(t.Context(), "k", store.Change{Value: theirs, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := e.put(t.Context(), mine); err != nil {
		t.Error(err)
	}
	if found, err := st.Get(t.Context(), "k"); err != nil || !bytes.Equal(found.Value, theirs) {
		t.Errorf("the record of another attempt is now %q, error %v", found.Value, err)
	}
}

// TestPut_a_lost_record is written again, so that the call does not run twice.
func TestPut_a_lost_record(t *testing.T) {
	st := openBolt(t)
	e := begun(t, New(Options{}), st)
	if err := st.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if err := e.put(t.Context(), store.Change{Value: []byte("v"), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if found, err := st.Get(t.Context(), "k"); err != nil || string(found.Value) != "v" {
		t.Errorf("the record is %q, error %v", found.Value, err)
	}
}

// TestRecord_invalid is none: it cannot be answered with.
func TestRecord_invalid(t *testing.T) {
	for _, r := range []record{{state: 'x', status: 200}, {state: stateDone}, {state: stateDone, status: 99}, {state: stateNotStored, status: 6000}} {
		if _, ok := decodeRecord(r.encode(), new(lease.Lease)); ok {
			t.Errorf("%c with status %d is a record", r.state, r.status)
		}
	}
	if _, ok := decodeRecord((&record{state: stateBegun}).encode(), new(lease.Lease)); !ok {
		t.Error("a call that has begun has no record")
	}
}

func TestRecord_of_another_version(t *testing.T) {
	whole := (&record{state: stateDone, status: 200}).encode()
	for i := range whole {
		if _, ok := decodeRecord(whole[:i], new(lease.Lease)); ok {
			t.Errorf("%d bytes are a record", i)
		}
	}
	whole[0]++
	if _, ok := decodeRecord(whole, new(lease.Lease)); ok {
		t.Error("a record of another version is read")
	}
}
