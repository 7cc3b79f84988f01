package task

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

var ann, bob = Owner{"user", "ann"}, Owner{"user", "bob"}

// openStore returns a store, and options that use it.
func openStore(t *testing.T) (store.Store, Options) {
	t.Helper()
	st, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st, Options{Open: func(context.Context) (store.Store, error) { return st, nil }}
}

// create creates a task that runs.
func create(t *testing.T, tasks *Tasks, owner Owner, ttl time.Duration) *Record {
	t.Helper()
	r := &Record{Status: Working, Tool: "book"}
	if err := tasks.Create(t.Context(), owner, "", r, ttl); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTasks_only_the_owner_finds_a_task(t *testing.T) {
	_, options := openStore(t)
	node, other := New(options), New(options)
	options.Endpoint = "/other"
	elsewhere := New(options)
	r := create(t, node, ann, 0)
	if got, err := other.Get(t.Context(), ann, r.ID); err != nil || got.Tool != "book" {
		t.Errorf("another node: got %+v, error %v", got, err)
	}
	for name, get := range map[string]func() error{
		"another user":     func() error { _, err := node.Get(t.Context(), bob, r.ID); return err },
		"joined fields":    func() error { _, err := node.Get(t.Context(), Owner{"userann"}, r.ID); return err },
		"another endpoint": func() error { _, err := elsewhere.Get(t.Context(), ann, r.ID); return err },
		"no id":            func() error { _, err := node.Get(t.Context(), ann, ""); return err },
		"an id that is long": func() error {
			_, err := node.Get(t.Context(), ann, strings.Repeat("a", maxIDSize+1))
			return err
		},
		"a change by another user": func() error {
			_, err := node.Change(t.Context(), bob, r.ID, func(r *Record) error { r.End(Cancelled, ""); return nil })
			return err
		},
	} {
		if err := get(); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: error %v, want ErrUnknown", name, err)
		}
	}
	for owner, want := range map[*Owner]int{&ann: 1, &bob: 0} {
		if list, err := other.List(t.Context(), *owner); err != nil || len(list) != want {
			t.Errorf("%v has %d tasks, error %v, want %d", *owner, len(list), err, want)
		}
	}
}

func TestTasks_expire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, options := openStore(t)
		options.TTL = time.Hour
		tasks := New(options)
		short, long := create(t, tasks, ann, time.Minute), create(t, tasks, ann, 24*time.Hour)
		time.Sleep(time.Minute)
		if _, err := tasks.Get(t.Context(), ann, short.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("after the time that the client has asked for: error %v", err)
		}
		if list, err := tasks.List(t.Context(), ann); err != nil || len(list) != 1 || list[0].ID != long.ID {
			t.Errorf("list %+v, error %v", list, err)
		}
		// A change does not prolong the life of a task.
		if _, err := tasks.Change(t.Context(), ann, long.ID, func(r *Record) error { r.End(Completed, ""); return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Minute)
		if _, err := tasks.Get(t.Context(), ann, long.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("after the maximum: error %v", err)
		}
	})
}

func TestCreate_limits_the_tasks_of_an_owner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, options := openStore(t)
		tasks := New(options)
		for range maxOwned {
			create(t, tasks, ann, time.Minute)
		}
		if err := tasks.Create(t.Context(), ann, "", new(Record), 0); !errors.Is(err, ErrFull) {
			t.Errorf("error %v, want ErrFull", err)
		}
		create(t, tasks, bob, 0)
		time.Sleep(time.Minute)
		create(t, tasks, ann, 0) // the others have expired
	})
}

func TestCreate_limits_the_size_of_a_task(t *testing.T) {
	_, options := openStore(t)
	tasks := New(options)
	for name, r := range map[string]*Record{
		"arguments": {Arguments: strings.Repeat("a", 2*MaxArguments+1)},
		"meta":      {Meta: jsontext.Value(`"` + strings.Repeat("a", maxMeta) + `"`)},
		"state":     {Inputs: Inputs{State: strings.Repeat("a", maxState+1)}},
	} {
		if err := tasks.Create(t.Context(), ann, "", r, 0); !errors.Is(err, ErrTooLarge) || !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%s: error %v, want ErrTooLarge", name, err)
		}
	}
	r := create(t, tasks, ann, 0)
	_, err := tasks.Change(t.Context(), ann, r.ID, func(r *Record) error {
		r.Result = jsontext.Value(`"` + strings.Repeat("a", MaxResult) + `"`)
		return nil
	})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("result: error %v, want ErrTooLarge", err)
	}
}

func TestChange_sets_the_time_only_if_clients_see_a_difference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, options := openStore(t)
		tasks := New(options)
		created := create(t, tasks, ann, 0)
		failed := errors.New("no")
		for i, c := range []struct {
			rule    string
			change  func(*Record) error
			err     error
			updated bool
		}{
			{"lease", func(r *Record) error { r.Lease.Token = "x"; return nil }, nil, false},
			{"message", func(r *Record) error { r.Message = "half"; return nil }, nil, true},
			{"nothing", func(r *Record) error { r.Message = "lost"; return ErrUnchanged }, nil, false},
			{"error", func(r *Record) error { r.Message = "lost"; return failed }, failed, false},
			{"status", func(r *Record) error { r.End(Failed, "half"); return nil }, nil, true},
		} {
			time.Sleep(time.Second)
			before, err := tasks.Get(t.Context(), ann, created.ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tasks.Change(t.Context(), ann, created.ID, c.change); !errors.Is(err, c.err) {
				t.Errorf("%s: error %v, want %v", c.rule, err, c.err)
			}
			after, err := tasks.Get(t.Context(), ann, created.ID)
			if err != nil || after.Message == "lost" || !after.Updated.Equal(before.Updated) != c.updated {
				t.Errorf("%d %s: error %v, message %q, updated %s and before %s", i, c.rule, err, after.Message, after.Updated, before.Updated)
			}
		}
	})
}

func TestWait_returns_after_a_change_and_in_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, options := openStore(t)
		tasks := New(options)
		seen := create(t, tasks, ann, 0)
		began := time.Now()
		if r, err := tasks.Wait(t.Context(), ann, seen, began.Add(time.Minute)); err != nil || r.Status != Working || time.Since(began) != time.Minute {
			t.Errorf("nothing changes: got %+v, error %v, after %s", r, err, time.Since(began))
		}
		changed := make(chan *Record)
		go func() {
			r, err := tasks.Wait(t.Context(), ann, seen, time.Now().Add(time.Minute))
			if err != nil {
				t.Error(err)
			}
			changed <- r
		}()
		synctest.Wait()
		if _, err := tasks.Change(t.Context(), ann, seen.ID, func(r *Record) error { r.End(Completed, ""); return nil }); err != nil {
			t.Fatal(err)
		}
		if r := <-changed; r == nil || r.Status != Completed {
			t.Errorf("the task completes: got %+v", r)
		}
		if r, err := tasks.Wait(t.Context(), ann, seen, time.Now().Add(time.Minute)); err != nil || r.Status != Completed {
			t.Errorf("it has completed: got %+v, error %v", r, err)
		}
	})
}

// The keys of requests are unique in a task, although an API uses the same ones in each round.
func TestRecord_takes_responses_to_outstanding_requests_only(t *testing.T) {
	r := &Record{Status: Working}
	if r.Respond(jsontext.Value(`{"1.a":1}`)) {
		t.Error("a task that asks for nothing takes a response")
	}
	r.Ask(jsontext.Value(`{"a":{"n":1},"b":{"n":2}}`), "state one")
	if got := string(r.Requests); got != `{"1.a":{"n":1},"1.b":{"n":2}}` || r.Status != InputRequired {
		t.Errorf("status %s, requests %s", r.Status, got)
	}
	for _, responses := range []string{`{"a":1}`, `{"2.a":1}`, `{"1.c":1}`, `{}`} {
		if r.Respond(jsontext.Value(responses)) {
			t.Errorf("%s is taken", responses)
		}
	}
	if !r.Respond(jsontext.Value(`{"1.b":"yes","1.c":1}`)) || r.Status != InputRequired || string(r.Requests) != `{"1.a":{"n":1}}` {
		t.Errorf("after the first response: status %s, requests %s", r.Status, r.Requests)
	}
	if !r.Respond(jsontext.Value(`{"1.b":"no","1.a":{"x":[1]}}`)) || r.Status != Working || string(r.Responses) != `{"b":"yes","a":{"x":[1]}}` {
		t.Errorf("after the last response: status %s, responses %s", r.Status, r.Responses)
	}
	r.Ask(jsontext.Value(`{"a":{}}`), "state two")
	if r.Respond(jsontext.Value(`{"1.a":"of before"}`)) || !r.Respond(jsontext.Value(`{"2.a":"now"}`)) || string(r.Responses) != `{"a":"now"}` {
		t.Errorf("in the second round: responses %s", r.Responses)
	}
}

func TestRecord_has_the_form_of_each_revision(t *testing.T) {
	created := time.Date(2026, 7, 28, 1, 2, 3, 4e6, time.UTC)
	r := &Record{ID: "t1", Status: Completed, IsError: true, Created: created, Updated: created.Add(time.Second), Expires: created.Add(time.Minute), Result: jsontext.Value(`{"_meta":{"a":1},"content":[]}`)}
	const times = `,"createdAt":"2026-07-28T01:02:03.004Z","lastUpdatedAt":"2026-07-28T01:02:04.004Z"`
	for _, c := range []struct{ rule, got, want string }{
		{"2025-11-25 reports a tool's error as a failure", string(r.AppendTask(nil, false)), `"taskId":"t1","status":"failed"` + times + `,"ttl":60000,"pollInterval":1000`},
		{"2026-07-28 does not", string(r.AppendTask(nil, true)), `"taskId":"t1","status":"completed"` + times + `,"ttlMs":60000,"pollIntervalMs":1000`},
		{"the result is one of the details", string(r.AppendDetails(nil)), string(r.AppendTask(nil, true)) + `,"result":{"_meta":{"a":1},"content":[]}`},
		{"a result names its task", string(r.RelatedResult()), `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"},"a":1},"content":[]`},
	} {
		if c.got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.rule, c.got, c.want)
		}
	}
	r.Message = strings.Repeat("ü", maxMessage)
	if got := len(r.AppendTask(nil, true)); got > 2*maxMessage {
		t.Errorf("a long message makes %d bytes", got)
	}
}

func TestRecord_End_keeps_no_inputs(t *testing.T) {
	r := &Record{Status: Working, Arguments: "sealed", Meta: jsontext.Value(`{}`), Inputs: Inputs{Requests: jsontext.Value(`{}`), Responses: jsontext.Value(`{}`), State: "sealed"}}
	r.Lease.Token = "x"
	r.End(Cancelled, "by the client")
	if got := fmt.Sprint(r.Arguments, string(r.Meta), string(r.Requests), string(r.Responses), r.State, r.Lease.Token); got != "" || !r.Status.Final() {
		t.Errorf("status %s, inputs %q", r.Status, got)
	}
}
