package otcadapter

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdempotency_a_record_outlives_its_call keeps the record of a call that takes longer
// than records are kept: another node would run the call too.
func TestIdempotency_a_record_outlives_its_call(t *testing.T) {
	st := openBolt(t, filepath.Join(t.TempDir(), "s"))
	options := recordIn(st)
	options.TTL, options.Lease = 50*time.Millisecond, time.Hour
	caller := &counting{wait: make(chan struct{})}
	answered := make(chan *httptest.ResponseRecorder)
	go func() {
		answered <- question{body: addWithID}.ask(t.Context(), New(Options{Idempotency: options}), calculator(), caller)
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

// TestIdempotency_the_key_is_put_back where the store has lost it, so that later requests find
// the earlier records.
func TestIdempotency_the_key_is_put_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openBolt(t, filepath.Join(t.TempDir(), "s"))
		caller := new(counting)
		first := New(Options{Idempotency: recordIn(st)})
		question{body: addWithID}.ask(t.Context(), first, calculator(), caller)
		if err := st.Delete(t.Context(), "otc/key"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the server reads its key again
		for _, s := range []*Server{first, New(Options{Idempotency: recordIn(st)})} {
			got := question{body: addWithID}.ask(t.Context(), s, calculator(), caller)
			if caller.calls.Load() != 1 || got.Header().Get("Idempotent-Replayed") != "true" {
				t.Errorf("ran %d times: %s", caller.calls.Load(), got.Body)
			}
		}
	})
}

// TestCall_two_members_of_one_name says so, and not what they are.
func TestCall_two_members_of_one_name(t *testing.T) {
	got := post(t, New(Options{}), calculator(), nil, `{"tool_id":"Calculator.Add","context":{"S3cret":1,"S3cret":2}}`)
	if text := got.Body.String(); got.Code != 400 || !strings.Contains(text, "duplicate") || strings.Contains(text, "S3cret") {
		t.Errorf("%d %s", got.Code, text)
	}
}
