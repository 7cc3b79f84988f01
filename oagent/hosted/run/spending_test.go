package run_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// callsItself makes each call of the agent desk start a run of it.
type callsItself struct{ n *node }

func (c callsItself) Describe(*oagent.Agent) []run.Tool {
	return []run.Tool{{Tool: model.Tool{Name: "desk"}, Agent: true, Idempotent: true}}
}

func (c callsItself) Call(ctx context.Context, i *run.Invocation) run.Result {
	st, err := c.n.Get(ctx, i.ChildID())
	if errors.Is(err, run.ErrNotFound) {
		st, err = c.n.Start(ctx, run.StartOptions{ID: i.ChildID(), Agent: c.n.agent, User: i.User, Input: "Go", Parent: i})
	}
	switch {
	case errors.Is(err, run.ErrTooDeep):
		return run.Notice(err.Error())
	case err != nil:
		return run.Notice(err.Error())
	case !st.Status.IsFinal():
		return run.Result{Wait: &run.Wait{Kind: run.WaitTask, ID: st.ID}}
	}
	return run.Result{Text: "done"}
}

func (c callsItself) CheckText(context.Context, oagent.Binding, engagement.Side, string) error {
	return nil
}

// tree plays an agent that calls itself four times, down to a depth.
func tree(t *testing.T, limits run.Limits) (*node, *atomic.Int64) {
	var requests atomic.Int64
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {oagent://desk: {}}\n"), func(_ context.Context, r *model.Request) (*model.Response, error) {
		requests.Add(1)
		if len(r.Messages) == 1 && requests.Load() < 10_000 {
			return wants("desk", "{}", "desk", "{}", "desk", "{}", "desk", "{}"), nil
		}
		return says("Done."), nil
	}, func(n *node, o *run.Options) { o.Tools, o.Limits = callsItself{n}, limits })
	return n, &requests
}

func TestSpending_called_agents_spend_the_limits_of_the_root(t *testing.T) {
	for name, limits := range map[string]run.Limits{
		"turns":  {Turns: 30, Tokens: 1 << 40},
		"tokens": {Turns: 1000, Tokens: 450}, // of 15 a request
	} {
		t.Run(name, func(t *testing.T) {
			n, requests := tree(t, limits)
			id := n.start("Go").ID
			st := n.until(id, "ends", func(st *run.State) bool { return st.Status.IsFinal() })
			if st.Ending == nil || st.Ending.Kind != run.EndLimit || st.Ending.Rule != name {
				t.Errorf("status %s, ending %+v", st.Status, st.Ending)
			}
			// Requests that are in progress at the same time may exceed the limit.
			if made := requests.Load(); made < 10 || made > 30+run.MaxParallel*run.MaxDepth {
				t.Errorf("%d requests to the model; the limit of the root is 30", made)
			}
			usage := n.View(t.Context(), st).Usage
			if total := usage.InputTokens + usage.OutputTokens; total != 15*requests.Load() || usage.CalledAgents == 0 {
				t.Errorf("the root has used %d tokens, %+v; the model %d", total, usage, 15*requests.Load())
			}
		})
	}
}

func TestSpending_budget(t *testing.T) {
	now := atomic.Pointer[time.Time]{}
	at := time.Date(2030, 1, 2, 23, 0, 0, 0, time.UTC)
	now.Store(&at)
	budgets := func(_ *node, o *run.Options) {
		o.Now = func() time.Time { return *now.Load() }
		o.Budgets = func(of *run.Assignment) []run.Budget {
			return []run.Budget{{Of: "user", Name: of.User.ID, Tokens: 40}, {Of: "total", Tokens: 1000}}
		}
	}
	s := openStore(t)
	n := newNode(t, s, readAgent(t, "capabilities: {}\n"), func(_ context.Context, r *model.Request) (*model.Response, error) {
		return says(fmt.Sprint("Answer ", len(r.Messages))), nil
	}, budgets)
	id := n.idle(n.start("Go").ID).ID
	n.say(id, "2")
	n.say(id, "3")
	st := n.say(id, "4")
	if st.Ending == nil || st.Ending.Kind != run.EndBudget || st.Ending.Rule != "user ada" {
		t.Fatalf("status %s, ending %+v", st.Status, st.Ending)
	}
	if again := n.idle(n.start("Another").ID); endOf(again) != run.EndBudget {
		t.Errorf("another Engagement of the same user: %s %+v", again.Status, again.Ending)
	}
	// The next day it goes on where it was.
	next := at.Add(2 * time.Hour)
	now.Store(&next)
	if _, err := n.Conversation(id).Say(t.Context(), run.NewInput{Retry: true}); err != nil {
		t.Fatal(err)
	}
	if st := n.until(id, "goes on", run.NotBusy); st.Status != run.StatusComplete {
		t.Errorf("the next day: %s %+v", st.Status, st.Ending)
	}
}

func TestRetry_goes_on_where_the_model_failed(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {book: {}}\n"), func(_ context.Context, r *model.Request) (*model.Response, error) {
		switch {
		case len(r.Messages) == 1:
			return wants("book", "{}"), nil
		case fails.Load():
			return nil, &model.Error{Kind: model.KindUnavailable, Message: "down", Final: true}
		}
		return says("Booked."), nil
	})
	id := n.start("Book").ID
	if st := n.idle(id); endOf(st) != run.EndModel {
		t.Fatalf("status %s, ending %+v", st.Status, st.Ending)
	}
	n.drained()
	fails.Store(false)
	if _, err := n.Conversation(id).Say(t.Context(), run.NewInput{Retry: true}); err != nil {
		t.Fatal(err)
	}
	if st := n.until(id, "goes on", run.NotBusy); st.Text != "Booked." || st.Ending != nil {
		t.Errorf("text %q, ending %+v", st.Text, st.Ending)
	}
	if made := n.tools.count("book"); made != 1 {
		t.Errorf("booked %d times", made)
	}
	if _, err := n.Conversation(id).Say(t.Context(), run.NewInput{Retry: true}); !errors.Is(err, run.ErrNotFailed) {
		t.Errorf("after the answer: error %v", err)
	}
}

// breaking breaks off after its first piece of text, a number of times.
type breaking struct{ left atomic.Int64 }

func (b *breaking) Generate(_ context.Context, _ *model.Request, onText func(string)) (*model.Response, error) {
	if onText != nil {
		onText("Half")
	}
	if b.left.Add(-1) >= 0 {
		return nil, model.Errorf(model.KindConnection, "broken")
	}
	if onText != nil {
		onText(" done.")
	}
	return says("Half done."), nil
}

func TestRestart_of_a_broken_response(t *testing.T) {
	for breaks, retries := range map[int64]int{2: 2, 3: 2, 1: 0} { // the third request waits until the model is available again
		begin := make(chan struct{})
		b := new(breaking)
		b.left.Store(breaks)
		n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), nil, func(_ *node, o *run.Options) {
			o.Model = func(*oagent.Agent) (model.Model, error) {
				<-begin
				return model.WithRetries(b, retries), nil
			}
			o.ModelPause = time.Millisecond
		})
		id := n.start("Go").ID
		var text string
		restarts, first := 0, true
		err := n.Follow(t.Context(), id, func(e run.Event) error {
			if first {
				first = false
				close(begin)
			}
			if text += e.Text; e.Restart {
				restarts++
				text = ""
			}
			return nil
		})
		st, getErr := n.Get(t.Context(), id)
		want := run.StatusComplete
		if retries == 0 {
			want = run.StatusError
		}
		if err != nil || getErr != nil || st.Status != want {
			t.Errorf("%d breaks: status %s, errors %v %v", breaks, st.Status, err, getErr)
		}
		if retries > 0 && text != "Half done." || retries == 0 && text != "" || restarts != int(breaks) {
			t.Errorf("%d breaks: %d restarts, text %q", breaks, restarts, text)
		}
	}
}
