package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

const reviewedAgent = "capabilities: {pay: {input_restriction: {require_review: boss}}, refund: {output_restriction: {require_review: boss}}, book: {}, get-trip: {}}\n"

// pendingReview returns the review that the run waits for.
func pendingReview(t *testing.T, st *run.State) string {
	t.Helper()
	v := st.View()
	if st.Status != run.StatusAwaitingReview || len(v.Reviews) != 1 {
		t.Fatalf("status %s, ending %+v, reviews %+v", st.Status, st.Ending, v.Reviews)
	}
	return v.Reviews[0].Review
}

func (n *node) decide(review string, approve bool) {
	n.t.Helper()
	if _, err := n.guard.Reviews.Decide(n.t.Context(), review, "boss", approve, "so be it"); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) ends(id string) *run.State {
	n.t.Helper()
	return n.until(id, "ends", func(st *run.State) bool { return st.Status.IsFinal() })
}

// TestReview checks that a run waits for its reviewer, and goes on by itself when the reviewer
// has decided (OpenAgentSpec v1, Agent, 12).
func TestReview(t *testing.T) {
	for _, test := range []struct {
		name, tool string
		approve    bool
		made       int
		model      string
	}{
		{"input/approved", "pay", true, 1, `{"ok":true}`},
		{"input/denied", "pay", false, 0, "so be it"},
		{"output/approved", "refund", true, 1, `{"ok":true}`},
		{"output/denied", "refund", false, 1, "so be it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(wants(test.tool, `{"sum":5}`), says("Done.")))
			id := n.start("Pay").ID
			review := pendingReview(t, n.idle(id))
			n.drained()
			n.decide(review, test.approve)
			if st := n.ends(id); st.Text != "Done." || st.CallsMade != 1 {
				t.Errorf("status %s, ending %+v", st.Status, st.Ending)
			}
			if n.tools.count(test.tool) != test.made || !strings.Contains(n.results(), test.model) {
				t.Errorf("%d calls, the model got %s", n.tools.count(test.tool), n.results())
			}
		})
	}
}

// TestReview_others_go_on checks that the other calls of the message are made while one waits.
func TestReview_others_go_on(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(wants("pay", `{}`, "book", `{}`, "get-trip", `{}`), says("Done.")))
	id := n.start("Pay").ID
	review := pendingReview(t, n.idle(id))
	if n.tools.count("book") != 1 || n.tools.count("get-trip") != 1 {
		t.Errorf("calls %q", n.tools.calls())
	}
	n.decide(review, true)
	n.ends(id)
	if calls := n.tools.calls(); len(calls) != 3 || calls[2] != "pay {}" {
		t.Errorf("calls %q", calls)
	}
}

// TestReview_while_no_runner checks that a decision counts that was made while no Runner was there.
func TestReview_while_no_runner(t *testing.T) {
	s := openStore(t)
	agent := readAgent(t, reviewedAgent)
	steps := script(wants("refund", `{}`), says("Done."))
	first := newNode(t, s, agent, steps)
	id := first.start("Refund").ID
	review := pendingReview(t, first.idle(id))
	first.close()
	first.decide(review, true)

	second := newNode(t, s, agent, steps)
	if st := second.ends(id); st.Text != "Done." || first.tools.count("refund") != 1 || second.tools.count("refund") != 0 {
		t.Errorf("status %s, %d and %d calls", st.Status, first.tools.count("refund"), second.tools.count("refund"))
	}
}

// TestWaiting checks that sweeps count the runs that wait.
func TestWaiting(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(wants("pay", `{"sum":5}`), says("Done.")),
		func(_ *node, o *run.Options) { o.Sweep = 5 * time.Millisecond })
	counts := func(want int) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprint(want, " runs wait"), func() bool { return n.Counts().Waiting == want })
	}
	counts(0)
	id := n.start("Pay").ID
	review := pendingReview(t, n.idle(id))
	n.start("Pay again")
	counts(2)
	n.decide(review, true)
	n.ends(id)
	counts(1)
}

// TestReview_not_noticed checks that a sweep finds a decision that no Wake announced.
func TestReview_not_noticed(t *testing.T) {
	s := openStore(t)
	agent := readAgent(t, reviewedAgent)
	n := newNode(t, s, agent, script(wants("pay", `{}`), says("Done.")), func(_ *node, o *run.Options) { o.Sweep = 20 * time.Millisecond })
	id := n.start("Pay").ID
	review := pendingReview(t, n.idle(id))
	other := newNode(t, s, agent, nil, func(_ *node, o *run.Options) { o.Sweep = time.Hour })
	other.close()
	other.decide(review, true) // its Wake goes to a Runner that is closed
	if st := n.ends(id); st.Text != "Done." {
		t.Errorf("status %s", st.Status)
	}
}

// blocker is a tool or model that waits until it is released or interrupted.
type blocker struct {
	began, release chan struct{}
	once           sync.Once
}

func newBlocker() *blocker {
	return &blocker{began: make(chan struct{}), release: make(chan struct{})}
}

func (b *blocker) wait(ctx context.Context) error {
	b.once.Do(func() { close(b.began) })
	select {
	case <-b.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestCancel cancels a run in each status.
func TestCancel(t *testing.T) {
	steps := map[run.Status]*model.Response{
		run.StatusAwaitingModel:  says("Never."),
		run.StatusAwaitingTool:   wants("book", `{}`),
		run.StatusAwaitingReview: wants("pay", `{}`),
		run.StatusAwaitingInput:  wants("ask-user", `{"question":"Where?"}`),
	}
	for status, step := range steps {
		t.Run(string(status), func(t *testing.T) {
			b := newBlocker()
			n := newNode(t, openStore(t), readAgent(t, reviewedAgent), func(ctx context.Context, r *model.Request) (*model.Response, error) {
				if status == run.StatusAwaitingModel {
					if err := b.wait(ctx); err != nil {
						return nil, err
					}
				}
				return script(step, says("Done."))(ctx, r)
			})
			n.tools.tools["book"] = func(ctx context.Context, _ *run.Invocation) (string, error) { return "{}", b.wait(ctx) }
			id := n.start("Go").ID
			if status.IsBusy() {
				<-b.began
			}
			before := n.until(id, "has the status", func(st *run.State) bool { return st.Status == status })
			st, err := n.Cancel(t.Context(), id)
			if err != nil || st.Status != run.StatusError || endOf(st) != run.EndCanceled {
				t.Fatalf("error %v, state %+v", err, st)
			}
			n.drained() // the step was interrupted
			if st, err := n.Get(t.Context(), id); err != nil || endOf(st) != run.EndCanceled {
				t.Errorf("error %v, ending %+v", err, endOf(st))
			}
			if _, err := n.Cancel(t.Context(), id); !errors.Is(err, run.ErrEnded) {
				t.Errorf("canceled again: error %v", err)
			}
			if status == run.StatusAwaitingReview {
				if open, err := n.guard.Reviews.List(t.Context(), "boss"); err != nil || len(open) != 0 {
					t.Errorf("the review %v is still open: %v, error %v", before.Waits(), open, err)
				}
			}
		})
	}
	for _, step := range []*model.Response{says("Done."), {Stop: model.StopRefused}} {
		n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(step))
		id := n.start("Go").ID
		st := n.ends(id)
		if _, err := n.Cancel(t.Context(), id); !errors.Is(err, run.ErrEnded) {
			t.Errorf("%s: error %v", st.Status, err)
		}
		if _, err := n.Conversation(id).AddInput(t.Context(), "More", ""); st.Status == run.StatusError && !errors.Is(err, run.ErrEnded) {
			t.Errorf("%s: input: error %v", st.Status, err)
		}
	}
}

// slowTools return the result of a call only when they are released, although the run was canceled.
type slowTools struct {
	*fakeTools
	task           string // that a call starts; "" for none
	began, release chan struct{}
}

func (s *slowTools) Call(_ context.Context, i *run.Invocation) run.Result {
	r := s.fakeTools.Call(context.Background(), i)
	if s.task != "" {
		r = run.Result{Wait: &run.Wait{Kind: run.WaitTask, ID: s.task}}
	}
	close(s.began)
	<-s.release
	return r
}

// TestCancel_before_the_wait_is_stored cancels a run after a call has requested a review, or has started
// another run, and before the state of the run says so.
func TestCancel_before_the_wait_is_stored(t *testing.T) {
	for _, what := range []string{"review", "review of a dead node", "task"} {
		t.Run(what, func(t *testing.T) {
			s := openStore(t)
			agent := readAgent(t, reviewedAgent)
			m := newMortal(s, 0, false)
			slow := &slowTools{began: make(chan struct{}), release: make(chan struct{})}
			n := newNode(t, m, agent, script(wants("pay", `{}`), says("Done.")), func(n *node, o *run.Options) {
				slow.fakeTools, o.Tools, o.Report = n.tools, slow, func(string, error) {}
			})
			if what == "task" {
				slow.task = run.NewID()
			}
			id := n.start("Pay").ID
			<-slow.began
			other := newNode(t, s, agent, func(ctx context.Context, _ *model.Request) (*model.Response, error) {
				return nil, newBlocker().wait(ctx)
			})
			if slow.task != "" {
				if _, err := other.Start(t.Context(), run.StartOptions{ID: slow.task, Agent: agent, User: ada, Input: "Wait"}); err != nil {
					t.Fatal(err)
				}
			}
			if what == "review of a dead node" {
				close(m.dead)
			}
			if _, err := other.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			close(slow.release)
			if !m.isDead() { // a node whose store fails tries again
				n.drained()
			}
			if open, err := other.guard.Reviews.List(t.Context(), "boss"); err != nil || len(open) != 0 {
				t.Errorf("open reviews %v, error %v", open, err)
			}
			if slow.task != "" {
				if st, err := other.Get(t.Context(), slow.task); err != nil || endOf(st) != run.EndCanceled {
					t.Errorf("the task: error %v, state %+v", err, st)
				}
			}
		})
	}
}

// TestCancel_of_a_dead_parent kills a node when a call has started another run, before the state of its own run
// says so. If another node cancels the own run, the other run ends too, even if it was started after that.
func TestCancel_of_a_dead_parent(t *testing.T) {
	for name, late := range map[string]bool{"after the start": false, "before the start": true} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			agent := readAgent(t, reviewedAgent)
			m := newMortal(s, 0, false)
			calling := &callingTools{calls: make(chan *run.Invocation, 1)}
			n := newNode(t, m, agent, script(wants("book", `{}`)), func(n *node, o *run.Options) {
				calling.fakeTools, o.Tools, o.Report = n.tools, calling, func(string, error) {}
			})
			id := n.start("Book").ID
			call := <-calling.calls
			close(m.dead)
			other := newNode(t, s, agent, func(ctx context.Context, _ *model.Request) (*model.Response, error) {
				return nil, newBlocker().wait(ctx)
			})
			started := func() {
				t.Helper()
				if _, err := other.Start(t.Context(), run.StartOptions{ID: call.ChildID(), Agent: agent, User: ada, Input: "Wait", Parent: call}); err != nil {
					t.Fatal(err)
				}
			}
			if !late {
				started()
			}
			if _, err := other.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if late {
				started()
			}
			if st := other.ends(call.ChildID()); endOf(st) != run.EndCanceled {
				t.Errorf("the run that was started: %+v", st)
			}
		})
	}
}

// callingTools tell the test of each call, which then does not return before the end of its node.
type callingTools struct {
	*fakeTools
	calls chan *run.Invocation
}

func (c *callingTools) Call(ctx context.Context, i *run.Invocation) run.Result {
	c.calls <- i
	<-ctx.Done()
	return run.Result{Unknown: true}
}

// TestCancel_closes_reviews checks the comment of a review whose run was canceled.
func TestCancel_closes_reviews(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(wants("pay", `{}`)))
	id := n.start("Pay").ID
	pending := pendingReview(t, n.idle(id))
	if _, err := n.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if r, err := n.guard.Reviews.Get(t.Context(), pending, "boss"); err != nil || r.Status != engagement.ReviewDenied || !strings.Contains(r.Comment, "canceled") {
		t.Errorf("the review is %+v, error %v", r, err)
	}
}

// TestInput_while_running checks that the agent gets what the user says while it works.
func TestInput_while_running(t *testing.T) {
	b := newBlocker()
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(wants("book", `{}`), says("Booked."), says("Done.")))
	n.tools.tools["book"] = func(ctx context.Context, _ *run.Invocation) (string, error) { return "{}", b.wait(ctx) }
	id := n.start("Book").ID
	<-b.began
	for range run.MaxInputs {
		if _, err := n.Conversation(id).AddInput(t.Context(), "Hurry", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Conversation(id).AddInput(t.Context(), "Hurry", ""); !errors.Is(err, run.ErrFull) {
		t.Errorf("too many inputs: error %v", err)
	}
	close(b.release)
	n.ends(id)
	last := n.model.all()[1].Messages
	if m := last[len(last)-1]; len(last) != 3+run.MaxInputs || m.Role != model.RoleUser || m.Text != "Hurry" {
		t.Errorf("the model got %+v", last)
	}
}

// TestInput_bad checks that inputs that cannot be used are rejected.
func TestInput_bad(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(says("Done.")))
	for _, text := range []string{"", strings.Repeat("x", run.MaxInput+1)} {
		if st, err := n.Start(t.Context(), run.StartOptions{Agent: n.agent, User: ada, Input: text}); err == nil {
			t.Errorf("%d bytes: started %s", len(text), st.ID)
		}
	}
	for _, id := range []string{"", "x/y", "ABC", strings.Repeat("A", 600), "."} {
		if _, err := n.Get(t.Context(), id); !errors.Is(err, run.ErrNotFound) {
			t.Errorf("%q: error %v", id, err)
		}
		if _, err := n.Conversation(id).AddInput(t.Context(), "Hello", ""); !errors.Is(err, run.ErrNotFound) {
			t.Errorf("%q: input: error %v", id, err)
		}
		if _, err := n.Await(t.Context(), id, run.NotBusy); !errors.Is(err, run.ErrNotFound) {
			t.Errorf("%q: Await: error %v", id, err)
		}
	}
}

// waitingTools make a call wait until its condition holds.
type waitingTools struct {
	*fakeTools
	wait *run.Wait
	open chan struct{} // closed when the wait is over
}

func (w *waitingTools) Call(ctx context.Context, i *run.Invocation) run.Result {
	select {
	case <-w.open:
		if i.Waited == nil || i.Waited.ID != w.wait.ID {
			return run.Result{Text: "it has not waited", IsError: true}
		}
		return w.fakeTools.Call(ctx, i)
	default:
		return run.Result{Wait: w.wait}
	}
}

// TestWait checks that a call that waits for credentials or a task is repeated after Wake.
func TestWait(t *testing.T) {
	for _, test := range []struct {
		kind   run.WaitKind
		status run.Status
	}{
		{run.WaitCredentials, run.StatusAwaitingInput},
		{run.WaitTask, run.StatusAwaitingTool},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			w := &waitingTools{wait: &run.Wait{Kind: test.kind, ID: "w1", Message: "Sign in."}, open: make(chan struct{})}
			n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(wants("book", `{}`), says("Done.")), func(n *node, o *run.Options) {
				w.fakeTools, o.Tools, o.Sweep = n.tools, w, time.Hour
			})
			id := n.start("Book").ID
			st := n.until(id, "waits", func(st *run.State) bool { return len(st.Waits()) > 0 && st.Lease.Token == "" })
			if v := st.View(); st.Status != test.status || (v.Reason == "Sign in.") != (test.kind == run.WaitCredentials) {
				t.Errorf("status %s, reason %q", st.Status, v.Reason)
			}
			n.drained()
			close(w.open)
			if err := n.Rehome(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if st := n.ends(id); st.Text != "Done." || n.tools.count("book") != 1 {
				t.Errorf("ending %+v, %d calls", st.Ending, n.tools.count("book"))
			}
		})
	}
}

// TestParallel checks that idempotent calls of one message are made at the same time.
func TestParallel(t *testing.T) {
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), script(wants("get-trip", `{"n":1}`, "get-trip", `{"n":2}`), says("Done.")))
	var both sync.WaitGroup
	both.Add(2)
	n.tools.tools["get-trip"] = func(context.Context, *run.Invocation) (string, error) {
		both.Done()
		both.Wait()
		return "{}", nil
	}
	if st := n.idle(n.start("Go").ID); st.Text != "Done." {
		t.Errorf("status %s", st.Status)
	}
}

// TestLimit_time checks that a run ends when its time is over, in the middle of a step too.
func TestLimit_time(t *testing.T) {
	b := newBlocker()
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), func(ctx context.Context, _ *model.Request) (*model.Response, error) {
		return nil, b.wait(ctx)
	}, func(_ *node, o *run.Options) { o.Limits.Time = 50 * time.Millisecond })
	if st := n.idle(n.start("Go").ID); endOf(st) != run.EndLimit || st.Ending.Rule != "time" {
		t.Errorf("status %s, ending %+v", st.Status, st.Ending)
	}
}

// TestFollow checks the events of a run: states, and the text of the model between them.
func TestFollow(t *testing.T) {
	b := newBlocker()
	n := newNode(t, openStore(t), readAgent(t, reviewedAgent), func(ctx context.Context, _ *model.Request) (*model.Response, error) {
		return says("Done."), b.wait(ctx)
	})
	var statuses []run.Status
	var text string
	err := n.Follow(t.Context(), n.start("Go").ID, func(e run.Event) error {
		if e.State == nil {
			text += e.Text
			return nil
		}
		if statuses = append(statuses, e.State.Status); len(statuses) == 1 {
			close(b.release)
		}
		return nil
	})
	if err != nil || text != "Done." {
		t.Errorf("got the text %q and the error %v, want Done.", text, err)
	}
	if statuses[len(statuses)-1] != run.StatusComplete || !slices.Contains(statuses, run.StatusAwaitingModel) {
		t.Errorf("got the statuses %v, want %s, and %s at the end", statuses, run.StatusAwaitingModel, run.StatusComplete)
	}
}
