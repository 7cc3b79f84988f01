package notify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/oagent/review"
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

// runOutbox is an Outbox as that of package hosted.
type runOutbox struct{ *run.Outbox }

func (b runOutbox) List(ctx context.Context) (all []*Notice, err error) {
	listed, err := b.Outbox.List(ctx)
	for _, n := range listed {
		all = append(all, &Notice{ID: n.ID, Type: string(n.Kind), Agent: n.Agent, At: n.At, Run: &Run{ID: n.Run.ID}})
	}
	return all, err
}

func (b runOutbox) Remove(ctx context.Context, n *Notice) error {
	return b.Outbox.Remove(ctx, &run.OperatorNotice{ID: n.ID, Run: run.NoticeRun{ID: n.Run.ID}})
}

// startService starts a Service for notices about runs.
func startService(t *testing.T, st store.Store, logger *zap.Logger, notifiers ...Notifier) *Service {
	t.Helper()
	s := New(Options{
		Notifiers: notifiers, Logger: logger, Outbox: runOutbox{run.NewOutbox(st, "")},
		Store: func(context.Context) (store.Store, error) { return st, nil },
	})
	s.Start(review.Pace{ScanInterval: 50 * time.Millisecond, OtherNodeDelay: 20 * time.Millisecond, RetryPause: 20 * time.Millisecond})
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

// claimOutage is a store in which the next writes of notices that are claimed fail.
type claimOutage struct {
	store.Store
	failures atomic.Int64 // that are left
}

func (o *claimOutage) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	return o.Store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		if strings.HasPrefix(key, keyPrefix) {
			state, err := decodeSendState(key, old.Value)
			if err == nil && state.Lease.Token != "" && o.failures.Add(-1) >= 0 {
				err = errors.New("the store is down")
			}
			if err != nil {
				return store.Change{}, err
			}
		}
		return change(old)
	})
}

// TestRuns_store_outage checks that a notice is sent, and removed, although the store fails when the result of a try is recorded. It is
// sent twice only if the store fails for longer than the lease of the notice.
func TestRuns_store_outage(t *testing.T) {
	for name, c := range map[string]struct {
		failures int64
		failure  error // of the first try
		most     int
	}{
		"a short outage after the notice was sent": {2, nil, 1},
		"a long outage after the notice was sent":  {9, nil, 2},
		"an outage after a failed try":             {1, errors.New("down"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, target := &claimOutage{Store: openStore(t)}, newRecorder("a", "run.*")
				st.failures.Store(c.failures)
				target.fail(c.failure)
				put(t, st, "R", time.Now())
				startService(t, st, zap.NewNop(), target)
				time.Sleep(30 * time.Second)
				target.fail(nil)
				for end := time.Now().Add(time.Hour); waiting(t, st) > 0 && time.Now().Before(end); {
					time.Sleep(time.Second)
				}
				if sent, most, _ := target.counts(); sent != 1 || most > c.most || waiting(t, st) > 0 {
					t.Errorf("%d notices were sent, one %d times, %d wait; want one, at most %d times", sent, most, waiting(t, st), c.most)
				}
			})
		})
	}
}

// TestRuns_unwanted_notices_remain checks that a node leaves notices to nodes with another configuration, which want them, and that a
// notice that no node has sent in time is removed with a log line.
func TestRuns_unwanted_notices_remain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		st, other := openStore(t), newRecorder("b", "run.failed")
		put(t, st, "R", time.Now().Add(time.Minute-run.NoticeTTL))
		startService(t, st, zap.New(core), other)
		time.Sleep(50 * time.Second)
		if waiting(t, st) != 1 {
			t.Error("a node has removed a notice that another node wants")
		}
		put(t, st, "NEW", time.Now())
		time.Sleep(20 * time.Second)
		if old := logs.FilterMessage("a notice about a run was dropped").All(); len(old) != 1 || old[0].ContextMap()["notice"] != "R-1" {
			t.Errorf("log of the old notice: %v", old)
		}
		target := newRecorder("a", "run.complete")
		startService(t, st, zap.NewNop(), target)
		time.Sleep(time.Second)
		if sent, _, _ := target.counts(); sent != 1 || waiting(t, st) != 0 {
			t.Errorf("%d notices were sent, %d wait", sent, waiting(t, st))
		}
	})
}

// TestRuns_no_scan_without_events checks that a Service whose Notifiers want only notices about reviews does not read the outbox.
func TestRuns_no_scan_without_events(t *testing.T) {
	s := New(Options{Notifiers: []Notifier{newRecorder("a", "review.none")}, Outbox: runOutbox{}}) // its List panics
	if !s.scan(t.Context(), nil) {
		t.Error("the scan failed")
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
		"run.*":                         strings.Join(runTypes, " "),
		"run.failed review.pending":     "review.pending run.failed",
		"*":                             "review.pending review.escalated " + strings.Join(runTypes, " "),
		"run.question run.complete":     "run.complete run.question",
		"run.done":                      "error",
		"run.complete [":                "error",
		"review.pending ocp.* run.fail": "error",
	} {
		s := Selection{Events: strings.Fields(entries)}
		got := "error"
		if s.provision(caddy.NewReplacer()) == nil {
			var wanted []string
			for _, kind := range append([]string{typePending, typeEscalated}, runTypes...) {
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
