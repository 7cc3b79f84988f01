package calllog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

func all(*Call) bool { return true }

// TestLog_records_only_while_someone_looks follows a Log from its first reader to its last.
func TestLog_records_only_while_someone_looks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("a")
		defer l.Close()
		if l.Look(); l.Active().Load() != nil {
			t.Error("a Log without readers records")
		}
		closed := l.Open(Options{})
		if l.Active().Load() == nil {
			t.Error("a Log does not record, although someone has looked")
		}
		time.Sleep(Lifetime + time.Second)
		if synctest.Wait(); l.Active().Load() != nil {
			t.Error("a Log still records, although no one has looked for a while")
		}
		if l.Look(); l.Active().Load() == nil {
			t.Error("a second look does not start the recording")
		}
		always := l.Open(Options{Always: true})
		time.Sleep(2 * Lifetime)
		if synctest.Wait(); l.Active().Load() == nil {
			t.Error("a Log with a reader that wants it always does not record")
		}
		if always(); l.Active().Load() != nil {
			t.Error("a Log records without need")
		}
		if closed(); l.Active().Load() != nil {
			t.Error("a Log without readers records")
		}
	})
}

func TestLog_nil_records_nothing(t *testing.T) {
	var l *Log
	if l.Active().Load() != nil {
		t.Error("a nil Log records")
	}
}

// TestRecorder_keeps_the_newest_calls also checks the order and the limit of Recent.
func TestRecorder_keeps_the_newest_calls(t *testing.T) {
	l := New("a")
	defer l.Open(Options{Always: true})()
	for i := range MaxCalls + 5 {
		l.Active().Load().Record(&Call{Tool: fmt.Sprint(i % 2)}, nil)
	}
	calls := l.Recent(t.Context(), 2*MaxCalls, all)
	if len(calls) != MaxCalls || calls[0].Number != MaxCalls+5 || calls[MaxCalls-1].Number != 6 {
		t.Errorf("got %d calls from %d to %d", len(calls), calls[0].Number, calls[len(calls)-1].Number)
	}
	calls = l.Recent(t.Context(), 3, func(c *Call) bool { return c.Tool == "1" })
	if len(calls) != 3 || calls[0].Number != MaxCalls+4 || calls[2].Number != MaxCalls {
		t.Errorf("got %+v", calls)
	}
}

// TestRecorder_shows_calls_in_progress follows calls from Begin to Record.
func TestRecorder_shows_calls_in_progress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("a")
		defer l.Close()
		defer l.Open(Options{Always: true, Arguments: []string{"id"}})()
		first, second := Call{Tool: "first", User: "ada"}, Call{Tool: "second"}
		l.Active().Load().Begin(&first, []byte(`{"id":7,"secret":"hunter2"}`))
		time.Sleep(time.Second)
		l.Active().Load().Begin(&second, nil)
		running := l.Running(t.Context(), 10, all)
		if len(running) != 2 || running[0].Tool != "second" || running[1].Tool != "first" {
			t.Fatalf("in progress: %+v", running)
		}
		if got := running[1]; got.User != "ada" || got.Node != "a" || string(got.Arguments) != `{"id":7}` || got.Took != 1000 || !got.Ended.IsZero() {
			t.Errorf("got %+v", got)
		}
		if calls := l.Recent(t.Context(), 10, all); len(calls) != 0 {
			t.Errorf("calls in progress are listed as ended: %+v", calls)
		}
		if got := l.Running(t.Context(), 1, func(c *Call) bool { return c.User == "ada" }); len(got) != 1 || got[0].Tool != "first" {
			t.Errorf("calls of ada: %+v", got)
		}
		first.Outcome = "ok"
		l.Active().Load().Record(&first, nil)
		if running = l.Running(t.Context(), 10, all); len(running) != 1 || running[0].Tool != "second" {
			t.Errorf("in progress after the first has ended: %+v", running)
		}
		calls := l.Recent(t.Context(), 10, all)
		if len(calls) != 1 || calls[0].Tool != "first" || string(calls[0].Arguments) != `{"id":7}` || calls[0].Ended.Sub(calls[0].Began) != time.Second {
			t.Errorf("ended: %+v", calls)
		}
	})
}

// TestRecorder_limits_calls_in_progress begins more calls than a node shows. All of them are recorded when
// they end.
func TestRecorder_limits_calls_in_progress(t *testing.T) {
	l := New("a")
	defer l.Open(Options{Always: true})()
	r := l.Active().Load()
	for range 2 {
		var calls [MaxRunning + 3]Call
		for i := range calls {
			r.Begin(&calls[i], nil)
		}
		if got := len(l.Running(t.Context(), 2*MaxRunning, all)); got != MaxRunning {
			t.Errorf("%d calls are in progress, want %d", got, MaxRunning)
		}
		for i := range calls {
			r.Record(&calls[i], nil)
		}
		if got := len(l.Running(t.Context(), 2*MaxRunning, all)); got != 0 {
			t.Errorf("%d calls are in progress, want none", got)
		}
	}
	if got := len(l.Recent(t.Context(), MaxCalls, all)); got != 2*(MaxRunning+3) {
		t.Errorf("%d calls are recorded, want %d", got, 2*(MaxRunning+3))
	}
}

func TestRecorder_keeps_allowed_arguments_only(t *testing.T) {
	l := New("a")
	defer l.Open(Options{Always: true, Arguments: []string{"id", "text"}})()
	large := strings.Repeat("x", MaxArguments)
	for arguments, want := range map[string]string{
		`{"id":7,"secret":"hunter2"}`:       `{"id":7}`,
		`{"secret":"hunter2"}`:              ``,
		`{"text":"` + large + `","id":1}`:   `{"text":"…","id":1}`,
		`{"id":{"secret":[1,2]},"id2":"x"}`: `{"id":{"secret":[1,2]}}`,
		`["id"]`:                            ``,
		`{"id":`:                            ``,
		``:                                  ``,
		"{\"i\\u0064\": \"a\"}":             `{"i\u0064":"a"}`,
		`{"text":"` + large[:800] + `","id":"` + large[:800] + `"}`: `{"text":"` + large[:800] + `","id":"…"}`,
	} {
		var call Call
		l.Active().Load().Record(&call, []byte(arguments))
		if got := string(call.Arguments); got != want {
			t.Errorf("%.60s: got %.80s, want %.80s", arguments, got, want)
		}
	}
	if got := string(Choose([]byte(`{"id":7,"text":"a"}`), []string{"id"})); got != `{"id":7}` {
		t.Errorf("Choose: got %s", got)
	}
}

// TestRecorder_shortens_long_users checks that no user has the shortened name of another one.
func TestRecorder_shortens_long_users(t *testing.T) {
	l := New("a")
	defer l.Open(Options{Always: true})()
	long := strings.Repeat("a", 2*maxText)
	call := Call{User: long}
	l.Active().Load().Record(&call, nil)
	if len(call.User) > maxText || strings.HasPrefix(long, call.User) {
		t.Errorf("got %q", call.User)
	}
}

// twoNodes returns two Logs that share a Redis server.
func twoNodes(t *testing.T) (a, b *Log) {
	t.Helper()
	address, _ := storetest.Redis(t)
	records, err := redis.Open(address, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	logs := [2]*Log{New("a"), New("b")}
	for _, l := range logs {
		// Not by Share: the test makes the steps itself.
		l.share = &sharing{log: l, open: func(context.Context) (store.Store, error) { return records, nil }, stop: func() {}}
		t.Cleanup(l.Open(Options{}))
	}
	return logs[0], logs[1]
}

// TestShare_shows_the_calls_of_all_nodes looks at node a and calls a tool on node b.
func TestShare_shows_the_calls_of_all_nodes(t *testing.T) {
	a, b := twoNodes(t)
	now := time.Now()
	step := func(l *Log) {
		t.Helper()
		if err := l.share.step(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if step(b); b.Active().Load() != nil {
		t.Error("node b records, although no one looks")
	}
	a.Look()
	step(a)
	now = now.Add(pollInterval)
	if step(b); b.Active().Load() == nil {
		t.Fatal("node b does not record, although someone looks at node a")
	}
	b.Active().Load().Record(&Call{Tool: "of_b"}, nil)
	a.Active().Load().Record(&Call{Tool: "of_a"}, nil)
	running := Call{Tool: "running_at_b"}
	b.Active().Load().Begin(&running, nil)
	step(b)
	now = now.Add(pollInterval)
	step(a)
	calls := a.Recent(t.Context(), 10, all)
	if len(calls) != 2 || calls[0].Tool != "of_a" || calls[1].Tool != "of_b" || calls[1].Node != "b" {
		t.Errorf("got %+v", calls)
	}
	if calls := a.Running(t.Context(), 10, all); len(calls) != 1 || calls[0].Tool != "running_at_b" || calls[0].Node != "b" {
		t.Errorf("in progress: %+v", calls)
	}
}

// BenchmarkRecorder measures what a call pays for the log: one load while no one looks, and both records of
// the call otherwise.
func BenchmarkRecorder(b *testing.B) {
	for name, always := range map[string]bool{"unwatched": false, "watched": true} {
		b.Run(name, func(b *testing.B) {
			l := New("a")
			defer l.Open(Options{Always: always})()
			b.ReportAllocs()
			for b.Loop() {
				if r := l.Active().Load(); r != nil {
					call := Call{Tool: "get_trip", Toolset: "trips", Protocol: "mcp"}
					r.Begin(&call, nil)
					call.Outcome = "ok"
					r.Record(&call, nil)
				}
			}
		})
	}
}
