package run_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// say adds an input, and waits for the answer to it.
func (n *node) say(id, input string) *run.State {
	n.t.Helper()
	st, err := n.Conversation(id).AddInput(n.t.Context(), input, "")
	if err != nil {
		n.t.Fatalf("%q: error %v", input, err)
	}
	return n.until(id, "answers "+input, func(now *run.State) bool { return now.Round >= st.Round && run.NotBusy(now) })
}

func TestConversation_goes_on_after_an_answer(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-trip: {}}\n"), script(
		wants("get-trip", `{"day":"Monday"}`), says("At 9."), wants("get-trip", `{"day":"Tuesday"}`), says("At 10.")))
	first := n.idle(n.start("When does it leave on Monday?\nI am late.").ID)
	second := n.say(first.ID, "And on Tuesday?")
	got := [...]any{second.ID, second.Status, second.Text, second.Round}
	if want := [...]any{first.ID, run.StatusComplete, "At 10.", 1}; got != want {
		t.Fatalf("got %v, want %v; ending %+v", got, want, second.Ending)
	}
	if second.Title != "When does it leave on Monday?" {
		t.Errorf("title %q", second.Title)
	}
	if second.Turns != 4 || second.CallsMade != 2 || second.Usage.Total() != 60 {
		t.Errorf("turns %d, calls %d, usage %+v", second.Turns, second.CallsMade, second.Usage)
	}
	requests := n.model.all()
	var said []string
	for _, m := range requests[len(requests)-1].Messages {
		said = append(said, string(m.Role)+" "+m.Text)
	}
	want := "user When does it leave on Monday?\nI am late.|assistant |tool |assistant At 9.|user And on Tuesday?|assistant |tool "
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("the model got %q, want %q", got, want)
	}
	trace, err := n.Trace(t.Context(), second)
	if err != nil || len(trace.Turns) != 6 || trace.Ended.IsZero() {
		t.Errorf("trace %+v, error %v", trace, err)
	}
	testkit.Eventually(t, "one memory of the run", func() bool {
		remembered, err := n.Remembered(t.Context(), "desk", ada)
		return err == nil && len(remembered) == 1 && remembered[0].Answer == "At 10."
	})
}

func TestConversation_has_one_record(t *testing.T) {
	agent := readAgent(t, "capabilities: {get-trip: {input_restriction: {assertion: 'size(history.get-trip) < 2'}}}\n")
	call := wants("get-trip", "{}")
	n := newNode(t, openStore(t), agent, script(call, says("1"), call, says("2"), call, says("3")))
	id := n.idle(n.start("Go").ID).ID
	n.say(id, "Again")
	n.say(id, "And again")
	if got := n.tools.count("get-trip"); got != 2 {
		t.Errorf("the tool was called %d times, but the restriction allows 2 in the Engagement", got)
	}
}

func TestConversation_limits(t *testing.T) {
	call := wants("get-trip", "{}")
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-trip: {}}\n"),
		script(call, says("1"), call, says("2"), call, call, call),
		func(_ *node, o *run.Options) { o.Limits = run.Limits{Turns: 2, Tokens: 1000} })
	id := n.idle(n.start("Go").ID).ID
	if st := n.say(id, "Go on"); st.Status != run.StatusComplete {
		t.Errorf("two turns for each input: %+v", st.Ending)
	}
	if st := n.say(id, "Go on"); st.Ending == nil || st.Ending.Rule != "turns" {
		t.Errorf("three turns for an input: %s %+v", st.Status, st.Ending)
	}

	n = newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), script(says("1"), says("2"), says("3")),
		func(_ *node, o *run.Options) { o.Limits.Tokens = 20 })
	id = n.idle(n.start("Go").ID).ID
	n.say(id, "Go on")
	if st := n.say(id, "Go on"); st.Ending == nil || st.Ending.Rule != "tokens" {
		t.Errorf("tokens count for the whole Engagement: %s %+v", st.Status, st.Ending)
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "Go on", ""); !errors.Is(err, run.ErrEnded) {
		t.Errorf("after the last token: error %v", err)
	}
}

func TestConversation_not_with_runs_of_agents(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), script(says("1")))
	parent := &run.Invocation{Binding: oagent.Binding{Engagement: run.NewID()}}
	st, err := n.Start(t.Context(), run.StartOptions{Agent: n.agent, User: ada, Input: "Go", Review: "R", Reviewed: "K", Parent: parent})
	if err != nil {
		t.Fatal(err)
	}
	n.idle(st.ID)
	if _, err := n.Conversation(st.ID).AddInput(t.Context(), "More", ""); !errors.Is(err, run.ErrEnded) {
		t.Errorf("error %v", err)
	}
}

func TestConversation_inputs_at_once_are_all_read(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(context.Context, *model.Request) (*model.Response, error) { return says("Yes."), nil })
	id := n.idle(n.start("Go").ID).ID
	var group sync.WaitGroup
	for i := range run.MaxInputs {
		group.Go(func() {
			if _, err := n.Conversation(id).AddInput(t.Context(), fmt.Sprint("input ", i), ""); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	testkit.Eventually(t, "the agent has read all inputs", func() bool {
		st := n.idle(id)
		trace, err := n.Trace(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		users := 0
		for _, turn := range trace.Turns {
			if turn.Number == 0 {
				users++
			}
		}
		return users == 1+run.MaxInputs && st.Status == run.StatusComplete
	})
}

func TestConversation_deleted(t *testing.T) {
	waits := make(chan struct{})
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if r.Messages[len(r.Messages)-1].Text == "Wait" {
			<-waits
		}
		return says("Yes."), nil
	})
	busy := n.start("Wait").ID
	if err := n.Conversation(busy).Delete(t.Context()); !errors.Is(err, run.ErrBusy) {
		t.Errorf("a run in progress: error %v", err)
	}
	close(waits)
	id := n.idle(busy).ID
	n.drained()
	if err := n.Conversation(id).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Get(t.Context(), id); !errors.Is(err, run.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	if kept, err := n.Remembered(t.Context(), "desk", ada); err != nil || len(kept) != 0 {
		t.Errorf("the agent remembers %v, error %v", kept, err)
	}
	if deleted, err := n.Conversation(id).IsDeleted(t.Context()); !deleted || err != nil {
		t.Errorf("deleted %t, error %v", deleted, err)
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "More", ""); !errors.Is(err, run.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// A run must not outlive the record that its restrictions read.
func TestConversation_ends_with_its_record(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-trip: {}}\n"), script(wants("get-trip", "{}"), says("1")))
	st := n.idle(n.start("Go").ID)
	b := oagent.Binding{Agent: n.agent, Engagement: st.ID, User: ada}
	n.forgetRecord(b.Key())
	if _, err := n.Conversation(st.ID).AddInput(t.Context(), "More", ""); !errors.Is(err, run.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// TestConversation_crash kills a node at each write of a second round. The input is lost only if the user gets an error.
//
//nolint:tparallel // each case finds out how many follow
func TestConversation_crash(t *testing.T) {
	t.Parallel()
	agent := readAgent(t, "capabilities: {get-trip: {}, book: {}}\n")
	play := func() func(context.Context, *model.Request) (*model.Response, error) {
		return script(wants("book", `{"id":1}`), says("One."), wants("get-trip", "{}", "book", `{"id":2}`), says("Two."))
	}
	writes := 1
	for k := 1; k <= writes; k++ {
		for _, after := range []bool{false, true} {
			if after == (k%2 == 0) && !testkit.Night() {
				continue
			}
			t.Run(fmt.Sprintf("write-%d,made-%t", k, after), func(t *testing.T) {
				s := openStore(t)
				m := newMortal(s, 0, after)
				first := newNode(t, m, agent, play(), func(_ *node, o *run.Options) { o.Report = func(string, error) {} })
				id := first.idle(first.start("Book").ID).ID
				first.drained()
				m.mu.Lock()
				m.at = m.writes + k
				began := m.writes
				m.mu.Unlock()
				_, said := first.Conversation(id).AddInput(t.Context(), "Book again", "")
				if said != nil && !m.isDead() {
					t.Fatal(said)
				}
				over := func(st *run.State) bool { return st.Round > 0 && run.NotBusy(st) }
				if said == nil {
					if st, err := first.Await(t.Context(), id, over); !m.isDead() && (err != nil || !over(st)) {
						t.Fatalf("state %+v, error %v", st, err)
					}
					if !m.isDead() {
						testkit.Eventually(t, "the end of the work", func() bool { return first.Counts().Working == 0 || m.isDead() })
					}
				}
				dead, cancel := context.WithCancel(context.Background())
				cancel()
				_ = first.Close(dead)
				second := newNode(t, s, agent, play(), func(_ *node, o *run.Options) {
					o.Now = func() time.Time { return time.Now().Add(run.DefaultLease) }
				})
				st, err := second.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if st.Turns > 2 || len(st.Inputs) > 0 || said == nil { // the input was stored
					st = second.until(id, "goes on", over)
				} else { // the user sends it again
					st = second.say(id, "Book again")
				}
				if st.Text != "Two." || st.Status != run.StatusComplete {
					t.Errorf("status %s, text %q, ending %+v", st.Status, st.Text, st.Ending)
				}
				if made := first.tools.count("book") + second.tools.count("book"); made > 2 {
					t.Errorf("booked %d times", made)
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				if !m.isDead() {
					return
				}
				writes = max(writes, m.writes-began+1)
			})
		}
	}
	if writes < 8 {
		t.Errorf("the round takes only %d writes", writes)
	}
}

// TestConversation_memory holds 1,000 conversations of ten rounds. Those that have ended use no memory of the process.
func TestConversation_memory(t *testing.T) {
	if testing.Short() {
		t.Skip("1,000 conversations take some seconds")
	}
	s := openStore(t)
	n := newNode(t, s, readAgent(t, "capabilities: {}\n"), func(context.Context, *model.Request) (*model.Response, error) {
		return says(strings.Repeat("An answer. ", 20)), nil
	})
	ids := make([]string, 1000)
	round := func(say func(i int) error) {
		var group sync.WaitGroup
		next := make(chan int)
		for range 32 {
			group.Go(func() {
				for i := range next {
					if err := say(i); err != nil {
						t.Error(err)
						continue
					}
					n.idle(ids[i])
				}
			})
		}
		for i := range ids {
			next <- i
		}
		close(next)
		group.Wait()
	}
	heap := func() uint64 {
		n.drained()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	round(func(i int) error {
		st, err := n.Start(t.Context(), run.StartOptions{Agent: n.agent, User: engagement.User{ID: fmt.Sprint("user-", i%50)}, Input: "Go"})
		if err == nil {
			ids[i] = st.ID
		}
		return err
	})
	before, began := heap(), time.Now()
	for range 9 {
		round(func(i int) error {
			_, err := n.Conversation(ids[i]).AddInput(t.Context(), "Go on", "")
			return err
		})
	}
	after := heap()
	t.Logf("heap after 1,000 rounds %d KB, after 10,000 %d KB; %s a round", before>>10, after>>10, time.Since(began)/9000)
	if grown := int64(after) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// forgetRecord deletes the record of an Engagement, as if it had expired.
func (n *node) forgetRecord(key string) {
	n.t.Helper()
	all, err := n.store.Keys(n.t.Context(), "", "", 1000)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, k := range all {
		if strings.Contains(k, key) && !strings.HasPrefix(k, "run") {
			if err := n.store.Delete(n.t.Context(), k); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}
