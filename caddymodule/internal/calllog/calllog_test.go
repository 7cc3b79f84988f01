package calllog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
	"github.com/fairwayhq/fairway/tools/callid"
)

func all(*Call) bool { return true }

// openFile returns a store in a file of the test.
func openFile(t testing.TB) store.Store {
	t.Helper()
	records, err := embedded.Open(filepath.Join(t.TempDir(), "store.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	return records
}

// node returns the Log of a node that records. Its keeper has no goroutine: the test makes the steps itself.
func node(name string, records store.Store, options Options) *Log {
	l := New(name, func(context.Context) (store.Store, error) {
		if records == nil {
			return nil, errors.New("the store is down")
		}
		return records, nil
	}, false)
	options.Succeeded = func(outcome string) bool { return outcome == "ok" }
	options.Keep, options.MaxSize = max(options.Keep, caddy.Duration(time.Hour)), max(options.MaxSize, defaultMaxSize)
	l.all.options.Store(&options)
	l.recorder.Store(&l.all)
	return l
}

// record records a call that has ended.
func (l *Log) record(call Call) Call {
	l.Active().Record(&call, nil, nil)
	return call
}

// findAll returns the calls of all pages.
func findAll(t *testing.T, l *Log, q Query) (calls []Call) {
	t.Helper()
	for range 10_000 {
		found, err := l.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if calls = append(calls, found.Calls...); found.Next == "" {
			return calls
		}
		q.Cursor = found.Next
	}
	t.Fatal("the pages have no end")
	return nil
}

// ids returns the ids of calls.
func ids(calls []Call) []string {
	list := make([]string, len(calls))
	for i := range calls {
		list[i] = calls[i].ID
	}
	return list
}

// TestLog_keeps_all_calls_across_a_restart records calls on two nodes that write at different times.
func TestLog_keeps_all_calls_across_a_restart(t *testing.T) {
	records := openFile(t)
	a, b := node("a", records, Options{}), node("b.example.com", records, Options{})
	var want []string
	for i := range 2*blockCalls + 300 {
		l := a
		if i%3 == 0 {
			l = b
		}
		want = append(want, fmt.Sprintf("%s.%d", l.all.node, l.record(Call{Tool: "get", Reason: fmt.Sprint(i)}).Number))
		if i%97 == 0 {
			a.keeper.step()
		}
		if i%411 == 0 {
			b.keeper.step()
		}
	}
	a.keeper.step()
	got := findAll(t, b, Query{Limit: 100}) // with those that b has not written
	if len(got) != len(want) {
		t.Fatalf("found %d calls, want %d", len(got), len(want))
	}
	if !slices.IsSortedFunc(got, func(a, b Call) int { return b.Ended.Compare(a.Ended) }) {
		t.Error("the calls are not ordered by their end")
	}
	b.keeper.step()
	again := ids(findAll(t, node("c", records, Options{}), Query{Limit: 333}))
	if !slices.Equal(again, ids(got)) {
		t.Error("after a restart the calls differ")
	}
	slices.Sort(again)
	slices.Sort(want)
	if !slices.Equal(again, want) {
		t.Error("calls are missing or twice in the list")
	}
	for _, id := range []string{want[0], want[len(want)/2], want[len(want)-1]} {
		if call, err := b.Get(t.Context(), id); err != nil || call.ID != id {
			t.Errorf("Get(%s) = %s, %v", id, call.ID, err)
		}
	}
	for _, id := range []string{"", "a", "a.0", "a.x", "a.99999", "unknown.1", strings.Repeat("a", 2000) + ".1"} {
		if _, err := b.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get(%.20q) = %v, want ErrNotFound", id, err)
		}
	}
}

// TestFind_filters checks each filter on calls in the store, and on calls that wait for it.
func TestFind_filters(t *testing.T) {
	l := node("web-1", openFile(t), Options{})
	ada, unknown := "ada", ""
	l.record(Call{Site: "a", Tool: "repos_get", Toolset: "hub", Protocol: "mcp", Outcome: "ok", User: "ada", Agent: "clerk", Trace: "0123456789abcdef", Engagement: "e1e1e1e1e1"})
	l.all.latest = l.all.latest.Add(time.Millisecond) // calls end at different times
	middle := l.record(Call{Site: "a", Tool: "repos_list", Toolset: "hub", Protocol: "otc", Outcome: "refused", User: "", Reason: "the Repository \"x\" does not exist", Trace: "01234567ffff"})
	l.all.latest = l.all.latest.Add(time.Millisecond) // calls end at different times
	l.record(Call{Site: "b", Tool: "issues_get", Toolset: "tracker", Protocol: "mcp", Outcome: "invalid", User: "adam", Trace: "ffff"})
	for _, test := range []struct {
		query Query
		want  string // tools, newest first
	}{
		{Query{}, "issues_get repos_list repos_get"},
		{Query{Site: "a"}, "repos_list repos_get"},
		{Query{Owner: &ada}, "repos_get"},
		{Query{Owner: &unknown}, "repos_list"},
		{Query{Match: map[string]string{"tool": "repos"}}, "repos_list repos_get"},
		{Query{Match: map[string]string{"user": "ad"}}, "issues_get repos_get"},
		{Query{Match: map[string]string{"user": Anonymous}}, "repos_list"},
		{Query{Match: map[string]string{"outcome": "refused"}}, "repos_list"},
		{Query{Match: map[string]string{"outcome": "ref"}}, ""},
		{Query{Match: map[string]string{"protocol": "mcp", "toolset": "hub"}}, "repos_get"},
		{Query{Match: map[string]string{"agent": "cl"}}, "repos_get"},
		{Query{Match: map[string]string{"node": "web"}}, "issues_get repos_list repos_get"},
		{Query{Match: map[string]string{"node": "x"}}, ""},
		{Query{Match: map[string]string{"trace": "0123"}}, "repos_list repos_get"},
		{Query{Match: map[string]string{"trace": "0123456789"}}, "repos_get"},
		{Query{Match: map[string]string{"engagement": "e1e1e1e1e1"}}, "repos_get"},
		{Query{Text: "REPOSITORY \"X"}, ""}, // JSON escapes quotation marks: the search is for parts without them
		{Query{Text: "the repository"}, "repos_list"},
		{Query{Text: "outcome"}, ""}, // the name of a member
		{Query{From: middle.Ended}, "issues_get repos_list"},
		{Query{To: middle.Ended}, "repos_list repos_get"},
		{Query{From: middle.Ended, To: middle.Ended}, "repos_list"},
		{Query{Limit: 2}, "issues_get repos_list"},
	} {
		test.query.Limit = max(test.query.Limit, 1)
		if test.query.Limit == 1 {
			test.query.Limit = 10
		}
		for _, from := range []string{"waiting", "stored"} {
			if from == "stored" {
				l.keeper.step()
			}
			found, err := l.Find(t.Context(), test.query)
			var tools []string
			for _, call := range found.Calls {
				tools = append(tools, call.Tool)
			}
			if got := strings.Join(tools, " "); err != nil || got != test.want {
				t.Errorf("%+v, %s: got %q, %v; want %q", test.query, from, got, err, test.want)
			}
		}
	}
	for _, cursor := range []string{"x", "!.a.1", "1.a", "1.a.x", strings.Repeat("1", 1000) + ".a.1"} {
		if _, err := l.Find(t.Context(), Query{Cursor: cursor}); !errors.Is(err, errCursor) {
			t.Errorf("cursor %.10q: %v", cursor, err)
		}
	}
}

// TestKeeper_writes_later_what_the_store_refuses also checks that the calls that wait are bounded.
// TestFind_by_id finds a call by its id: a quick one, one that took longer than an hour, and one that an older version kept without an id.
func TestFind_by_id(t *testing.T) {
	l := node("web-1", openFile(t), Options{})
	quick, long := callid.New(), callid.New()
	copy(long[:], "1k0") // of an earlier month
	l.record(Call{ID: quick.String(), Tool: "quick", User: "ada"})
	l.record(Call{ID: long.String(), Tool: "long"})
	old := l.record(Call{Tool: "old"})
	for _, from := range []string{"waiting", "stored"} {
		if from == "stored" {
			l.keeper.step()
		}
		for id, want := range map[string]string{quick.String(): "quick", long.String(): "long", fmt.Sprintf("web-1.%d", old.Number): "old"} {
			if call, err := l.Get(t.Context(), id); err != nil || call.Tool != want || call.ID != id {
				t.Errorf("%s: Get(%s) = %s of %s, %v; want %s", from, id, call.ID, call.Tool, err, want)
			}
			for _, q := range []Query{{Match: map[string]string{"id": id}, Limit: 10}, {Text: id, Limit: 10}} {
				if found, err := l.Find(t.Context(), q); want != "old" && (err != nil || len(found.Calls) != 1 || found.Calls[0].Tool != want) {
					t.Errorf("%s: %+v finds %+v, %v; want %s", from, q, found.Calls, err, want)
				}
			}
		}
		if found, err := l.Find(t.Context(), Query{Match: map[string]string{"id": quick.String(), "user": "eve"}, Limit: 10}); err != nil || len(found.Calls) != 0 {
			t.Errorf("%s: the id with the filter of another user finds %+v, %v; want nothing", from, found.Calls, err)
		}
		if _, err := l.Get(t.Context(), callid.New().String()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: an id of no call: %v, want ErrNotFound", from, err)
		}
	}
}

func TestKeeper_writes_later_what_the_store_refuses(t *testing.T) {
	var dropped int64
	failures := 0
	l := node("a", nil, Options{Dropped: func(n int64) { dropped += n }, Failed: func(error) { failures++ }})
	for range maxPending/2 + 10 {
		l.record(Call{Tool: "early"})
	}
	l.keeper.step()
	for range maxPending + 7 {
		l.record(Call{Tool: "late"})
	}
	l.keeper.step()
	if dropped == 0 || dropped != l.Dropped() || failures != 1 {
		t.Errorf("%d calls were dropped, reported %d; %d failures were reported, want 1", l.Dropped(), dropped, failures)
	}
	if found, err := l.Find(t.Context(), Query{Limit: 5}); err == nil || len(found.Calls) != 5 {
		t.Errorf("without a store, found %d calls with error %v", len(found.Calls), err)
	}
	records := openFile(t)
	l.keeper.open = func(context.Context) (store.Store, error) { return records, nil }
	for len(l.all.ended()) > 0 {
		l.keeper.step()
	}
	kept := int64(len(findAll(t, l, Query{Limit: MaxFound})))
	if want := int64(maxPending/2+10+maxPending+7) - dropped; kept != want {
		t.Errorf("%d calls are kept, want %d", kept, want)
	}
}

// TestKeeper_begins_another_block_if_its_block_is_gone deletes the block, as eviction does.
func TestKeeper_begins_another_block_if_its_block_is_gone(t *testing.T) {
	records := openFile(t)
	l := node("a", records, Options{})
	l.record(Call{Tool: "first"})
	l.keeper.step()
	if err := records.Delete(t.Context(), l.keeper.key); err != nil {
		t.Fatal(err)
	}
	l.record(Call{Tool: "second"})
	l.keeper.step()
	if got := findAll(t, l, Query{Limit: 10}); len(got) != 1 || got[0].Tool != "second" {
		t.Errorf("got %+v", got)
	}
}

func TestKeeper_deletes_the_oldest_calls_beyond_the_size(t *testing.T) {
	records := openFile(t)
	l := node("a", records, Options{})
	for i := range 5 * blockCalls {
		l.record(Call{Tool: fmt.Sprint("tool", i)})
	}
	l.keeper.step()
	trimTo(t, l, records, 0.7)
	got := findAll(t, l, Query{Limit: MaxFound})
	if len(got) != 3*blockCalls || got[len(got)-1].Number != 2*blockCalls+1 {
		t.Errorf("%d calls are left, the oldest has number %d", len(got), got[len(got)-1].Number)
	}
}

// TestKeeper_deletes_the_calls_of_the_largest_user_first has a user who makes nine of ten calls.
func TestKeeper_deletes_the_calls_of_the_largest_user_first(t *testing.T) {
	records := openFile(t)
	l := node("a", records, Options{})
	for i := range 5 * blockCalls {
		l.record(Call{User: []string{"ada", "bob"}[min(i%10, 1)]})
	}
	l.keeper.step()
	for _, part := range []float64{0.9, 0.8, 0.7} {
		trimTo(t, l, records, part)
	}
	count := make(map[string]int)
	for _, c := range findAll(t, l, Query{Limit: MaxFound}) {
		count[c.User]++
	}
	if count["ada"] != blockCalls/2 || count["bob"] == 0 || count["bob"] > 3*blockCalls {
		t.Errorf("calls that are left: %v", count)
	}
	l.record(Call{User: "ada"})
	if l.keeper.step(); len(findAll(t, l, Query{Limit: MaxFound})) != count["ada"]+count["bob"]+1 {
		t.Error("the node does not write any more")
	}
}

// trimTo deletes calls until the rest has at most a part of the size.
func trimTo(t *testing.T, l *Log, records store.Store, part float64) {
	t.Helper()
	size := func() (size int64) {
		places, err := placesIn(t.Context(), records, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range places {
			h, err := headerOf(t.Context(), records, p)
			if err != nil {
				t.Fatal(err)
			}
			size += h.Size
		}
		return size
	}
	options := l.Options()
	options.MaxSize = int64(part * float64(size()))
	if err := l.keeper.trim(t.Context(), records, &options); err != nil {
		t.Fatal(err)
	}
	if left := size(); left > options.MaxSize {
		t.Errorf("%d bytes are left, want at most %d", left, options.MaxSize)
	}
}

// TestUserData_erases_the_calls_of_one_user also checks that the node goes on to write.
func TestUserData_erases_the_calls_of_one_user(t *testing.T) {
	records := openFile(t)
	l := node("a", records, Options{})
	data := UserData{l}
	for i := range blockCalls + 20 {
		l.record(Call{User: []string{"ada", "bob", ""}[i%3], Reason: fmt.Sprint(i)})
		if i%100 == 0 {
			l.keeper.step()
		}
	}
	l.keeper.step()
	exported, err := data.Export(t.Context(), records, "ada")
	calls := exported.([]Call)
	if err != nil || len(calls) != 340 {
		t.Fatalf("exported %d calls, want 340; error %v", len(calls), err)
	}
	if calls[0].Number < calls[1].Number || calls[7].User != "ada" {
		t.Fatalf("exported the calls %d and %d, and one of %q; want the newest first, of ada", calls[0].Number, calls[1].Number, calls[7].User)
	}
	if count, err := data.Erase(t.Context(), records, "ada"); err != nil || count != 340 {
		t.Errorf("erased %d calls, %v", count, err)
	}
	l.record(Call{User: "bob", Reason: "after"})
	l.keeper.step()
	calls = findAll(t, l, Query{Limit: MaxFound})
	if len(calls) != blockCalls+20-340+1 || calls[0].Reason != "after" || slices.ContainsFunc(calls, func(c Call) bool { return c.User == "ada" }) {
		t.Errorf("%d calls are left, the newest is %+v", len(calls), calls[0])
	}
	for _, c := range calls[1:] {
		if c.Reason != fmt.Sprint(c.Number-1) {
			t.Fatalf("the call %d has the details of another: %+v", c.Number, c)
		}
	}
}

// TestRecorder_shows_calls_in_progress follows calls from Begin to Record.
func TestRecorder_shows_calls_in_progress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := node("a", nil, Options{Config: Config{Arguments: []string{"id"}}})
		first, second := Call{Tool: "first", User: "ada"}, Call{Tool: "second"}
		l.Active().Begin(&first, []byte(`{"id":7,"secret":"hunter2"}`))
		time.Sleep(time.Second)
		l.Active().Begin(&second, nil)
		running := l.Running(t.Context(), 10, all)
		if len(running) != 2 || running[0].Tool != "second" || running[1].Tool != "first" {
			t.Fatalf("in progress: %+v", running)
		}
		got := [...]any{running[1].User, running[1].Node, string(running[1].Arguments), running[1].Took, running[1].Ended.IsZero()}
		if want := [...]any{"ada", "a", `{"id":7}`, 1000.0, true}; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		q := Query{Match: map[string]string{"user": "ad"}}
		if got := l.Running(t.Context(), 1, q.Selects); len(got) != 1 || got[0].Tool != "first" {
			t.Errorf("calls of ada: %+v", got)
		}
		first.Outcome = "ok"
		l.Active().Record(&first, nil, nil)
		if running = l.Running(t.Context(), 10, all); len(running) != 1 || running[0].Tool != "second" {
			t.Errorf("in progress after the first has ended: %+v", running)
		}
		calls := l.all.ended()
		if len(calls) != 1 || calls[0].Tool != "first" {
			t.Fatalf("ended: got %+v, want the first", calls)
		}
		if c := calls[0]; string(c.Arguments) != `{"id":7}` || c.Ended.Sub(c.Began) != time.Second {
			t.Errorf(`ended: got a call with %s after %s, want {"id":7} after 1s`, c.Arguments, c.Ended.Sub(c.Began))
		}
	})
}

// TestRecorder_limits_calls_in_progress begins more calls than a node shows. All of them are recorded when
// they end.
func TestRecorder_limits_calls_in_progress(t *testing.T) {
	l := node("a", nil, Options{})
	r := l.Active()
	for range 2 {
		var calls [maxRunning + 3]Call
		for i := range calls {
			r.Begin(&calls[i], nil)
		}
		if got := len(l.Running(t.Context(), 2*maxRunning, all)); got != maxRunning {
			t.Errorf("%d calls are in progress, want %d", got, maxRunning)
		}
		for i := range calls {
			r.Record(&calls[i], nil, nil)
		}
		if got := len(l.Running(t.Context(), 2*maxRunning, all)); got != 0 {
			t.Errorf("%d calls are in progress, want none", got)
		}
	}
	if got := len(l.all.ended()); got != 2*(maxRunning+3) {
		t.Errorf("%d calls are recorded, want %d", got, 2*(maxRunning+3))
	}
}

func TestRecorder_keeps_allowed_arguments_only(t *testing.T) {
	l := node("a", nil, Options{Config: Config{Arguments: []string{"id", "text"}}})
	large := strings.Repeat("x", keptcall.MaxArguments)
	for arguments, want := range map[string]string{
		`{"id":7,"secret":"hunter2"}`:       `{"id":7}`,
		`{"secret":"hunter2"}`:              ``,
		`{"text":"` + large + `","id":1}`:   `{"text":"…","id":1}`,
		`{"id":{"secret":[1,2]},"id2":"x"}`: `{"id":{"secret":[1,2]}}`,
		`["id"]`:                            ``,
		`{"id":`:                            ``,
		``:                                  ``,
		"{\"i\\u0064\": \"a\"}":             `{"i\u0064":"a"}`,
		`{"text":"` + large[:3000] + `","id":"` + large[:3000] + `"}`: `{"text":"` + large[:3000] + `","id":"…"}`,
	} {
		call := Call{}
		l.Active().Record(&call, []byte(arguments), []byte("secret"))
		if got := string(call.Arguments); got != want || call.Result != "" || call.Sent != len(arguments) {
			t.Errorf("%.60s: got %.80s, want %.80s; result %q", arguments, got, want, call.Result)
		}
	}
	l = node("a", nil, Options{Config: Config{Arguments: []string{"*"}, Results: true}})
	call := Call{}
	l.Active().Record(&call, []byte(`{"a":1,"b":2}`), []byte(strings.Repeat("é", keptcall.MaxResult)))
	if string(call.Arguments) != `{"a":1,"b":2}` || len(call.Result) > keptcall.MaxResult || len(call.Result) < keptcall.MaxResult-10 {
		t.Errorf("got %s and %d bytes of the result", call.Arguments, len(call.Result))
	}
}

// TestRecorder_limits_texts also checks that no user has the shortened name of another one.
func TestRecorder_limits_texts(t *testing.T) {
	l := node("a", nil, Options{})
	long := strings.Repeat("a", 10_000)
	t.Run("owner", func(t *testing.T) {
		l := node("a", openFile(t), Options{})
		l.record(Call{User: long})
		if calls := findAll(t, l, Query{Owner: &long, Limit: 10}); len(calls) != 1 {
			t.Errorf("a user with a long name has %d calls, want 1", len(calls))
		}
	})
	call := l.record(Call{User: long, Trace: long, Reason: long, Engagement: long, Review: long, Groups: strings.Split(long, "")})
	if strings.HasPrefix(long, call.User) {
		t.Errorf("got the user %q, a part of the long name", call.User)
	}
	for what, c := range map[string]struct{ got, most int }{
		"user": {len(call.User), keptcall.MaxText}, "trace": {len(call.Trace), keptcall.MaxText}, "reason": {len(call.Reason), keptcall.MaxReason}, "groups": {len(call.Groups), keptcall.MaxGroups},
	} {
		if c.got > c.most {
			t.Errorf("%s: got the length %d, want at most %d", what, c.got, c.most)
		}
	}
}

// TestLog_off_records_nothing also checks that the calls of the end are written by Close.
func TestLog_off_records_nothing(t *testing.T) {
	records := openFile(t)
	l := New("a", func(context.Context) (store.Store, error) { return records, nil }, false)
	if l.Active() != nil {
		t.Error("a Log records before its start")
	}
	l.Start(Options{Config: Config{Off: true}})
	if l.Active() != nil {
		t.Error("a Log that is off records")
	}
	l.Start(Options{})
	l.record(Call{Tool: "last"})
	l.Close()
	if got := findAll(t, l, Query{Limit: 10}); len(got) != 1 || len(l.all.ended()) != 0 {
		t.Errorf("after Close the store has %d calls, and %d wait", len(got), len(l.all.ended()))
	}
}

// TestRunning_has_the_calls_of_all_nodes looks at node a and calls a tool on node b.
func TestRunning_has_the_calls_of_all_nodes(t *testing.T) {
	address, _ := storetest.Redis(t)
	records, err := redis.Open(address, redis.Options{Indexed: []string{KeyPrefix}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	var logs [2]*Log
	for i, name := range []string{"a", "b"} {
		logs[i] = node(name, records, Options{})
		logs[i].share = &sharing{recorder: &logs[i].all, open: logs[i].keeper.open, describe: logs[i].describe}
	}
	a, b := logs[0], logs[1]
	now := time.Now()
	step := func(l *Log) {
		t.Helper()
		if err := l.share.step(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	running := Call{Tool: "running_at_b"}
	b.Active().Begin(&running, nil)
	step(b)
	if _, err := records.Get(t.Context(), callsKey+"b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("node b writes its calls in progress, although no one looks: %v", err)
	}
	a.Look()
	step(a)
	now = now.Add(pollInterval)
	step(b)
	now = now.Add(pollInterval)
	step(a)
	if calls := a.Running(t.Context(), 10, all); len(calls) != 1 || calls[0].Tool != "running_at_b" || calls[0].Node != "b" {
		t.Errorf("in progress: %+v", calls)
	}
	if nodes := a.Nodes(t.Context()); len(nodes) != 2 || nodes[0].Name != "a" || nodes[1].Name != "b" {
		t.Errorf("nodes %+v", nodes)
	}
	b.record(Call{Tool: "of_b"})
	b.keeper.step()
	a.record(Call{Tool: "of_a"})
	if calls := findAll(t, a, Query{Limit: 10}); len(calls) != 2 || calls[0].Tool != "of_a" || calls[1].Tool != "of_b" {
		t.Errorf("ended: %+v", calls)
	}
}

// TestStats_counts compares statistics with the calls that were recorded.
func TestStats_counts(t *testing.T) {
	l := node("a", openFile(t), Options{})
	for i := range 100 {
		call := Call{Site: "s", Tool: "fast", Toolset: "t", User: "ada", Outcome: "ok", Took: 1, Size: 400}
		switch {
		case i%10 == 0:
			call.Tool, call.Outcome, call.User, call.Agent, call.Took = "slow", "timeout", "", "clerk", 2000
		case i%2 == 0:
			call.User = "bob"
		}
		if l.record(call); i == 50 {
			l.keeper.step()
		}
	}
	l.record(Call{Site: "other", Tool: "fast", Outcome: "ok"})
	stats, err := l.Stats(t.Context(), StatsQuery{Site: "s", Range: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	sum := make([]int, len(stats.Outcomes))
	for _, p := range stats.Points {
		for i, n := range p.Calls {
			sum[i] += n
		}
	}
	if !slices.Equal(stats.Outcomes, []string{"ok", "timeout"}) || !slices.Equal(sum, []int{90, 10}) {
		t.Errorf("outcomes %v: %v", stats.Outcomes, sum)
	}
	if got, want := [...]int64{int64(stats.Total.Calls), int64(stats.Total.Failures), stats.Total.Size}, [...]int64{100, 10, 40_000}; got != want {
		t.Errorf("calls, failures and bytes: got %d, want %d", got, want)
	}
	if p := stats.Total.P50; p < 0.8 || p > 1.2 {
		t.Errorf("got the median %v, want 0.8 to 1.2", p)
	}
	if p := stats.Total.P95; p < 1700 || p > 2300 {
		t.Errorf("got the percentile 95 %v, want 1700 to 2300", p)
	}
	if fast, slow := stats.Tools[0].Name, stats.Slowest[0].Name; fast != "fast" || slow != "slow" {
		t.Errorf("got the first tool %q and the slowest %q, want fast and slow", fast, slow)
	}
	if f := stats.Failing; len(f) != 1 || f[0].Name != "slow" {
		t.Errorf("got the failing tools %+v, want slow", f)
	}
	if u := stats.Users; len(u) != 3 || u[0].Name != "ada" || u[0].Calls != 50 {
		t.Errorf("got the users %+v, want 3, ada with 50 calls first", u)
	}
	if a := stats.Agents; len(a) != 1 || a[0].Calls != 10 {
		t.Errorf("got the agents %+v, want one with 10 calls", a)
	}
	if stats, err = l.Stats(t.Context(), StatsQuery{Site: "s", User: "bob", Own: true, Range: 24 * time.Hour}); err != nil || stats.Total.Calls != 40 {
		t.Errorf("calls of bob: %+v, %v", stats, err)
	}
}

func TestArguments_are_kept_in_one_line(t *testing.T) {
	if got := choose([]byte("{\n \"a\" : {\n\t\"b\": [1,\n 2]} }"), []string{"a"}); string(got) != `{"a":{"b":[1,2]}}` {
		t.Errorf("got %s", got)
	}
}

// BenchmarkRecorder measures what a call pays for the log in its own goroutine.
func BenchmarkRecorder(b *testing.B) {
	for name, options := range map[string]Options{"off": {Config: Config{Off: true}}, "on": {}} {
		b.Run(name, func(b *testing.B) {
			records := openFile(b)
			l := New("a", func(context.Context) (store.Store, error) { return records, nil }, false)
			l.Start(options)
			defer l.Close()
			b.ReportAllocs()
			for b.Loop() {
				if r := l.Active(); r != nil {
					call := Call{Tool: "get_trip", Toolset: "trips", Protocol: "mcp"}
					r.Begin(&call, nil)
					call.Outcome = "ok"
					r.Record(&call, nil, nil)
				}
			}
		})
	}
}

// BenchmarkMillion measures queries over a million calls.
func BenchmarkMillion(b *testing.B) {
	records := openFile(b)
	l := node("a", records, Options{Config: Config{MaxSize: 4 << 30}})
	for i := range 1_000_000 {
		call := Call{
			Site: "example.com", Endpoint: "/mcp", Tool: fmt.Sprint("tool_", i%1223), Toolset: "hub", Protocol: "mcp", Outcome: "ok",
			User: fmt.Sprint("user-", i%5000), Trace: fmt.Sprintf("%032x", i*7919), Took: float64(i%500) / 10, Request: "GET /repos/{owner}/{repo}/issues",
		}
		if i%50 == 0 {
			call.Outcome, call.Reason = "refused", "GET /repos/{owner}/{repo}/issues responded with 404 Not Found: there is no such repository"
		}
		if l.record(call); i%10_000 == 0 {
			l.keeper.step()
		}
	}
	for len(l.all.ended()) > 0 {
		l.keeper.step()
	}
	for name, q := range map[string]Query{
		"newest":  {},
		"outcome": {Match: map[string]string{"outcome": "refused"}},
		"both":    {Match: map[string]string{"tool": "tool_77", "user": "user-4321"}},
		"none":    {Match: map[string]string{"user": "unknown"}},
		"trace":   {Match: map[string]string{"trace": fmt.Sprintf("%032x", 7919)}},
		"text":    {Text: "there is no such thing"},
	} {
		q.Limit = 100
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := l.Find(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.count(b.Context(), StatsQuery{Range: 24 * time.Hour}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestStats_reports_what_to_mend counts wrong arguments and reasons by tool and week, and keeps its limits.
func TestStats_reports_what_to_mend(t *testing.T) {
	l := node("a", openFile(t), Options{})
	for _, call := range []Call{
		{Tool: "get", Toolset: "t", Outcome: "ok", Size: 4000},
		{Tool: "get", Toolset: "t", Outcome: "invalid", Reason: "invalid arguments for get: /id: missing, and required; /stops/0/name: must be a string; /stops/17/name: must be a string"},
		{Tool: "get", Toolset: "t", Outcome: "invalid", Reason: "invalid arguments for get: /id: must be a string; use another: one"},
		{Tool: "get", Toolset: "t", Outcome: "invalid"}, // hidden by an inspector
		{Tool: "get", Toolset: "t", Outcome: "refused", Reason: "no trip 17"},
		{Tool: "get", Toolset: "t", Outcome: "refused", Reason: "no trip 4"},
		{Tool: "put", Toolset: "t", Outcome: "ok"},
		{Tool: "", Toolset: "t", Outcome: "unknown_tool"},
	} {
		l.record(call)
	}
	for i := range 2 * maxCauses {
		l.record(Call{Tool: "many", Toolset: "t", Outcome: "refused", Reason: strings.Repeat("x", i+1)})
	}
	l.keeper.step()
	stats, err := l.Stats(t.Context(), StatsQuery{Range: 28 * 24 * time.Hour, Report: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range stats.Report {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "many get put" {
		t.Fatalf("got the tools %q, want those with the most failures first", got)
	}
	many, get := stats.Report[0], stats.Report[1]
	if want := (Count{otherName, maxCauses}); many.Reasons[0] != want || len(many.Reasons) != maxListed {
		t.Errorf("got %d reasons, the first is %+v; want %d, and %+v first", len(many.Reasons), many.Reasons[0], maxListed, want)
	}
	if got, want := fmt.Sprint(get.Arguments), "[{/id 2} {/stops/#/name 1}]"; got != want {
		t.Errorf("got the wrong arguments %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(get.Reasons, get.Outcomes), "[{no trip # 2}] [{invalid 3} {refused 2}]"; got != want {
		t.Errorf("got the reasons and outcomes %s, want %s", got, want)
	}
	if w := get.Weeks[0]; [...]int{len(get.Weeks), w.Calls, w.Failures, w.Invalid, get.Invalid()} != [...]int{4, 6, 5, 3, 3} {
		t.Errorf("got the weeks %+v", get.Weeks)
	}
	if get.Tokens() != 4000/6/4 || get.Weeks[1].Tokens() != 0 {
		t.Errorf("got %d tokens, and %d in a week without calls", get.Tokens(), get.Weeks[1].Tokens())
	}
	if plain, err := l.Stats(t.Context(), StatsQuery{Range: 28 * 24 * time.Hour}); err != nil || plain.Report != nil {
		t.Errorf("without Report: %+v, %v", plain.Report, err)
	}
}

// TestStats_are_fresh wants a call that has just ended in the statistics of a few seconds later, also for a week.
func TestStats_are_fresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := node("a", openFile(t), Options{})
		for want := 1; want <= 3; want++ {
			l.record(Call{Tool: "get", Outcome: "ok"})
			stats, err := l.Stats(t.Context(), StatsQuery{Range: week})
			if err != nil || stats.Total.Calls != want {
				t.Errorf("got %d calls, %v; want %d", stats.Total.Calls, err, want)
			}
			time.Sleep(statsAge)
		}
	})
}
