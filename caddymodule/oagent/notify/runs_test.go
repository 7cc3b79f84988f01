package notify

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

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// recorder is a Notifier that counts the notices that it gets, and fails while failure is set.
type recorder struct {
	name, wants string

	mu      sync.Mutex
	failure error
	sent    map[string]int
	tried   int
}

func newRecorder(name, wants string) *recorder {
	return &recorder{name: name, wants: wants, sent: make(map[string]int)}
}

func (r *recorder) Notify(_ context.Context, n *Notice) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried++
	if r.failure == nil {
		r.sent[n.Key()]++
	}
	return r.failure
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = err
}

func (r *recorder) counts() (sent, most, tried int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.sent {
		most = max(most, n)
	}
	return len(r.sent), most, r.tried
}

func (*recorder) MaxDuration() time.Duration { return time.Minute }
func (r *recorder) Target() string           { return r.name }
func (r *recorder) Wants(kind string) bool   { return matches(r.wants, kind) }

func openStore(t *testing.T) store.Store {
	t.Helper()
	st, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// startService starts a Service for notices about runs.
func startService(t *testing.T, st store.Store, logger *zap.Logger, notifiers ...Notifier) *Service {
	t.Helper()
	s := New(Options{
		Notifiers: notifiers, Runs: "/engagements", Logger: logger,
		Outbox: func(context.Context) (*run.Outbox, error) { return run.NewOutbox(st, ""), nil },
		Store:  func(context.Context) (store.Store, error) { return st, nil },
	})
	s.Start(app.ReviewPace{ScanInterval: 50 * time.Millisecond, OtherNodeDelay: 20 * time.Millisecond, RetryPause: 20 * time.Millisecond})
	t.Cleanup(s.Stop)
	return s
}

// put adds a notice to the outbox.
func put(t *testing.T, st store.Store, id string, at time.Time) {
	t.Helper()
	n := run.OperatorNotice{ID: id + "-1", Kind: run.NoticeComplete, Agent: "desk", User: "ada", At: at, Run: run.NoticeRun{ID: id, Status: run.StatusComplete}}
	if _, err := run.NewOutbox(st, "").Add(t.Context(), id, []run.OperatorNotice{n}); err != nil {
		t.Fatal(err)
	}
}

func waiting(t *testing.T, st store.Store) int {
	t.Helper()
	all, err := run.NewOutbox(st, "").List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestRuns_two_nodes_send_once checks that two nodes send each notice once, also if it is added again after it was sent, and that
// the outbox is empty then.
func TestRuns_two_nodes_send_once(t *testing.T) {
	st, target, none := openStore(t), newRecorder("a", "run.*"), newRecorder("b", "run.failed")
	const count = 30
	for range 2 {
		startService(t, st, zap.NewNop(), target, none)
	}
	for range 2 {
		for i := range count {
			put(t, st, fmt.Sprintf("R%d", i), time.Now())
		}
		testkit.Eventually(t, "the outbox to be empty", func() bool { return waiting(t, st) == 0 })
	}
	if sent, most, _ := target.counts(); sent != count || most != 1 {
		t.Errorf("%d notices were sent, one %d times, want %d once", sent, most, count)
	}
	if _, _, tried := none.counts(); tried > 0 {
		t.Error("a Notifier got a notice that it does not want")
	}
}

// TestRuns_each_target_once checks that a notice waits for the target that fails, and is not sent to the other target again, also
// after a restart.
func TestRuns_each_target_once(t *testing.T) {
	st, works, fails := openStore(t), newRecorder("a", "run.*"), newRecorder("b", "run.*")
	fails.fail(errors.New("down"))
	first := startService(t, st, zap.NewNop(), works, fails)
	put(t, st, "R", time.Now())
	testkit.Eventually(t, "two tries", func() bool { _, _, tried := fails.counts(); return tried >= 2 })
	first.Stop()
	if waiting(t, st) != 1 {
		t.Error("the notice was removed before both targets had it")
	}
	fails.fail(nil)
	startService(t, st, zap.NewNop(), works, fails)
	testkit.Eventually(t, "the outbox to be empty", func() bool { return waiting(t, st) == 0 })
	for _, r := range []*recorder{works, fails} {
		if sent, most, _ := r.counts(); sent != 1 || most != 1 {
			t.Errorf("%s has %d notices, one %d times", r.name, sent, most)
		}
	}
}

// TestRuns_dropped checks that a notice is dropped after its last try, and one that is too old at once, each with a log line.
func TestRuns_dropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		st, target := openStore(t), newRecorder("a", "run.*")
		target.fail(errors.New("down"))
		put(t, st, "OLD", time.Now().Add(-run.NoticeTTL-time.Second))
		put(t, st, "R", time.Now())
		startService(t, st, zap.New(core), target)
		for waiting(t, st) > 0 {
			time.Sleep(time.Minute)
		}
		if _, _, tried := target.counts(); tried != maxTries {
			t.Errorf("%d tries, want %d", tried, maxTries)
		}
		last := logs.FilterField(zap.Bool("last", true)).All()
		if len(last) != 1 || last[0].ContextMap()["notice"] != "R-1" {
			t.Errorf("log of the last try: %v", last)
		}
		old := logs.FilterMessage("a notice about a run was dropped").All()
		if len(old) != 1 || old[0].ContextMap()["notice"] != "OLD-1" {
			t.Errorf("log of the old notice: %v", old)
		}
	})
}

// TestSelection_events checks which types a selection has, and that an entry that matches none is an error.
func TestSelection_events(t *testing.T) {
	for entries, want := range map[string]string{
		"":                              "review.pending review.escalated",
		"run.*":                         strings.Join(runTypes(), " "),
		"run.failed review.pending":     "review.pending run.failed",
		"*":                             "review.pending review.escalated " + strings.Join(runTypes(), " "),
		"run.question run.complete":     "run.complete run.question",
		"run.done":                      "error",
		"run.complete [":                "error",
		"review.pending ocp.* run.fail": "error",
	} {
		s := Selection{Events: strings.Fields(entries)}
		got := "error"
		if s.provision() == nil {
			var wanted []string
			for _, kind := range append([]string{typePending, typeEscalated}, runTypes()...) {
				if s.Wants(kind) {
					wanted = append(wanted, kind)
				}
			}
			got = strings.Join(wanted, " ")
		}
		if got != want {
			t.Errorf("events %q: %s, want %s", entries, got, want)
		}
	}
}
