package run_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
)

// shaky is a store whose every third change of a run fails, by turns before and after it is made.
type shaky struct {
	store.Store
	mu     sync.Mutex
	writes int
}

var errShaky = errors.New("the connection was lost")

func (s *shaky) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if !strings.HasPrefix(key, "run/") {
		return s.Store.Update(ctx, key, change)
	}
	s.mu.Lock()
	s.writes++
	n := s.writes
	s.mu.Unlock()
	if n%6 == 0 {
		return errShaky
	}
	err := s.Store.Update(ctx, key, change)
	if n%6 == 3 && err == nil {
		return errShaky
	}
	return err
}

// TestStore_fails checks that a run survives changes that fail, made or not: no step is lost or
// made twice.
func TestStore_fails(t *testing.T) {
	n := newNode(t, &shaky{Store: openStore(t)}, readAgent(t, "capabilities: {book: {}, get-trip: {}}\n"),
		script(wants("book", `{"n":1}`), wants("get-trip", `{"n":1}`, "get-trip", `{"n":2}`), wants("book", `{"n":2}`), wants("book", `{"n":3}`), says("Done.")),
		func(_ *node, o *run.Options) { o.Lease, o.Sweep = 5*time.Second, 100*time.Millisecond }) // a slow machine must not end the lease
	st := n.ends(n.start("Go").ID)
	if st.Text != "Done." || st.Turns != 5 {
		t.Errorf("text %q, %d turns, ending %+v", st.Text, st.Turns, st.Ending)
	}
	if n.tools.count("book") != 3 || strings.Contains(n.results(), "unknown whether") {
		t.Errorf("calls %q, the model got %s", n.tools.calls(), n.results())
	}
}

// TestModel_panics checks that a run whose step always fails ends.
func TestModel_panics(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(context.Context, *model.Request) (*model.Response, error) {
		panic("oops")
	}, func(_ *node, o *run.Options) { o.Lease, o.Sweep = 10*time.Millisecond, 10*time.Millisecond })
	if st := n.ends(n.start("Go").ID); endOf(st) != run.EndInternal {
		t.Errorf("ending %+v", st.Ending)
	}
}

// TestUnknownTool_is_recorded checks that the record of the Engagement has the refusal of a call of
// an unknown tool.
func TestUnknownTool_is_recorded(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), script(wants("drop-table", `{}`), says("Done.")))
	id := n.start("Go").ID
	n.ends(id)
	b := oagent.Binding{Agent: n.agent, Engagement: id, User: ada}
	entries, err := n.guard.Engagements.Entries(t.Context(), b.Key(), 0, 10)
	if err != nil || len(entries) != 1 {
		t.Fatalf("got the entries %+v, want one; error %v", entries, err)
	}
	e := entries[0]
	if got, want := [...]any{e.Event, e.Kind, e.Name}, [...]any{engagement.EntryRefused, engagement.KindNotAllowed, "drop-table"}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// parents are tools of which one is an agent: a call of it starts a run.
type parents struct {
	*fakeTools
	n *node
}

func (p *parents) Call(ctx context.Context, i *run.Invocation) run.Result {
	if i.Waited == nil {
		st, err := p.n.Start(ctx, run.StartOptions{Agent: p.n.agent, User: i.User, Input: "Deeper", Parent: i})
		if err != nil {
			return run.Result{Text: err.Error(), IsError: true}
		}
		return run.Result{Wait: &run.Wait{Kind: run.WaitTask, ID: st.ID}}
	}
	st, err := p.n.Get(ctx, i.Waited.ID)
	switch {
	case err != nil:
		return run.Result{Text: err.Error(), IsError: true}
	case !st.Status.IsFinal():
		return run.Result{Wait: i.Waited}
	}
	return run.Result{Text: st.Text}
}

// TestParent checks that the end of a run wakes the run whose call started it, and that runs do not
// nest without end.
func TestParent(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {oagent://desk: {}}\n"), func(_ context.Context, r *model.Request) (*model.Response, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == model.RoleUser {
			return wants("desk", `{}`), nil
		}
		return says("I heard: " + last.Results[0].Content), nil
	}, func(n *node, o *run.Options) { o.Tools, o.Sweep = &parents{n.tools, n}, time.Hour })
	st := n.ends(n.start("Go").ID)
	if st.Status != run.StatusComplete || !strings.Contains(st.Text, "nested deeper") || strings.Count(st.Text, "heard") != run.MaxDepth+1 {
		t.Errorf("status %s, text %s", st.Status, st.Text)
	}
}

// TestSweep_unreadable checks that a run that cannot be read does not keep a sweep from others.
func TestSweep_unreadable(t *testing.T) {
	s := openStore(t)
	for key, value := range map[string]string{"run/AAAA": "{", "run-index/0": "AAAA"} {
		if err := s.Put(t.Context(), key, store.Change{Value: []byte(value), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	agent := readAgent(t, "capabilities: {}\n")
	b := newBlocker()
	first := newNode(t, s, agent, func(ctx context.Context, _ *model.Request) (*model.Response, error) { return nil, b.wait(ctx) })
	id := first.start("Go").ID
	<-b.began
	first.close() // interrupts the request, and gives the lease back
	second := newNode(t, s, agent, script(says("Done.")))
	if st := second.ends(id); st.Text != "Done." {
		t.Errorf("ending %+v", st.Ending)
	}
}
