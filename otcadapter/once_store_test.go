package otcadapter

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOnce_a_record_outlives_its_call keeps the record of a call that takes longer
// than records are kept: another node would run the call too.
func TestOnce_a_record_outlives_its_call(t *testing.T) {
	st := openBolt(t, filepath.Join(t.TempDir(), "s"))
	options := idempotency(st)
	options.TTL, options.Lease = 50*time.Millisecond, time.Hour
	caller := &counting{wait: make(chan struct{})}
	answered := make(chan *httptest.ResponseRecorder)
	go func() {
		answered <- question{body: addOnce}.ask(t.Context(), New(Options{Idempotency: options}), calculator(), caller)
	}()
	var keys []string
	for len(keys) == 0 {
		keys, _ = st.Keys(t.Context(), recordPrefix, "", 10)
	}
	held, err := st.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*options.TTL)
	defer cancel()
	if _, err := st.Wait(ctx, keys[0], held.Value); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the call runs its record ends: %v", err)
	}
	close(caller.wait)
	<-answered
}

// TestOnce_the_key_is_put_back where the store has lost it, so that who comes later
// finds the records of before.
func TestOnce_the_key_is_put_back(t *testing.T) {
	st := openBolt(t, filepath.Join(t.TempDir(), "s"))
	caller := new(counting)
	first := New(Options{Idempotency: idempotency(st)})
	question{body: addOnce}.ask(t.Context(), first, calculator(), caller)
	if err := st.Delete(t.Context(), keyAt); err != nil {
		t.Fatal(err)
	}
	first.records.keys.current.Load().loaded = time.Now().Add(-keyRefreshed)
	for _, s := range []*Server{first, New(Options{Idempotency: idempotency(st)})} {
		got := question{body: addOnce}.ask(t.Context(), s, calculator(), caller)
		if caller.calls.Load() != 1 || got.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("ran %d times: %s", caller.calls.Load(), got.Body)
		}
	}
}

// TestRecord_that_is_not_sound is none: it cannot be answered with.
func TestRecord_that_is_not_sound(t *testing.T) {
	for _, r := range []record{{state: 'x', status: 200}, {state: recordDone}, {state: recordDone, status: 99}, {state: recordUnkept, status: 6000}} {
		if _, ok := decodeRecord(r.encode()); ok {
			t.Errorf("%c with status %d is a record", r.state, r.status)
		}
	}
	if _, ok := decodeRecord((&record{state: recordBegun}).encode()); !ok {
		t.Error("a call that has begun has no record")
	}
}

// TestCall_two_members_of_one_name says so, and not what they are.
func TestCall_two_members_of_one_name(t *testing.T) {
	got := post(t, New(Options{}), calculator(), nil, `{"tool_id":"Calculator.Add","context":{"S3cret":1,"S3cret":2}}`)
	if text := got.Body.String(); got.Code != 400 || !strings.Contains(text, "two members of one name") || strings.Contains(text, "S3cret") {
		t.Errorf("%d %s", got.Code, text)
	}
}
