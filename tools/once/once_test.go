package once

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/store/lease"
	"github.com/fairwayhq/fairway/tools"
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

// slowCall ends when it is released.
type slowCall struct {
	Call
	begun, release chan struct{}
}

func (c *slowCall) Identity(*keyedhash.Key) (string, keyedhash.Digest) {
	return "k", keyedhash.Digest{}
}
func (c *slowCall) Idempotent() bool        { return false }
func (c *slowCall) ReadOnly() bool          { return false }
func (c *slowCall) Owner() store.Owner      { return "" }
func (c *slowCall) Convert(b []byte) []byte { return b }

func (c *slowCall) Run(_ context.Context, reserved int) Response {
	close(c.begun)
	<-c.release
	return Response{Status: 200, Body: append(make([]byte, reserved), '1')}
}

// TestDo_waits_no_longer_than_its_limit for a call of this node, and for one of another node.
func TestDo_waits_no_longer_than_its_limit(t *testing.T) {
	st := openBolt(t)
	options := Options{Open: func(context.Context) (store.Store, error) { return st, nil }, Wait: 100 * time.Millisecond}
	one, another := New(options), New(options)
	c := &slowCall{begun: make(chan struct{}), release: make(chan struct{})}
	first := make(chan Outcome, 1)
	go func() {
		_, outcome := one.Do(t.Context(), c)
		first <- outcome
	}()
	<-c.begun
	for name, r := range map[string]*Records{"this": one, "another": another} {
		if _, outcome := r.Do(t.Context(), c); outcome != InFlight {
			t.Errorf("%s node: outcome %d, want InFlight", name, outcome)
		}
	}
	close(c.release)
	if outcome := <-first; outcome != Ran {
		t.Errorf("outcome %d, want Ran", outcome)
	}
	for name, r := range map[string]*Records{"this": one, "another": another} {
		if response, outcome := r.Do(t.Context(), c); outcome != Replayed || string(response.Body) != "1" {
			t.Errorf("%s node: outcome %d with %q", name, outcome, response.Body)
		}
	}
}

// TestConclude_stores_what_happened_after_the_API_was_called, and nothing before.
func TestConclude_stores_what_happened_after_the_API_was_called(t *testing.T) {
	post, put := &tools.Tool{Plan: tools.Plan{Method: "POST"}}, &tools.Tool{Plan: tools.Plan{Method: "PUT"}}
	for name, c := range map[string]struct {
		failure *tools.Failure
		tool    *tools.Tool
		apiKey  string
		again   bool
		key     bool // in the message
	}{
		"success":                     {nil, post, "", false, false},
		"invalid arguments":           {&tools.Failure{Kind: tools.InvalidArguments}, post, "", true, false},
		"scopes":                      {&tools.Failure{Kind: tools.Unauthorized}, post, "", true, false},
		"denied by the guard":         {&tools.Failure{Kind: tools.Restricted}, post, "", true, false},
		"no credential":               {&tools.Failure{Kind: tools.Unreachable, Unsent: true}, post, "", true, false},
		"result withheld":             {&tools.Failure{Kind: tools.Restricted, Made: true}, post, "", false, false},
		"waits for a review":          {&tools.Failure{Kind: tools.Restricted, RetryAfter: time.Second}, post, "", true, false},
		"refused":                     {&tools.Failure{Kind: tools.Refused, Status: 409}, post, "", false, false},
		"rate limit":                  {&tools.Failure{Kind: tools.Refused, Status: 429}, post, "", true, true},
		"not available":               {&tools.Failure{Kind: tools.Failed, Status: 503}, post, "", true, true},
		"failed":                      {&tools.Failure{Kind: tools.Failed, Status: 500}, post, "", false, false},
		"timeout":                     {&tools.Failure{Kind: tools.TimedOut}, post, "", false, true},
		"connection lost":             {&tools.Failure{Kind: tools.Unreachable}, post, "", false, true},
		"timeout, the API has a key":  {&tools.Failure{Kind: tools.TimedOut}, post, "k", true, true},
		"timeout of a PUT":            {&tools.Failure{Kind: tools.TimedOut}, put, "", true, true},
		"reached a broken document":   {&tools.Failure{Kind: tools.Unreadable}, post, "", false, false},
		"failed inside the gateway":   {&tools.Failure{Kind: tools.Internal}, post, "", false, false},
		"connection lost, API's key":  {&tools.Failure{Kind: tools.Unreachable}, post, "k", true, true},
		"unknown tool at the gateway": {&tools.Failure{Kind: tools.UnknownTool}, nil, "", true, false},
	} {
		outcome := tools.Outcome{Tool: c.tool, Failure: c.failure}
		again := (&Request{Key: "the-key", apiKey: c.apiKey}).Conclude(&outcome)
		if has := strings.Contains(outcome.Failure.Reason(), `"the-key"`); again != c.again || has != c.key {
			t.Errorf("%s: again %t, want %t; %q", name, again, c.again, outcome.Failure.Reason())
		}
		if c.failure != nil && c.failure.Message != "" {
			t.Errorf("%s: the failure of the caller has changed to %q", name, c.failure.Message)
		}
	}
}

// TestTakeKey has the forms in which models write a key.
func TestTakeKey(t *testing.T) {
	takes := &tools.Tool{Definition: tools.Definition{TakesKey: true}}
	for value, want := range map[string][]string{`"k1"`: {"k1"}, `17`: {"17"}, `null`: nil, `{}`: {""}} {
		arguments := []byte(`{"name":"a","idempotency_key":` + value + `}`)
		if got := TakeKey(takes, nil, &arguments); !slices.Equal(got, want) || string(arguments) != `{"name":"a"}` {
			t.Errorf("%s: got %q, %s; want %q", value, got, arguments, want)
		}
	}
}
