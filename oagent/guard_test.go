package oagent_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/storetest"
)

// agent reads a document whose head is the same for all.
func agent(t testing.TB, body string) *oagent.Agent {
	t.Helper()
	head := "kind: openagentspec:v1/agent\nname: desk\ndescription: Answers.\nintent: You answer.\nowner: team\n"
	a, err := oagent.ReadAgent([]byte(head+body), "desk.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func openBolt(t testing.TB) store.Store {
	t.Helper()
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newGuard(t testing.TB, options oagent.GuardOptions) *oagent.Guard {
	t.Helper()
	if options.Store == nil {
		options.Store = openBolt(t)
	}
	if options.ReviewWait == 0 {
		options.ReviewWait = -1
	}
	g, err := oagent.NewGuard(options)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var alice = engagement.User{ID: "alice", Email: "alice@example.com"}

func binding(a *oagent.Agent) oagent.Binding {
	return oagent.Binding{Agent: a, Engagement: "e1", User: alice}
}

func call(a *oagent.Agent, name, inputs string) oagent.Call {
	return oagent.Call{Binding: binding(a), Name: name, Inputs: jsontext.Value(inputs)}
}

// make makes a call whose upstream answers with these outputs. It returns the
// kind of refusal, "" if there is none.
func outcomeOf(t testing.TB, g *oagent.Guard, c oagent.Call, outputs string) engagement.Kind {
	t.Helper()
	ticket, err := g.Begin(t.Context(), c)
	if err != nil {
		return kindOf(t, err)
	}
	return kindOf(t, ticket.Finish(t.Context(), jsontext.Value(outputs), 200))
}

func kindOf(t testing.TB, err error) engagement.Kind {
	t.Helper()
	if err == nil {
		return ""
	}
	r, ok := engagement.AsRefusal(err)
	if !ok {
		t.Fatalf("not a refusal: %v", err)
	}
	return r.Kind
}

func want(t testing.TB, what string, got, wanted engagement.Kind) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s: refused as %q, want %q", what, got, wanted)
	}
}

func audit(t testing.TB, g *oagent.Guard, key string) []engagement.Entry {
	t.Helper()
	var all []engagement.Entry
	for {
		entries, err := g.Engagements.Entries(t.Context(), key, int64(len(all)), engagement.MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
	}
}

// whats returns a summary of the entries.
func whats(entries []engagement.Entry) string {
	var text []string
	for _, e := range entries {
		what := e.Event
		if e.Kind != "" {
			what += ":" + string(e.Kind)
		}
		text = append(text, what)
	}
	return strings.Join(text, " ")
}

// stores are the stores that all must work with: several nodes each, if it can.
func stores(t *testing.T, run func(t *testing.T, nodes []store.Store)) {
	t.Run("bolt", func(t *testing.T) {
		run(t, []store.Store{openBolt(t)})
	})
	storetest.OnShared(t, func(t *testing.T, server *storetest.SharedServer) {
		run(t, []store.Store{server.Open(t), server.Open(t)})
	})
}

// TestContention wants a limit to let through exactly as many calls as it says,
// independent of the caller and the place.
func TestContention(t *testing.T) {
	const limit, clients, each = 100, 64, 4
	for name, assertion := range map[string]string{
		"a total":   "history._total < 100",
		"a list":    "!history._list.exists(n, n == 'other') && history._list.size() < 100",
		"a history": "!('act' in history) || history.act.filter(c, c.inputs.n >= 0).size() < 100",
	} {
		t.Run(name, func(t *testing.T) {
			stores(t, func(t *testing.T, nodes []store.Store) {
				a := agent(t, "capabilities:\n  act:\n    input_restriction:\n      assertion: \""+assertion+"\"\n")
				var guards []*oagent.Guard
				for _, s := range nodes {
					guards = append(guards, newGuard(t, oagent.GuardOptions{Store: s}))
				}
				var mu sync.Mutex
				reached := map[int64]bool{}
				var all sync.WaitGroup
				for client := range clients {
					all.Go(func() {
						g := guards[client%len(guards)]
						for i := range each {
							ticket, err := g.Begin(t.Context(), call(a, "act", fmt.Sprintf(`{"n":%d}`, client*each+i)))
							if err != nil {
								if kind := kindOf(t, err); kind != engagement.KindInputRestriction {
									t.Errorf("refused as %s: %v: %v", kind, err, context.Cause(t.Context()))
								}
								continue
							}
							mu.Lock()
							reached[ticket.Number] = true
							mu.Unlock()
							if err := ticket.Finish(t.Context(), jsontext.Value(`{"ok":true}`), 200); err != nil {
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				if len(reached) != limit {
					t.Errorf("%d calls reached the upstream, want %d", len(reached), limit)
				}
				b := binding(a)
				begun := 0
				for _, e := range audit(t, guards[0], b.Key()) {
					if e.Event == engagement.EntryBegun {
						begun++
						if !reached[e.Call] {
							t.Errorf("call %d is in the record, and did not reach the upstream", e.Call)
						}
					}
				}
				e, err := guards[len(guards)-1].Engagements.Get(t.Context(), b.Key())
				if err != nil {
					t.Fatal(err)
				}
				if got, want := [...]int{begun, int(e.Total), int(e.Refused)}, [...]int{limit, limit, clients*each - limit}; got != want {
					t.Errorf("calls in the record, begun, and refused: got %d, want %d", got, want)
				}
			})
		})
	}
}

// TestBound wants Engagements to be of one agent and one user.
func TestBound(t *testing.T) {
	a := agent(t, "capabilities:\n  act:\n    input_restriction:\n      assertion: history._total < 1\n")
	other := *a
	other.Name = "other"
	g := newGuard(t, oagent.GuardOptions{})
	for name, b := range map[string]oagent.Binding{
		"user":    {Agent: a, Engagement: "e1", User: engagement.User{ID: "bob"}},
		"ghost":   {Agent: a, Engagement: "e1"},
		"agent":   {Agent: &other, Engagement: "e1", User: alice},
		"id":      {Agent: a, Engagement: "e2", User: alice},
		"no id":   {Agent: a, User: alice},
		"shifted": {Agent: a, Engagement: "1", User: engagement.User{ID: "alicee"}},
		"itself":  binding(a),
	} {
		t.Run(name, func(t *testing.T) {
			c := oagent.Call{Binding: b, Name: "act"}
			want(t, "first", outcomeOf(t, g, c, `{}`), "")
			want(t, "second", outcomeOf(t, g, c, `{}`), engagement.KindInputRestriction)
		})
	}
}

// TestInvalid wants what cannot be recorded refused.
// TestCaller_keeps_bytes wants the record to be its own: the caller's bytes may
// change once the call is over.
func TestCaller_keeps_bytes(t *testing.T) {
	a := agent(t, `
capabilities:
  act: {}
  look:
    input_restriction:
      assertion: recent.act.inputs.n == 1 && history.act[0].inputs.n == 1 && recent.act.outputs.n == 2 && history.act[0].outputs.n == 2
`)
	g := newGuard(t, oagent.GuardOptions{})
	want(t, "before", outcomeOf(t, g, call(a, "look", `{}`), `{}`), engagement.KindInputRestriction) // the history is kept from now on
	c := call(a, "act", `{"n":1}`)
	outputs := jsontext.Value(`{"n":2}`)
	ticket, err := g.Begin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := ticket.Finish(t.Context(), outputs, 200); err != nil {
		t.Fatal(err)
	}
	copy(c.Inputs, `{"n":7}`)
	copy(outputs, `{"n":7}`)
	want(t, "after", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
}

func TestInvalid(t *testing.T) {
	a := agent(t, "capabilities:\n  act: {}\n")
	g := newGuard(t, oagent.GuardOptions{})
	long := call(a, "act", `{}`)
	long.Engagement = strings.Repeat("e", engagement.MaxID+1)
	for name, c := range map[string]oagent.Call{
		"an array":     call(a, "act", `[]`),
		"no JSON":      call(a, "act", `{"a":}`),
		"a name twice": call(a, "act", `{"a":1,"a":2}`),
		"too deep":     call(a, "act", `{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`),
		"a long id":    long,
	} {
		want(t, name, outcomeOf(t, g, c, `{}`), engagement.KindInvalid)
	}
	want(t, "no agent", outcomeOf(t, g, oagent.Call{Name: "act"}, `{}`), engagement.KindUnknownAgent)
}

// TestStoreDown wants nothing to pass that cannot be recorded.
func TestStoreDown(t *testing.T) {
	a := agent(t, "capabilities:\n  act: {}\nguardrails:\n  input:\n    tool_name: check\n    assertion: output.ok\nexposes:\n  n: history._total\n")
	s := openBolt(t)
	g := newGuard(t, oagent.GuardOptions{Store: s})
	ticket, err := g.Begin(t.Context(), call(a, "act", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, beginErr := g.Begin(t.Context(), call(a, "act", `{}`))
	finishErr := ticket.Finish(t.Context(), jsontext.Value(`{}`), 200)
	r, ok := engagement.AsRefusal(finishErr)
	if !ok {
		t.Fatalf("got %v, want a refusal", finishErr)
	}
	got := [...]any{r.Kind, r.Made, r.Status(), r.RetryAfter}
	if want := [...]any{engagement.KindStore, true, 500, time.Duration(0)}; got != want {
		t.Errorf("a call that was made must not be offered for repetition: got %v, want %v", got, want)
	}
	for name, err := range map[string]error{
		"begin":     beginErr,
		"guardrail": g.CheckGuardrail(t.Context(), binding(a), engagement.SideInput, jsontext.Value(`{"ok":true}`)),
		"active":    g.CheckActive(t.Context(), binding(a)),
	} {
		r, ok := engagement.AsRefusal(err)
		if !ok {
			t.Fatalf("%s: got %v, want a refusal", name, err)
		}
		if r.Kind != engagement.KindStore || r.Status() != 503 {
			t.Errorf("%s: got %s with status %d, want %s with 503", name, r.Kind, r.Status(), engagement.KindStore)
		}
		if r.RetryAfter <= 0 || strings.Contains(r.Message, "closed") {
			t.Errorf("%s: got %q with a retry after %s, want a later retry, without the error of the store", name, r.Message, r.RetryAfter)
		}
	}
	if _, err := g.Exposed(t.Context(), binding(a)); err == nil {
		t.Error("something is exposed")
	}
}

// TestExpiry wants an Engagement to end with its TTL, and a new one to begin.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // or a slow machine would end it in the middle of a call
		a := agent(t, "capabilities:\n  act:\n    input_restriction:\n      assertion: history._total < 1\n")
		s := openBolt(t)
		g := newGuard(t, oagent.GuardOptions{Store: s, TTL: time.Hour})
		want(t, "first", outcomeOf(t, g, call(a, "act", `{}`), `{}`), "")
		b := binding(a)
		before, err := g.Engagements.Get(t.Context(), b.Key())
		if err != nil {
			t.Fatal(err)
		}
		record, err := s.Get(t.Context(), "engagement/"+b.Key())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Wait(t.Context(), "engagement/"+b.Key(), record.Value); !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		want(t, "after", outcomeOf(t, g, call(a, "act", `{}`), `{}`), "")
		after, err := g.Engagements.Get(t.Context(), b.Key())
		if err != nil || !after.StartedAt.After(before.StartedAt) || after.Total != 1 {
			t.Errorf("%+v after %+v, error %v", after, before, err)
		}
	})
}
