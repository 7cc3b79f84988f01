package run_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/storetest"
)

var bob = engagement.User{ID: "bob"}

// startFor starts a run of a user.
func (n *node) startFor(user engagement.User, input string) (*run.State, error) {
	return n.Start(n.t.Context(), run.StartOptions{Agent: n.agent, User: user, Input: input, Home: true})
}

// order records the users of the requests to a model.
type order struct {
	mu    sync.Mutex
	users []string
}

// respond answers each request, whose input is the name of the user.
func (o *order) respond(_ context.Context, r *model.Request) (*model.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users = append(o.users, r.Messages[0].Text)
	return says("Done."), nil
}

// between returns how many requests there were after the first n and before the first of a user.
func (o *order) between(n int, user string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Index(o.users, user) - n
}

// TestShare_turns checks that the runs of a user with many delay those of another one by little, on a
// single node and on two that share a queue.
func TestShare_turns(t *testing.T) {
	const runs, workers = 300, 32
	stores := storetest.Shared()
	stores["one node"] = nil
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			agent := readAgent(t, "capabilities: {}\n")
			requests := new(order)
			var nodes []*node
			add := func(s store.Store, q store.Queue) {
				nodes = append(nodes, newNode(t, s, agent, requests.respond, func(_ *node, o *run.Options) { o.Workers, o.Queue = workers, q }))
			}
			if start == nil {
				add(openStore(t), nil)
			} else {
				server := start(t)
				for range 2 {
					s := server.Open(t)
					add(s, queueOf(s, "runs"))
				}
			}
			requests.mu.Lock() // all workers of ada's wait for the model
			for range runs {
				if _, err := nodes[0].startFor(ada, "ada"); err != nil {
					requests.mu.Unlock()
					t.Fatal(err)
				}
			}
			st, err := nodes[0].startFor(bob, "bob")
			requests.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			if end := nodes[0].ends(st.ID); end.Text != "Done." {
				t.Errorf("text %q", end.Text)
			}
			// Each worker may finish the request that it was making, and the next one of ada's may have begun.
			if n := requests.between(0, "bob"); n > 2*workers*len(nodes) {
				t.Errorf("%d requests of ada's preceded bob's; of %d in all", n, runs)
			}
		})
	}
}

// TestShare_delay checks that a run takes at most 20 % longer while another user has many. The time is that of the test, so it is the
// time in which runs wait, not that of the CPU.
func TestShare_delay(t *testing.T) {
	const runs, workers = 300, 30
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-trip: {}}\n"), func(ctx context.Context, r *model.Request) (*model.Response, error) {
			time.Sleep(time.Second)
			return script(wants("get-trip", "{}"), says("Done."))(ctx, r)
		}, func(_ *node, o *run.Options) { o.Workers = workers })
		bobs := func() time.Duration {
			began := time.Now()
			st, err := n.startFor(bob, "bob")
			if err != nil {
				t.Fatal(err)
			}
			n.ends(st.ID)
			return time.Since(began)
		}
		alone := bobs()
		for range runs {
			if _, err := n.startFor(ada, "ada"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			if took := bobs(); took > alone*6/5 || n.Counts().Queued == 0 {
				t.Errorf("run %d took %s with %d queued runs, and %s alone", i, took, n.Counts().Queued, alone)
			}
		}
	})
}

// TestShare_workers checks that a user whose runs last long leaves workers for others.
func TestShare_workers(t *testing.T) {
	b := newBlocker()
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if r.Messages[0].Text == "ada" {
			return nil, b.wait(ctx)
		}
		return says("Done."), nil
	}, func(_ *node, o *run.Options) { o.Workers = 8 })
	for range 20 {
		if _, err := n.startFor(ada, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	st, err := n.startFor(bob, "bob")
	if err != nil {
		t.Fatal(err)
	}
	n.ends(st.ID)
	if got := n.Counts().Working; got < 6 || got > 7 {
		t.Errorf("ada's runs have %d of 8 workers", got)
	}
	testkit.Eventually(t, "20 runs", func() bool { return n.Counts().Queued+n.Counts().Working == 20 })
}

// TestShare_is_used_up checks that a user can begin no more runs than his share, and that another one can.
// A run that waits for someone does not count.
func TestShare_is_used_up(t *testing.T) {
	b := newBlocker()
	var warned []share.Usage
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if r.Messages[0].Text == "ask" && len(r.Messages) == 1 {
			return wants("ask-user", `{"question":"Where?"}`), nil
		}
		return says("Done."), b.wait(ctx)
	}, func(_ *node, o *run.Options) {
		o.Workers, o.Warn = 2, func(u share.Usage) { warned = append(warned, u) }
	})
	waits, err := n.startFor(ada, "ask")
	if err != nil {
		t.Fatal(err)
	}
	n.idle(waits.ID)
	var full *share.FullError
	began := 0
	for ; began < 40; began++ {
		if _, err = n.startFor(ada, "ada"); err != nil {
			break
		}
	}
	if !errors.As(err, &full) || !full.Share || began != 24 {
		t.Errorf("%d runs began, error %v", began, err)
	}
	for i := range 3 {
		user := engagement.User{ID: "user" + string(rune('a'+i))}
		if _, err := n.startFor(user, "other"); err != nil {
			t.Errorf("another user: error %v", err)
		}
	}
	if len(warned) != 1 || warned[0].Largest != "user ada" {
		t.Errorf("warnings %+v", warned)
	}
	close(b.release)
	testkit.Eventually(t, "room for another run", func() bool {
		_, err := n.startFor(ada, "ada")
		return err == nil
	})
}

// TestQueued checks that a run that waits for a worker says so.
func TestQueued(t *testing.T) {
	b := newBlocker()
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {}\n"), func(ctx context.Context, _ *model.Request) (*model.Response, error) {
		return says("Done."), b.wait(ctx)
	}, func(_ *node, o *run.Options) { o.Workers = 1 })
	first := n.start("Go").ID
	<-b.began
	second := n.start("Go")
	if !second.View().Queued || second.Status != run.StatusAwaitingModel {
		t.Errorf("view %+v", second.View())
	}
	if st, err := n.Get(t.Context(), first); err != nil || st.View().Queued {
		t.Errorf("the first one: %+v, error %v", st, err)
	}
	close(b.release)
	if v := n.ends(second.ID).View(); v.Queued {
		t.Errorf("view %+v", v)
	}
}

// TestNodes_help checks that a node takes runs whose home is another node that has no free worker. Calls
// that need the user's credentials are made at home.
func TestNodes_help(t *testing.T) { storetest.OnShared(t, helpEachOther) }

func helpEachOther(t *testing.T, server *storetest.SharedServer) {
	agent := readAgent(t, "capabilities: {get-trip: {}}\n")
	both := newBlocker()
	var nodes [2]*node
	for i := range nodes {
		s := server.Open(t)
		nodes[i] = newNode(t, s, agent, func(ctx context.Context, r *model.Request) (*model.Response, error) {
			if err := both.wait(ctx); err != nil {
				return nil, err
			}
			return script(wants("get-trip", `{}`), says("Done."))(ctx, r)
		}, func(n *node, o *run.Options) {
			o.Queue, o.Workers = queueOf(s, "runs"), 4
			if i == 1 {
				o.Tools = withoutCredentials{n.tools}
			}
		})
	}
	var ids []string
	for range 12 {
		st, err := nodes[0].startFor(ada, "Go")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, st.ID)
	}
	testkit.Eventually(t, "a run of the other node", func() bool { return nodes[1].Counts().Working > 0 })
	close(both.release)
	for _, id := range ids {
		st := nodes[1].until(id, "ends without the user", func(st *run.State) bool {
			if st.Status == run.StatusAwaitingInput {
				t.Errorf("the run waits for its user: %+v", st.Waits())
			}
			return st.Status.IsFinal()
		})
		if st.Status != run.StatusComplete {
			t.Errorf("the run ends with %s: %+v", st.Status, st.Ending)
		}
	}
	if n := nodes[0].tools.count("get-trip"); n != len(ids) {
		t.Errorf("the home made %d of %d calls", n, len(ids))
	}
	if len(nodes[1].model.all()) == 0 {
		t.Error("the other node made no request to the model")
	}
}

// withoutCredentials are the tools of a node that does not have the credentials of the user.
type withoutCredentials struct{ *fakeTools }

func (withoutCredentials) Call(_ context.Context, i *run.Invocation) run.Result {
	if !i.Away {
		return run.Result{Text: "the node is not the home", IsError: true} // then the home makes too few calls
	}
	return run.Result{Wait: &run.Wait{Kind: run.WaitCredentials, Message: "send them"}}
}

// outage is a store that fails while it is down.
type outage struct {
	store.Store
	mu   sync.Mutex
	down bool
}

func (o *outage) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

func (o *outage) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	o.mu.Lock()
	down := o.down
	o.mu.Unlock()
	if down {
		return errShaky
	}
	return o.Store.Update(ctx, key, change)
}

// TestStore_outage checks that runs go on when the store is available again, and do not wait for the end of
// their leases or for a sweep: those in a step, and those that are queued.
func TestStore_outage(t *testing.T) {
	s := &outage{Store: openStore(t)}
	b := newBlocker()
	failed := make(chan struct{}, 100)
	n := newNode(t, s, readAgent(t, "capabilities: {book: {}}\n"), script(wants("book", `{}`), says("Done.")), func(n *node, o *run.Options) {
		n.tools.tools["book"] = func(ctx context.Context, _ *run.Invocation) (string, error) { return `"booked"`, b.wait(ctx) }
		o.Lease, o.Sweep, o.Workers = time.Hour, time.Hour, 1
		o.Report = func(string, error) { failed <- struct{}{} }
	})
	first := n.start("Go").ID
	<-b.began
	second := n.start("Go").ID
	s.set(true)
	close(b.release)
	<-failed
	s.set(false)
	for _, id := range []string{first, second} {
		if st := n.ends(id); st.Text != "Done." {
			t.Errorf("ending %+v", st.Ending)
		}
	}
	if strings.Contains(n.results(), "unknown whether") || n.tools.count("book") != 2 {
		t.Errorf("calls %q, the model got %s", n.tools.calls(), n.results())
	}
}

// TestLease_of_this_node checks that a node replaces its own lease if its work has failed after the claim.
func TestLease_of_this_node(t *testing.T) {
	s := &unreadableLog{Store: openStore(t), failures: 2}
	n := newNode(t, s, readAgent(t, "capabilities: {}\n"), script(says("Done.")), func(_ *node, o *run.Options) { o.Lease, o.Sweep = time.Hour, time.Hour })
	if st := n.ends(n.start("Go").ID); st.Text != "Done." {
		t.Errorf("ending %+v", st.Ending)
	}
}

// unreadableLog is a store that fails to read logs a few times.
type unreadableLog struct {
	store.Store
	mu       sync.Mutex
	failures int
}

func (u *unreadableLog) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	u.mu.Lock()
	u.failures--
	fails := u.failures >= 0
	u.mu.Unlock()
	if fails {
		return nil, errShaky
	}
	return u.Store.Read(ctx, key, from, limit)
}

// TestAgent_is_gone checks that runs of an agent that no node hosts end after the grace period, with a
// reason, and that those of an agent that another node hosts do not.
func TestAgent_is_gone(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // a live node must mark its agents in time, on a slow machine too
			s := openStore(t)
			agent := readAgent(t, reviewedAgent)
			grace := func(_ *node, o *run.Options) { o.Sweep, o.AgentGrace = 5*time.Second, 3*time.Minute }
			first := newNode(t, s, agent, script(wants("pay", `{}`), says("Done.")), grace)
			id := first.start("Pay").ID
			first.idle(id)
			if !hosted {
				first.close()
			}
			second := newNode(t, s, agent, script(says("Done.")), grace, func(_ *node, o *run.Options) {
				o.Agent = func(string) *oagent.Agent { return nil }
			})
			time.Sleep(10 * time.Minute)
			st, err := second.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			open, err := second.guard.Reviews.List(t.Context(), "boss")
			switch {
			case err != nil:
				t.Fatal(err)
			case hosted && (st.Status != run.StatusAwaitingReview || len(open) != 1):
				t.Errorf("another node has the agent: state %+v, %d reviews", st, len(open))
			case !hosted && (endOf(st) != run.EndAgent || st.Ending.Message == "" || len(open) != 0):
				t.Errorf("no node has the agent: state %+v, %d reviews", st, len(open))
			}
		})
	}
}
