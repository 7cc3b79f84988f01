package otcadapter

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/store"
	"github.com/fairwayhq/fairway/ocp"
)

// A failing store takes no change once it is broken, until it has refused as many
// as left says.
type failing struct {
	store.Store
	broken atomic.Bool
	left   atomic.Int64
}

var errGone = errors.New("the store is gone")

func (f *failing) refuses() bool {
	return f.broken.Load() && f.left.Add(-1) >= 0
}

func (f *failing) Put(ctx context.Context, key string, change store.Change) error {
	if f.refuses() {
		return errGone
	}
	return f.Store.Put(ctx, key, change)
}

func (f *failing) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if f.refuses() {
		return errGone
	}
	return f.Store.Update(ctx, key, change)
}

// breaking is a Caller that breaks the store while the tool runs.
func (f *failing) breaking(calls *atomic.Int64) callerFunc {
	answer := new(counting)
	return func(ctx context.Context, tool string, input []byte) ocp.Outcome {
		f.broken.Store(true)
		calls.Add(1)
		return answer.Call(ctx, tool, input)
	}
}

// TestOnce_an_answer_is_kept_later where the store fails twice when the call ends.
func TestOnce_an_answer_is_kept_later(t *testing.T) {
	bolt := openBolt(t, filepath.Join(t.TempDir(), "s"))
	st := &failing{Store: bolt}
	st.left.Store(2)
	var failures, calls atomic.Int64
	options := idempotency(st)
	options.Failed = func(err error) {
		if errors.Is(err, errGone) {
			failures.Add(1)
		}
	}
	s := New(Options{Idempotency: options})
	caller := st.breaking(&calls)
	first := question{body: addOnce}.ask(t.Context(), s, calculator(), caller)
	keys, err := bolt.Keys(t.Context(), recordPrefix, "", 10)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	begun, err := bolt.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := decodeRecord(begun.Value); r.state == recordBegun {
		if _, err := bolt.Wait(t.Context(), keys[0], begun.Value); err != nil {
			t.Fatal(err)
		}
	}
	second := question{body: addOnce}.ask(t.Context(), s, calculator(), caller)
	if first.Code != 200 || first.Body.String() != second.Body.String() || calls.Load() != 1 {
		t.Errorf("ran %d times: %s and %s", calls.Load(), first.Body, second.Body)
	}
	if n := failures.Load(); n != 2 {
		t.Errorf("told of %d failures, want 2", n)
	}
}

// TestOnce_answers_that_wait_are_bounded in number and in time.
func TestOnce_answers_that_wait_are_bounded(t *testing.T) {
	st := &failing{Store: openBolt(t, filepath.Join(t.TempDir(), "s"))}
	st.broken.Store(true)
	st.left.Store(1 << 40)
	options := idempotency(st)
	options.Lease = time.Second
	p := newRecords(*options)
	for range 2 * maxUnkept {
		p.keepLater(st, "k", nodeID{1}, store.Change{Value: []byte("v")})
		if n := p.unkept.Load(); n > maxUnkept {
			t.Fatalf("%d answers wait", n)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for p.unkept.Load() > 0 {
		select {
		case <-ctx.Done():
			t.Fatalf("%d answers still wait", p.unkept.Load())
		case <-time.After(time.Millisecond):
		}
	}
}

// TestOnce_a_later_attempt_is_not_overwritten by the answer of an earlier one.
func TestOnce_a_later_attempt_is_not_overwritten(t *testing.T) {
	st := openBolt(t, filepath.Join(t.TempDir(), "s"))
	theirs := (&record{state: recordBegun, attempt: nodeID{2}}).encode()
	if err := st.Put(t.Context(), "k", store.Change{Value: theirs, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	mine := store.Change{Value: []byte("v"), TTL: time.Hour}
	if err := keepOver(t.Context(), st, "k", nodeID{1}, mine); !errors.Is(err, errTaken) {
		t.Errorf("over the record of another attempt: %v", err)
	}
	if err := keepOver(t.Context(), st, "k", nodeID{2}, mine); err != nil {
		t.Errorf("over the record of its own: %v", err)
	}
}
