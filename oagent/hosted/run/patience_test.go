package run_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// limited is the error of a model that asks to wait.
func limited(seconds int) error {
	return &model.Error{Kind: model.KindRateLimited, Status: 429, RetryAfter: seconds, Message: "slow down"}
}

// failing fails with the errors in turn, and then responds.
func failing(errs ...error) func(context.Context, *model.Request) (*model.Response, error) {
	var made atomic.Int64
	return func(context.Context, *model.Request) (*model.Response, error) {
		if n := int(made.Add(1)); n <= len(errs) {
			return nil, errs[n-1]
		}
		return says("Done."), nil
	}
}

// paused waits until the run waits for its model.
func (n *node) paused(id string) *run.State {
	n.t.Helper()
	return n.until(id, "waits for its model", func(st *run.State) bool { return !st.View().RetryAt.IsZero() })
}

// endsLater is ends with a day of patience, for tests whose time passes at once.
func (n *node) endsLater(id string) *run.State {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 24*time.Hour)
	defer cancel()
	st, err := n.Await(ctx, id, func(st *run.State) bool { return st.Status.IsFinal() })
	if err != nil {
		n.t.Fatal(err)
	}
	return st
}

// TestModelWait checks that a run whose model is unavailable is stored with the time of its next request, and takes no worker
// meanwhile.
func TestModelWait(t *testing.T) {
	for name, test := range map[string]struct {
		errs     []error
		from, to time.Duration // from the beginning to the end
	}{
		"retry-after": {[]error{limited(60)}, time.Minute, 66 * time.Second},
		"no time": {
			[]error{model.Errorf(model.KindUnavailable, "500"), model.Errorf(model.KindConnection, "refused"), model.Errorf(model.KindTimeout, "slow")},
			17500 * time.Millisecond, 35 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), failing(test.errs...), func(_ *node, o *run.Options) { o.Workers = 1 })
				began := time.Now()
				id := n.start("Go").ID
				v := n.paused(id).View()
				if v.Status != run.StatusAwaitingModel || v.Queued || !v.RetryAt.After(time.Now()) {
					t.Errorf("state %+v", v)
				}
				testkit.Eventually(t, "the worker to be free", func() bool { return n.Counts().Working == 0 })
				if took := time.Since(began); took > time.Second {
					t.Errorf("the run had a worker for %s", took)
				}
				if name == "retry-after" {
					if other := n.endsLater(n.start("Now").ID); other.Text != "Done." || time.Since(began) > time.Second {
						t.Errorf("another run ended after %s: %+v", time.Since(began), other.Ending)
					}
				}
				st := n.endsLater(id)
				if st.Text != "Done." || st.Turns != 1 || st.ModelTries != 0 {
					t.Errorf("got %q after %d turns and %d tries, want Done. after 1 and 0; ending %+v", st.Text, st.Turns, st.ModelTries, st.Ending)
				}
				if took := time.Since(began); took < test.from || took > test.to+time.Second {
					t.Errorf("ended after %s, want between %s and %s", took, test.from, test.to+time.Second)
				}
				if st.Spent < test.from.Milliseconds() {
					t.Errorf("the time of the run is %d ms, without the wait", st.Spent)
				}
			})
		})
	}
}

// TestModelWait_beyond_the_limit checks that a run ends at once if it would have to wait longer than its limit of time, and
// that it goes on later.
func TestModelWait_beyond_the_limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), failing(limited(30), limited(40)), func(_ *node, o *run.Options) { o.Limits.Time = time.Minute })
		began := time.Now()
		id := n.start("Go").ID
		st := n.endsLater(id)
		if endOf(st) != run.EndModel || st.Ending.Rule != "rate_limited" || !strings.Contains(st.Ending.Message, "limit of time") {
			t.Errorf("got the ending %+v, want %s, rate_limited, by the limit of time", st.Ending, run.EndModel)
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("ended after %s, want at most 40s", took)
		}
		if _, err := n.Conversation(id).Say(t.Context(), run.NewInput{Retry: true}); err != nil {
			t.Fatal(err)
		}
		if st := n.endsLater(id); st.Text != "Done." {
			t.Errorf("ending %+v", st.Ending)
		}
	})
}

// TestModelWait_at_another_node checks that another node goes on with a run whose node died while the run waited, and not
// before its time.
func TestModelWait_at_another_node(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		agent := readAgent(t, "capabilities: {}\n")
		m := newMortal(s, 0, false)
		first := newNode(t, m, agent, failing(limited(300)), func(_ *node, o *run.Options) { o.Report = func(string, error) {} })
		began := time.Now()
		id := first.start("Go").ID
		first.paused(id)
		first.drained()
		close(m.dead)
		second := newNode(t, s, agent, failing())
		st := second.endsLater(id)
		if took := time.Since(began); st.Text != "Done." || took < 5*time.Minute || took > 331*time.Second {
			t.Errorf("ended after %s: %+v", took, st)
		}
		a, b := first.model.all(), second.model.all()
		if len(a) != 1 || len(b) != 1 {
			t.Fatalf("got %d and %d requests, want 1 and 1", len(a), len(b))
		}
		if a[0].Once || !b[0].Once {
			t.Errorf("made once: got %t and %t, want false and true", a[0].Once, b[0].Once)
		}
	})
}

// TestModelWait_is_in_progress checks that runs that wait for their model count for the limit of runs in progress, so that
// they do not become more and more, and not any longer after their end.
func TestModelWait_is_in_progress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(context.Context, *model.Request) (*model.Response, error) {
			if down.Load() {
				return nil, limited(60)
			}
			return says("Done."), nil
		}, func(_ *node, o *run.Options) { o.Workers = 1 })
		var ids []string
		var full *share.FullError
		for range 100 {
			st, err := n.startFor(ada, "Go")
			if errors.As(err, &full) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, st.ID)
			n.paused(st.ID)
			time.Sleep(time.Second)
		}
		if len(ids) < 8 || len(ids) > 16 || full == nil {
			t.Fatalf("%d runs wait, error %v", len(ids), full)
		}
		down.Store(false)
		for _, id := range ids {
			if st := n.endsLater(id); st.Text != "Done." {
				t.Errorf("ending %+v", st.Ending)
			}
		}
		time.Sleep(time.Minute)
		for range len(ids) {
			if _, err := n.startFor(ada, "Go"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestModelWait_input_and_cancel checks that an input does not hasten the request, and that a run that waits can be canceled.
func TestModelWait_input_and_cancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), failing(limited(60), limited(60)), func(_ *node, o *run.Options) { o.Workers = 1 })
		id := n.start("Go").ID
		n.paused(id)
		if _, err := n.Conversation(id).AddInput(t.Context(), "And hurry", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if made := len(n.model.all()); made != 1 || n.Counts().Waiting != 1 {
			t.Errorf("%d requests, %d runs wait", made, n.Counts().Waiting)
		}
		other := n.start("Go").ID
		n.paused(other)
		if st, err := n.Cancel(t.Context(), other); err != nil || endOf(st) != run.EndCanceled || !st.View().RetryAt.IsZero() {
			t.Errorf("error %v, state %+v", err, st)
		}
		if st := n.endsLater(id); st.Text != "Done." || st.Turns != 2 {
			t.Errorf("state %+v", st)
		}
		time.Sleep(5 * time.Minute)
		if made := len(n.model.all()); made != 4 {
			t.Errorf("%d requests", made)
		}
	})
}
