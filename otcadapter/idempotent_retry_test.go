package otcadapter

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools"
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
	return func(ctx context.Context, tool string, input []byte) tools.Outcome {
		f.broken.Store(true)
		calls.Add(1)
		return answer.Call(ctx, tool, input)
	}
}

// TestIdempotency_an_answer_is_kept_later where the store fails twice when the call ends.
func TestIdempotency_an_answer_is_kept_later(t *testing.T) {
	bolt := openBolt(t, filepath.Join(t.TempDir(), "s"))
	st := &failing{Store: bolt}
	st.left.Store(2)
	var failures, calls atomic.Int64
	options := recordIn(st)
	options.Failed = func(err error) {
		if errors.Is(err, errGone) {
			failures.Add(1)
		}
	}
	s := New(Options{Idempotency: options})
	caller := st.breaking(&calls)
	first := question{body: addWithID}.ask(t.Context(), s, calculator(), caller)
	keys, err := bolt.Keys(t.Context(), recordPrefix, "", 10)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	begun, err := bolt.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	if begun.Value[recordStateOffset] == 'b' {
		if _, err := bolt.Wait(t.Context(), keys[0], begun.Value); err != nil {
			t.Fatal(err)
		}
	}
	second := question{body: addWithID}.ask(t.Context(), s, calculator(), caller)
	if first.Code != 200 || first.Body.String() != second.Body.String() || calls.Load() != 1 {
		t.Errorf("ran %d times: %s and %s", calls.Load(), first.Body, second.Body)
	}
	if n := failures.Load(); n != 2 {
		t.Errorf("reported %d failures, want 2", n)
	}
}
