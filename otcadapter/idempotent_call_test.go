package otcadapter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/lease"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/once"
)

// openBolt opens an embedded store for the test.
func openBolt(t testing.TB, path string) *embedded.Store {
	t.Helper()
	st, err := embedded.Open(path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// recordIn records calls in the store.
func recordIn(st store.Store) *once.Options {
	return &once.Options{Open: func(context.Context) (store.Store, error) { return st, nil }, Endpoint: "/otc"}
}

// counting is a Caller that counts its calls and answers each with its number.
type counting struct {
	calls atomic.Int64
	wait  chan struct{} // nil, or a call returns when it is closed
}

func (c *counting) Call(_ context.Context, t string, _ []byte) tools.Outcome {
	n := c.calls.Add(1)
	if c.wait != nil {
		<-c.wait
	}
	return tools.Outcome{Result: jsonResult(fmt.Sprintf(`{"call":%d}`, n)), Duration: time.Millisecond}
}

// a question is a request for a call.
type question struct {
	endpoint, host, user, body string
	header                     http.Header
}

func (q question) ask(ctx context.Context, s *Server, toolset *tools.Toolset, caller tools.Caller) *httptest.ResponseRecorder {
	if q.endpoint == "" {
		q.endpoint = "/call"
	}
	request := httptest.NewRequest("POST", "/otc"+q.endpoint, strings.NewReader(q.body)).WithContext(ctx)
	if q.host != "" {
		request.Host = q.host
	}
	maps.Copy(request.Header, q.header)
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	site := siteOf(toolset, caller)
	site.User = q.user
	s.ServeHTTP(recorder, request, q.endpoint, site)
	return recorder
}

// recordPrefix is that of package once.
const recordPrefix = "otc/call/"

const addWithID = `{"call_id":"c1","tool_id":"Calculator.Add","input":{"a":1,"b":2}}`

func TestIdempotency_repetitions(t *testing.T) {
	cases := []struct {
		rule   string
		first  question
		second question
		runs   int64 // how often the tool runs in the end
		status int
		same   bool // the second answer is the first
	}{
		{"the same call", question{body: addWithID}, question{body: addWithID}, 1, 200, true},
		{
			"the same call, written in another way",
			question{body: addWithID},
			question{body: `{"request": {"inputs": {"b": 2, "a": 1}, "tool_id": "Calculator.Add@1", "call_id": "c1", "trace_id": "t"}}`},
			1, 200, true,
		},
		{"no call_id", question{body: `{"tool_id":"Calculator.Add"}`}, question{body: `{"tool_id":"Calculator.Add"}`}, 2, 200, false},
		{"another call_id", question{body: addWithID}, question{body: strings.Replace(addWithID, "c1", "c2", 1)}, 2, 200, false},
		{"other input", question{body: addWithID}, question{body: strings.Replace(addWithID, "2", "3", 1)}, 1, 400, false},
		{
			"a number that only rounds to the same",
			question{body: strings.Replace(addWithID, "2", "9007199254740993", 1)},
			question{body: strings.Replace(addWithID, "2", "9007199254740992", 1)},
			1, 400, false,
		},
		{"another tool", question{body: addWithID}, question{body: strings.Replace(addWithID, "Add", "guess", 1)}, 1, 400, false},
		{"another context", question{body: addWithID}, question{body: strings.Replace(addWithID, `"input"`, `"context":{"user_id":"u"},"input"`, 1)}, 1, 400, false},
		{"another user", question{body: addWithID, user: "ada"}, question{body: addWithID, user: "bob"}, 2, 200, false},
		{"anonymous and known", question{body: addWithID}, question{body: addWithID, user: "bob"}, 2, 200, false},
		{
			"a user with another token",
			question{body: addWithID, user: "ada", header: http.Header{"Authorization": {"Bearer 1"}}},
			question{body: addWithID, user: "ada", header: http.Header{"Authorization": {"Bearer 2"}}},
			1, 200, true,
		},
		{
			"anonymous with another token",
			question{body: addWithID, header: http.Header{"Authorization": {"Bearer 1"}}},
			question{body: addWithID, header: http.Header{"Authorization": {"Bearer 2"}}},
			2, 200, false,
		},
		{
			"anonymous with another cookie",
			question{body: addWithID, header: http.Header{"Cookie": {"s=1"}}},
			question{body: addWithID, header: http.Header{"Cookie": {"s=2"}}},
			1, 400, false,
		},
		{"another site", question{body: addWithID, host: "a.example"}, question{body: addWithID, host: "b.example"}, 2, 200, false},
		{"another node of the site", question{body: addWithID, host: "a.example:1"}, question{body: addWithID, host: "a.example:2"}, 1, 200, true},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			s := New(Options{Idempotency: recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))})
			toolset, caller := calculator(), new(counting)
			first := c.first.ask(t.Context(), s, toolset, caller)
			second := c.second.ask(t.Context(), s, toolset, caller)
			if first.Code != 200 || second.Code != c.status {
				t.Fatalf("%d %s\n%d %s", first.Code, first.Body, second.Code, second.Body)
			}
			if n := caller.calls.Load(); n != c.runs {
				t.Errorf("ran %d times, want %d", n, c.runs)
			}
			if same := bytes.Equal(first.Body.Bytes(), second.Body.Bytes()); same != c.same {
				t.Errorf("first  %s\nsecond %s", first.Body, second.Body)
			}
			if replayed := second.Header().Get("Idempotent-Replayed") == "true"; replayed != c.same {
				t.Errorf("Idempotent-Replayed: %v", replayed)
			}
		})
	}
}

// TestIdempotency_what_did_not_run runs calls again that had no effect, with whatever
// content they come back.
func TestIdempotency_what_did_not_run(t *testing.T) {
	add, list := &tools.Tool{Name: "Add", Plan: tools.Plan{Method: "POST"}}, &tools.Tool{Name: "list", Plan: tools.Plan{Method: "GET"}}
	for _, c := range []struct {
		rule    string
		tool    *tools.Tool
		failure tools.Failure
		again   bool
	}{
		{"bad input", add, tools.Failure{Kind: tools.InvalidArguments, Message: "m"}, true},
		{"too many requests", add, tools.Failure{Kind: tools.Refused, Status: 429, Message: "m"}, true},
		{"unavailable", add, tools.Failure{Kind: tools.Failed, Status: 503, Message: "m"}, true},
		{"failed, and idempotent", list, tools.Failure{Kind: tools.Failed, Status: 500, Message: "m"}, true},
		{"failed, and not idempotent", add, tools.Failure{Kind: tools.Failed, Status: 500, Message: "m"}, false},
		{"unreachable, and not idempotent", add, tools.Failure{Kind: tools.Unreachable, Message: "m"}, false},
		{"not found", add, tools.Failure{Kind: tools.Refused, Status: 404, Message: "m"}, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := New(Options{Idempotency: recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))})
			calls := 0
			caller := callerFunc(func(context.Context, string, []byte) tools.Outcome {
				if calls++; calls == 1 {
					return tools.Outcome{Tool: c.tool, Failure: &c.failure}
				}
				return tools.Outcome{Tool: c.tool, Result: jsonResult("1")}
			})
			body := `{"call_id":"c1","tool_id":"Calculator.` + c.tool.Name + `"`
			first := question{body: body + `}`}.ask(t.Context(), s, calculator(), caller)
			second := question{body: body + `}`}.ask(t.Context(), s, calculator(), caller)
			if first.Code != 200 || second.Code != 200 || (calls == 2) != c.again {
				t.Errorf("called %d times: %s %s", calls, first.Body, second.Body)
			}
		})
	}
}

func TestIdempotency_answers_that_are_too_large(t *testing.T) {
	for _, endpoint := range []string{"/call", "/tools/call"} {
		options := recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))
		options.MaxResponse = 1000
		s := New(Options{Idempotency: options})
		calls := 0
		caller := callerFunc(func(context.Context, string, []byte) tools.Outcome {
			calls++
			return tools.Outcome{Result: jsonResult(`"` + strings.Repeat("x", 1000) + `"`)}
		})
		q := question{endpoint: endpoint, body: addWithID}
		first, second := q.ask(t.Context(), s, calculator(), caller), q.ask(t.Context(), s, calculator(), caller)
		if first.Code != 200 || !strings.Contains(first.Body.String(), "xxx") {
			t.Errorf("the first answer is %s", first.Body)
		}
		if second.Code != 200 || calls != 1 {
			t.Errorf("got the status %d after %d calls, want 200 after 1", second.Code, calls)
		}
		for _, want := range []string{"too large", `"success":false`, `"can_retry":false`} {
			if !strings.Contains(second.Body.String(), want) {
				t.Errorf("the second answer is %s, want %q", second.Body, want)
			}
		}
		members := instance(t, answer{second, t})
		if endpoint == "/call" {
			otc(t).check(t, "/components/schemas/CallToolResponse", members)
		} else {
			oxp(t).check(t, "/paths/~1tools~1call/post/responses/200/content/application~1json/schema", members)
		}
	}
}

// TestIdempotency_too_large_and_harmless runs what is idempotent by its method once more
// where its answer was too large to be kept, as long as it is the same call.
func TestIdempotency_too_large_and_harmless(t *testing.T) {
	for called, runsAgain := range map[string]bool{"list": true, "clear": true, "Add": false} {
		t.Run(called, func(t *testing.T) {
			options := recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))
			options.MaxResponse = 1000
			s, calls := New(Options{Idempotency: options}), 0
			caller := callerFunc(func(context.Context, string, []byte) tools.Outcome {
				calls++
				return tools.Outcome{Result: jsonResult(`"` + strings.Repeat("x", 1000) + `"`)}
			})
			q := question{body: `{"call_id":"c1","tool_id":"Calculator.` + called + `"}`}
			toolset := calculator()
			for _, each := range toolset.Tools() {
				each.Output = tools.Output{}
			}
			first, second := q.ask(t.Context(), s, toolset, caller), q.ask(t.Context(), s, toolset, caller)
			if again := bytes.Equal(first.Body.Bytes(), second.Body.Bytes()); again != runsAgain || (calls == 2) != runsAgain {
				t.Errorf("called %d times: %.200s", calls, second.Body)
			}
			if second.Header().Get("Idempotent-Replayed") != "" {
				t.Error("the second answer is called a replay")
			}
			q.body = strings.Replace(q.body, "}", `,"input":{"a":1}}`, 1)
			if other := q.ask(t.Context(), s, toolset, caller); other.Code != 400 {
				t.Errorf("other input: %d %.200s", other.Code, other.Body)
			}
		})
	}
}

// TestIdempotency_at_the_other_endpoint wants the recorded answer in the form of the
// endpoint at which the call is repeated: that which the call would have had there.
func TestIdempotency_at_the_other_endpoint(t *testing.T) {
	outcomes := conformOutcomes()
	outcomes["nothing at all"] = tools.Outcome{Result: &tools.Result{Status: 200}}
	for rule, outcome := range outcomes {
		for from, to := range map[string]string{"/call": "/tools/call", "/tools/call": "/call"} {
			t.Run(rule+to, func(t *testing.T) {
				s := New(Options{Idempotency: recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))})
				outcome, calls := outcome, 0
				outcome.Tool = &tools.Tool{Name: "Add", Plan: tools.Plan{Method: "POST"}}
				caller := callerFunc(func(context.Context, string, []byte) tools.Outcome { calls++; return outcome })
				first := question{endpoint: from, body: addWithID}.ask(t.Context(), s, calculator(), caller)
				second := question{endpoint: to, body: addWithID}.ask(t.Context(), s, calculator(), caller)
				fresh := question{endpoint: to, body: addWithID}.ask(t.Context(), New(Options{}), calculator(), caller)
				want, ended := fresh.Body.String(), outcome
				mayRun := (&once.Request{Key: "c1"}).Conclude(&ended)
				if ended.Failure != outcome.Failure { // it says whether the call can be repeated
					more := strings.ReplaceAll(strings.TrimPrefix(ended.Failure.Message, outcome.Failure.Message), `"`, `\"`)
					want = strings.Replace(want, outcome.Failure.Message+`"`, outcome.Failure.Message+more+`"`, 1)
				}
				if rule == "null" && to == "/call" {
					want = strings.Replace(want, `,"output":{"value":null}`, "", 1) // OXP tells null and nothing alike
				}
				if second.Code != fresh.Code || second.Body.String() != want {
					t.Errorf("first %d %s\ngot   %d %s\nwant  %d %s", first.Code, first.Body, second.Code, second.Body, fresh.Code, want)
				}
				if replayed := second.Header().Get("Idempotent-Replayed") == "true"; replayed == mayRun || (calls == 3) != mayRun {
					t.Errorf("called %d times, replayed: %t", calls, replayed)
				}
			})
		}
	}
}

// TestIdempotency_waits_at_the_other_endpoint wants who waits for a call at the other
// endpoint to get its answer, or where that is a refusal to be refused in the words
// of that endpoint.
func TestIdempotency_waits_at_the_other_endpoint(t *testing.T) {
	for _, c := range []struct {
		rule    string
		outcome tools.Outcome
		calls   int64
		flat    string
		oxp     int
	}{
		{"an answer", tools.Outcome{Result: jsonResult("3")}, 1, `"output":{"value":3}`, 200},
		{"bad input", tools.Outcome{Failure: &tools.Failure{Kind: tools.InvalidArguments, Message: "m"}}, 2, `"success":false`, 422},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{Idempotency: recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))})
				var calls atomic.Int64
				caller := callerFunc(func(context.Context, string, []byte) tools.Outcome {
					calls.Add(1)
					time.Sleep(time.Second)
					return c.outcome
				})
				answers := make(map[string]*httptest.ResponseRecorder)
				var mu sync.Mutex
				var group sync.WaitGroup
				for _, endpoint := range []string{"/call", "/tools/call"} {
					group.Go(func() {
						a := question{endpoint: endpoint, body: addWithID}.ask(t.Context(), s, calculator(), caller)
						mu.Lock()
						defer mu.Unlock()
						answers[endpoint] = a
					})
				}
				group.Wait()
				flat, enveloped := answers["/call"], answers["/tools/call"]
				if calls.Load() != c.calls || !testkit.ContainsAll(flat.Body.String(), c.flat) {
					t.Errorf("called %d times, want %d: %s, want %q", calls.Load(), c.calls, flat.Body, c.flat)
				}
				if enveloped.Code != c.oxp || formOf(enveloped.Body.Bytes()) != oxpStandard {
					t.Errorf("got the status %d with %s, want %d with the form of the standard", enveloped.Code, enveloped.Body, c.oxp)
				}
			})
		})
	}
}

// TestIdempotency_storm sends 1,000 calls with 100 call ids to two servers, as one node
// before and after a reload has them, or two nodes on one Redis.
func TestIdempotency_storm(t *testing.T) {
	storm := func(t *testing.T, a, b store.Store) {
		servers := []*Server{New(Options{Idempotency: recordIn(a)}), New(Options{Idempotency: recordIn(b)})}
		toolset, caller := calculator(), new(counting)
		var mu sync.Mutex
		answers := make(map[string]string)
		var group sync.WaitGroup
		for i := range 1000 {
			group.Go(func() {
				id := fmt.Sprint("call-", i%100)
				got := question{body: strings.Replace(addWithID, "c1", id, 1)}.ask(t.Context(), servers[i/100%2], toolset, caller)
				mu.Lock()
				defer mu.Unlock()
				if got.Code != 200 {
					t.Errorf("%s: %d %s", id, got.Code, got.Body)
				}
				if earlier, known := answers[id]; known && earlier != got.Body.String() {
					t.Errorf("%s: %s and %s", id, earlier, got.Body)
				}
				answers[id] = got.Body.String()
			})
		}
		group.Wait()
		if n := caller.calls.Load(); n != 100 || len(answers) != 100 {
			t.Errorf("%d calls and %d answers, want 100", n, len(answers))
		}
	}
	t.Run("bolt", func(t *testing.T) {
		st := openBolt(t, filepath.Join(t.TempDir(), "s"))
		storm(t, st, st)
	})
	t.Run("redis", func(t *testing.T) {
		address, _ := storetest.Redis(t)
		open := func() store.Store {
			st, err := redis.Open(address, redis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return st
		}
		storm(t, open(), open())
	})
}

// Offsets in the format of records (package idempotency). The state is b for a call that has begun
// and d for one that is done.
const (
	recordStateOffset   = 1
	recordLeaseOffset   = 5
	recordProcessOffset = 13
)

// leaveUnfinished makes a call, and changes its record to one that an earlier process has left.
func leaveUnfinished(t *testing.T, st store.Store, s *Server, toolset *tools.Toolset, body string, until time.Time) {
	t.Helper()
	question{body: body}.ask(t.Context(), s, toolset, new(counting))
	keys, err := st.Keys(t.Context(), recordPrefix, "", 10)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	held, err := st.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Clone(held.Value)
	if value[recordStateOffset] != 'd' {
		t.Fatalf("the record of a call that has run: %q", value)
	}
	value[recordStateOffset] = 'b'
	binary.BigEndian.PutUint64(value[recordLeaseOffset:], uint64(until.UnixMilli()))
	copy(value[recordProcessOffset:], lease.ProcessOf(st))
	value[recordProcessOffset]++
	if err := st.Put(t.Context(), keys[0], store.Change{Value: value, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
}

// TestIdempotency_died repeats a call whose node died only if it is idempotent. When a node counts as dead is
// checked by package store/lease.
func TestIdempotency_died(t *testing.T) {
	for _, c := range []struct {
		rule  string
		tool  string
		until time.Duration // the end of the lease, from now
		runs  int64
		says  string
	}{
		{"not idempotent", "Add", -time.Second, 0, "unknown"},
		{"idempotent", "guess", time.Hour, 1, `"success":true`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			st := openBolt(t, filepath.Join(t.TempDir(), "s"))
			s := New(Options{Idempotency: recordIn(st)})
			body := `{"call_id":"c1","tool_id":"Calculator.` + c.tool + `"}`
			leaveUnfinished(t, st, s, calculator(), body, time.Now().Add(c.until))
			caller := new(counting)
			got := question{body: body}.ask(t.Context(), s, calculator(), caller)
			if n := caller.calls.Load(); got.Code != 200 || n != c.runs || !testkit.ContainsAll(got.Body.String(), c.says) {
				t.Errorf("ran %d times: %d %s", n, got.Code, got.Body)
			}
			if c.runs == 0 {
				otc(t).check(t, "/components/schemas/CallToolResponse", instance(t, answer{got, t}))
			}
			got = question{body: strings.Replace(body, `"}`, `","input":{"a":1}}`, 1)}.ask(t.Context(), s, calculator(), caller)
			if got.Code != 400 {
				t.Errorf("other content: %d %s", got.Code, got.Body)
			}
		})
	}
}

// TestIdempotency_waits_for_another_server lets one server run the call and another wait
// for it longer than the lease.
func TestIdempotency_waits_for_another_server(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // or a machine that stands still would end the lease
		st := openBolt(t, filepath.Join(t.TempDir(), "s"))
		options := recordIn(st)
		servers := []*Server{New(Options{Idempotency: options}), New(Options{Idempotency: options})}
		caller := &counting{wait: make(chan struct{})}
		answers := make(chan *httptest.ResponseRecorder, 2)
		for i, s := range servers {
			go func() { answers <- question{body: addWithID}.ask(t.Context(), s, calculator(), caller) }()
			for i == 0 && caller.calls.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		keys, _ := st.Keys(t.Context(), recordPrefix, "", 10)
		held, _ := st.Get(t.Context(), keys[0])
		began := time.Now()
		for range 4 { // signs of life
			var err error
			if held, err = st.Wait(t.Context(), keys[0], held.Value); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < once.DefaultLease {
			t.Errorf("the call ended after %s, within its first lease", took)
		}
		close(caller.wait)
		first, second := <-answers, <-answers
		if first.Code != 200 || first.Body.String() != second.Body.String() || caller.calls.Load() != 1 {
			t.Errorf("ran %d times: %s and %s", caller.calls.Load(), first.Body, second.Body)
		}
	})
}

// TestIdempotency_a_client_that_goes_away finds the answer when it comes back.
func TestIdempotency_a_client_that_goes_away(t *testing.T) {
	s := New(Options{Idempotency: recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))})
	ctx, leave := context.WithCancel(t.Context())
	var calls int
	caller := callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		calls++
		leave()
		if ctx.Err() != nil {
			t.Error("the call is canceled with its client")
		}
		return tools.Outcome{Result: jsonResult("1")}
	})
	question{body: addWithID}.ask(ctx, s, calculator(), caller)
	got := question{body: addWithID}.ask(t.Context(), s, calculator(), caller)
	if calls != 1 || !strings.Contains(got.Body.String(), `"success":true`) {
		t.Errorf("called %d times: %s", calls, got.Body)
	}
	if got := (question{body: addWithID}).ask(ctx, s, calculator(), caller); got.Body.Len() != 0 {
		t.Errorf("sent to a client that is gone: %s", got.Body)
	}
}

// TestIdempotency_callers_with_keys_of_their_own tells them apart whatever tool they call.
func TestIdempotency_callers_with_keys_of_their_own(t *testing.T) {
	s := New(Options{Idempotency: recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))})
	toolset, caller := secured(need{"key": {}}), new(counting)
	for _, c := range []struct {
		tool, key string
		status    int
		runs      int64
	}{
		{"secured", "1", 200, 1},
		{"secured", "2", 200, 2},
		{"secured", "1", 200, 2},
		{"open", "1", 400, 2},
		{"open", "3", 200, 3},
	} {
		body := `{"call_id":"c1","tool_id":"Vault.` + c.tool + `"}`
		got := question{body: body, header: http.Header{"X-Key": {c.key}}}.ask(t.Context(), s, toolset, caller)
		if n := caller.calls.Load(); got.Code != c.status || n != c.runs {
			t.Errorf("%s with key %s: %d %s after %d runs, want %d after %d", c.tool, c.key, got.Code, got.Body, n, c.status, c.runs)
		}
	}
}

func TestIdempotency_survives_a_restart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	caller := new(counting)
	st := openBolt(t, path)
	first := question{body: addWithID}.ask(t.Context(), New(Options{Idempotency: recordIn(st)}), calculator(), caller)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	second := question{body: addWithID}.ask(t.Context(), New(Options{Idempotency: recordIn(openBolt(t, path))}), calculator(), caller)
	if caller.calls.Load() != 1 || first.Body.String() != second.Body.String() {
		t.Errorf("ran %d times: %s and %s", caller.calls.Load(), first.Body, second.Body)
	}
}

// TestIdempotency_without_a_store runs only what does no harm twice.
func TestIdempotency_without_a_store(t *testing.T) {
	broken := errors.New("the disk is gone")
	var failure error
	options := &once.Options{
		Open:   func(context.Context) (store.Store, error) { return nil, broken },
		Failed: func(err error) { failure = err },
	}
	s := New(Options{Idempotency: options})
	caller := new(counting)
	got := question{body: addWithID}.ask(t.Context(), s, calculator(), caller)
	if got.Code != 503 || got.Header().Get("Retry-After") == "" {
		t.Errorf("POST: got the status %d with Retry-After %q, want 503 with a time", got.Code, got.Header().Get("Retry-After"))
	}
	if n := caller.calls.Load(); n != 0 || strings.Contains(got.Body.String(), "disk") {
		t.Errorf("POST: got %s after %d calls, want no call, and no error of the store", got.Body, n)
	}
	if !errors.Is(failure, broken) {
		t.Errorf("got %v", failure)
	}
	got = question{body: strings.Replace(addWithID, "Add", "guess", 1)}.ask(t.Context(), s, calculator(), caller)
	if got.Code != 200 || caller.calls.Load() != 1 {
		t.Errorf("GET: %d %s", got.Code, got.Body)
	}
}

// TestIdempotency_keeps_no_secret looks for what was sent in confidence in the store.
func TestIdempotency_keeps_no_secret(t *testing.T) {
	st := openBolt(t, filepath.Join(t.TempDir(), "s"))
	s := New(Options{Idempotency: recordIn(st)})
	body := `{"call_id":"the-call","tool_id":"Vault.secured","context":{"authorization":[{"id":"oauth","token":"T0psecret"}]}}`
	got := question{body: body, user: "ada"}.ask(t.Context(), s, secured(need{"oauth": {}}), new(counting))
	if got.Code != 200 {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	keys, err := st.Keys(t.Context(), "", "", 100)
	if err != nil || len(keys) != 2 {
		t.Fatalf("%q, %v", keys, err)
	}
	for _, key := range keys {
		r, err := st.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"T0psecret", "ada"} {
			if strings.Contains(key, secret) || bytes.Contains(r.Value, []byte(secret)) {
				t.Errorf("%s is in the record %q: %q", secret, key, r.Value)
			}
		}
	}
}

// TestIdempotency_compares_converted_input: a call with values in another JSON form is the same call.
func TestIdempotency_compares_converted_input(t *testing.T) {
	toolset, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"paths":{"/orders":{"post":{"operationId":"order","parameters":[
		{"name":"n","in":"query","schema":{"type":"integer"}}],"responses":{"200":{"description":"ok"}}}}}}`), tools.BuildOptions{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Idempotency: recordIn(openBolt(t, filepath.Join(t.TempDir(), "s")))})
	caller := new(counting)
	for input, status := range map[string]int{`{"n":5}`: 200, `{"n":"5"}`: 200, `{"n":5.0}`: 200} {
		got := question{body: `{"call_id":"c1","tool_id":"Shop.order","input":` + input + `}`}.ask(t.Context(), s, toolset, caller)
		if got.Code != status {
			t.Errorf("%s: got %d %s, want %d", input, got.Code, got.Body, status)
		}
	}
	if runs := caller.calls.Load(); runs != 1 {
		t.Errorf("the tool ran %d times, want 1", runs)
	}
	if got := (question{body: `{"call_id":"c1","tool_id":"Shop.order","input":{"n":"6"}}`}).ask(t.Context(), s, toolset, caller); got.Code != http.StatusBadRequest {
		t.Errorf("another value: got %d %s, want 400", got.Code, got.Body)
	}
}
