package run_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// TestNodes_one_at_a_time checks that two Runners on one store do not work on the same run,
// however often both are woken.
func TestNodes_one_at_a_time(t *testing.T) {
	for _, process := range []string{"", "a"} {
		t.Run("process "+process, func(t *testing.T) { oneAtATime(t, process) })
	}
}

func oneAtATime(t *testing.T, process string) {
	s := openStore(t)
	agent := readAgent(t, "capabilities: {book: {}}\n")
	const runs, turns = 10, 5
	var mu sync.Mutex
	inProgress, made := make(map[string]bool), make(map[string]int)
	book := func(_ context.Context, i *run.Invocation) (string, error) {
		mu.Lock()
		if inProgress[i.Engagement] {
			t.Errorf("two nodes work on %s", i.Engagement)
		}
		inProgress[i.Engagement] = true
		made[i.Engagement]++
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			inProgress[i.Engagement] = false
		}()
		return "{}", nil
	}
	steps := make([]*model.Response, 0, turns+1)
	for i := range turns {
		steps = append(steps, wants("book", fmt.Sprintf(`{"n":%d}`, i)))
	}
	steps = append(steps, says("Done."))
	var nodes [2]*node
	for i := range nodes {
		nodes[i] = newNode(t, s, agent, script(steps...), func(n *node, o *run.Options) {
			n.tools.tools["book"] = book
			o.Sweep, o.Process = 5*time.Millisecond, process
		})
	}
	var ids []string
	for range runs {
		id := nodes[0].start("Go").ID
		ids = append(ids, id)
		if err := nodes[1].Wake(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		st := nodes[1].ends(id)
		mu.Lock()
		if st.Text != "Done." || st.Turns != turns+1 || made[id] != turns {
			t.Errorf("text %q, %d turns, %d calls", st.Text, st.Turns, made[id])
		}
		mu.Unlock()
	}
}

// TestClose_goes_on_elsewhere checks that Close interrupts a run between two steps, and that
// another node goes on with it at once.
func TestClose_goes_on_elsewhere(t *testing.T) {
	s := openStore(t)
	agent := readAgent(t, "capabilities: {book: {}, pay: {}}\n")
	steps := script(wants("book", `{}`, "pay", `{}`), says("Done."))
	b := newBlocker()
	first := newNode(t, s, agent, steps)
	first.tools.tools["book"] = func(ctx context.Context, _ *run.Invocation) (string, error) { return `"booked"`, b.wait(ctx) }
	id := first.start("Go").ID
	<-b.began
	closed := make(chan error)
	go func() { closed <- first.Close(context.Background()) }()
	testkit.Eventually(t, "the beginning of Close", first.IsClosing)
	close(b.release)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	second := newNode(t, s, agent, steps)
	if st := second.ends(id); st.Text != "Done." {
		t.Errorf("status %s", st.Status)
	}
	got := [...]int{first.tools.count("book"), first.tools.count("pay"), second.tools.count("book"), second.tools.count("pay")}
	if want := [...]int{1, 0, 0, 1}; got != want {
		t.Errorf("calls of book and pay, on both nodes: got %v, want %v; calls %q and %q", got, want, first.tools.calls(), second.tools.calls())
	}
	if !strings.Contains(second.results(), "booked") || strings.Contains(second.results(), "unknown whether") {
		t.Errorf("the model got %s", second.results())
	}
}

// TestClose_hands_on checks that a Runner that has stopped gives what it cannot work on to others.
func TestClose_hands_on(t *testing.T) {
	var handed []string
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), script(says("Done.")), func(_ *node, o *run.Options) {
		o.Handover = func(id string) { handed = append(handed, id) }
	})
	n.close()
	id := n.start("Go").ID
	if _, err := n.Conversation(id).AddInput(t.Context(), "and go on", ""); err != nil {
		t.Fatal(err)
	}
	if err := n.Wake(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if want := []string{id, id, id}; !slices.Equal(handed, want) {
		t.Errorf("handed on %q, want %q", handed, want)
	}
}

// TestClose_interrupts checks that a call that Close interrupts is not made again, and that the
// model learns of it.
func TestClose_interrupts(t *testing.T) {
	s := openStore(t)
	agent := readAgent(t, "capabilities: {book: {}, get-trip: {}}\n")
	for _, test := range []struct {
		tool  string
		again int
		model string
	}{{"book", 0, "unknown whether"}, {"get-trip", 1, `{"ok":true}`}} {
		steps := script(wants(test.tool, `{}`), says("Done."))
		b := newBlocker()
		first := newNode(t, s, agent, steps)
		first.tools.tools[test.tool] = func(ctx context.Context, _ *run.Invocation) (string, error) { return "{}", b.wait(ctx) }
		id := first.start("Go").ID
		<-b.began
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if err := first.Close(now); err == nil {
			t.Error("Close did not interrupt")
		}
		second := newNode(t, s, agent, steps)
		second.ends(id)
		if got := second.results(); second.tools.count(test.tool) != test.again || !strings.Contains(got, test.model) {
			t.Errorf("%s: made %d times again, the model got %s", test.tool, second.tools.count(test.tool), got)
		}
		second.close()
	}
}

// TestNote checks that an attempt of a call goes on with the text that an earlier one has stored before its node died: the Guard has
// allowed the call once.
func TestNote(t *testing.T) {
	s := openStore(t)
	agent := readAgent(t, "capabilities: {book: {}}\n")
	m, noted := newMortal(s, 0, false), make(chan struct{})
	first := newNode(t, m, agent, script(wants("book", `{}`), says("Done.")), func(n *node, o *run.Options) {
		n.tools.tools["book"] = func(ctx context.Context, i *run.Invocation) (string, error) {
			if err := i.Note("at 7"); err != nil || i.Noted != "" {
				t.Errorf("note %q, error %v", i.Noted, err)
			}
			close(noted)
			<-ctx.Done()
			return "{}", ctx.Err()
		}
		o.Process, o.Report = "first", func(string, error) {}
	})
	id := first.start("Go").ID
	<-noted
	close(m.dead)
	var attempts []string
	second := newNode(t, s, agent, script(wants("book", `{}`), says("Done.")), func(n *node, o *run.Options) {
		o.Process = "second"
		n.tools.tools["book"] = func(_ context.Context, i *run.Invocation) (string, error) {
			attempts = append(attempts, fmt.Sprint(i.Noted, " ", i.Uncertain))
			return `{"booked":true}`, nil
		}
	})
	if second.ends(id); !slices.Equal(attempts, []string{"at 7 true"}) {
		t.Errorf("attempts %q", attempts)
	}
	if calls, results := second.recorded(id); len(calls) != 1 || !slices.Equal(results, []string{`{"booked":true}`}) || !strings.Contains(second.results(), "booked") {
		t.Errorf("recorded calls %q, results %q; the model got %s", calls, results, second.results())
	}
}

// TestHome checks that a run stays with its home while the home is alive.
func TestHome(t *testing.T) {
	s := openStore(t)
	agent := readAgent(t, "capabilities: {}\n")
	b := newBlocker()
	home := newNode(t, s, agent, func(ctx context.Context, _ *model.Request) (*model.Response, error) {
		return says("Home."), b.wait(ctx)
	}, func(_ *node, o *run.Options) { o.Workers = 1 })
	start := func() string {
		st, err := home.Start(t.Context(), run.StartOptions{Agent: agent, User: ada, Input: "Go", Home: true})
		if err != nil {
			t.Fatal(err)
		}
		return st.ID
	}
	first := start()
	<-b.began
	second := start() // waits for the only worker
	swept := make(chan struct{}, 1000)
	other := newNode(t, s, agent, script(says("Elsewhere.")), func(_ *node, o *run.Options) {
		o.Sweep = time.Millisecond
		o.Agent = func(string) *oagent.Agent {
			select {
			case swept <- struct{}{}:
			default:
			}
			return agent
		}
	})
	for range 20 {
		<-swept
	}
	close(b.release)
	for _, id := range []string{first, second} {
		if st := other.ends(id); st.Text != "Home." {
			t.Errorf("text %q", st.Text)
		}
	}
}

// TestProcess checks that a run goes on at once if the process that worked on it has ended and no other
// one can use the store. Its calls are not repeated.
func TestProcess(t *testing.T) {
	for _, home := range []bool{false, true} {
		t.Run(fmt.Sprintf("home %t", home), func(t *testing.T) {
			s := openStore(t)
			agent := readAgent(t, "capabilities: {book: {}}\n")
			steps := script(wants("book", "{}"), says("Done."))
			m, b := newMortal(s, 0, false), newBlocker()
			first := newNode(t, m, agent, steps, func(n *node, o *run.Options) {
				n.tools.tools["book"] = func(ctx context.Context, _ *run.Invocation) (string, error) { return "{}", b.wait(ctx) }
				o.Process, o.Report = "first", func(string, error) {}
			})
			st, err := first.Start(t.Context(), run.StartOptions{Agent: agent, User: ada, Input: "Go", Home: home})
			if err != nil {
				t.Fatal(err)
			}
			<-b.began
			close(m.dead)
			second := newNode(t, s, agent, steps, func(_ *node, o *run.Options) { o.Process = "second" })
			if end := second.ends(st.ID); end.Text != "Done." || second.tools.count("book") != 0 || !strings.Contains(second.results(), "unknown whether") {
				t.Errorf("state %+v, calls %q, the model got %s", end, second.tools.calls(), second.results())
			}
		})
	}
}
