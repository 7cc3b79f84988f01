package run_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/storetest"
)

// queueOf returns a queue of a store that nodes share.
func queueOf(s store.Store, name string) store.Queue { return s.(store.Queuer).Queue(name) }

// TestNodes_share_runs checks two nodes: both work, a review that is decided on one node resumes the run, and an
// input on one node reaches a run whose home is the other.
func TestNodes_share_runs(t *testing.T) { storetest.OnShared(t, shareRuns) }

func shareRuns(t *testing.T, server *storetest.SharedServer) {
	agent := readAgent(t, reviewedAgent)
	both := newBlocker()
	var nodes [2]*node
	for i := range nodes {
		s := server.Open(t)
		nodes[i] = newNode(t, s, agent, func(ctx context.Context, r *model.Request) (*model.Response, error) {
			if err := both.wait(ctx); err != nil {
				return nil, err
			}
			return script(wants("pay", `{}`), wants("ask-user", `{"question":"Where?"}`), says("Done."))(ctx, r)
		}, func(_ *node, o *run.Options) { o.Queue, o.Workers = queueOf(s, "runs"), 1 })
	}
	var ids []string
	for range 2 { // each node can take only one
		ids = append(ids, nodes[0].start("Pay").ID)
	}
	for _, n := range nodes {
		testkit.Eventually(t, "a run of the node", func() bool { return n.Counts().Working > 0 })
	}
	close(both.release)
	home, err := nodes[0].Start(t.Context(), run.StartOptions{Agent: agent, User: ada, Input: "Pay", Home: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range append(ids, home.ID) {
		nodes[1].decide(pendingReview(t, nodes[1].idle(id)), true)
		nodes[1].until(id, "asks", func(st *run.State) bool { return st.Status == run.StatusAwaitingInput })
		if _, err := nodes[1].Conversation(id).AddInput(t.Context(), "Here", ""); err != nil {
			t.Fatal(err)
		}
		if st := nodes[1].ends(id); st.Text != "Done." {
			t.Errorf("status %s, ending %+v", st.Status, st.Ending)
		}
	}
	if n := nodes[0].tools.count("pay") + nodes[1].tools.count("pay"); n != 3 {
		t.Errorf("%d calls", n)
	}
}

// BenchmarkNodes is how many runs nodes on one Redis server finish, if each request of the model
// takes a while and the nodes have enough CPU. Two nodes should finish almost twice as many.
func BenchmarkNodes(b *testing.B) {
	const runs, latency = 200, 100 * time.Millisecond
	agent := readAgent(b, "capabilities: {get-trip: {}}\n")
	steps := script(wants("get-trip", `{}`), says("Done."))
	for _, nodes := range []int{1, 2} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			server := storetest.Shared()["redis"](b)
			all := make([]*node, 0, nodes)
			for range nodes {
				s := server.Open(b)
				all = append(all, newNode(b, s, agent, func(ctx context.Context, r *model.Request) (*model.Response, error) {
					select {
					case <-time.After(latency):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					return steps(ctx, r)
				}, func(_ *node, o *run.Options) { o.Queue, o.Workers = queueOf(s, "runs"), 8 }))
			}
			finished := 0
			for b.Loop() {
				var ids []string
				for range runs {
					ids = append(ids, all[0].start("Go").ID)
				}
				for _, id := range ids {
					all[0].ends(id)
				}
				finished += runs
			}
			b.ReportMetric(float64(finished)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// TestNodes_model_wait checks that another node goes on with a run that waits for its model when the first one has died.
func TestNodes_model_wait(t *testing.T) { storetest.OnShared(t, waitElsewhere) }

func waitElsewhere(t *testing.T, server *storetest.SharedServer) {
	agent := readAgent(t, "capabilities: {}\n")
	start := func(respond func(context.Context, *model.Request) (*model.Response, error)) (*node, *mortal) {
		s := server.Open(t)
		m := newMortal(s, 0, false)
		return newNode(t, m, agent, respond, func(_ *node, o *run.Options) {
			o.Queue, o.Sweep, o.Lease, o.Report = queueOf(s, "waits"), 100*time.Millisecond, time.Second, func(string, error) {}
		}), m
	}
	first, m := start(failing(limited(1)))
	began := time.Now()
	id := first.start("Go").ID
	first.paused(id)
	close(m.dead)
	second, _ := start(failing())
	if st := second.ends(id); st.Text != "Done." || time.Since(began) < time.Second {
		t.Errorf("ended after %s: %+v", time.Since(began), st)
	}
}

// unclaimable is a store in which no run can be claimed.
type unclaimable struct {
	store.Store
	tries atomic.Int64
}

func (s *unclaimable) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if strings.HasPrefix(key, "run/") {
		s.tries.Add(1)
		return errShaky
	}
	return s.Store.Update(ctx, key, change)
}

// TestClose_passes_on_jobs_of_runs_it_could_not_claim to another node, which need not sweep.
func TestClose_passes_on_jobs_of_runs_it_could_not_claim(t *testing.T) { storetest.OnShared(t, passOn) }

func passOn(t *testing.T, server *storetest.SharedServer) {
	agent := readAgent(t, "capabilities: {}\n")
	s := server.Open(t)
	failing := &unclaimable{Store: s}
	add := func(st, q store.Store) *node {
		return newNode(t, st, agent, script(says("Done.")), func(_ *node, o *run.Options) {
			o.Queue, o.Sweep = queueOf(q, "runs"), time.Hour
		})
	}
	first := add(failing, s)
	id := first.start("Go").ID
	testkit.Eventually(t, "an attempt to claim the run", func() bool { return failing.tries.Load() > 0 })
	first.close()
	s = server.Open(t)
	add(s, s).ends(id)
}

// homeward is a queue that calls leaving before it adds a job for one node.
type homeward struct {
	store.Queue
	leaving func()
}

func (q homeward) Push(ctx context.Context, job store.Job, node string) error {
	if node != "" {
		q.leaving()
	}
	return q.Queue.Push(ctx, job, node)
}

// TestHome_leaves checks that another node takes a run at once if its home ends while a job is pushed for it.
func TestHome_leaves(t *testing.T) { storetest.OnShared(t, homeLeaves) }

func homeLeaves(t *testing.T, server *storetest.SharedServer) {
	agent := readAgent(t, reviewedAgent)
	steps := script(wants("pay", `{}`), says("Done."))
	s := server.Open(t)
	home := newNode(t, s, agent, steps, func(_ *node, o *run.Options) { o.Queue, o.Sweep = queueOf(s, "runs"), time.Hour })
	st, err := home.Start(t.Context(), run.StartOptions{Agent: agent, User: ada, Input: "Go", Home: true})
	if err != nil {
		t.Fatal(err)
	}
	review := pendingReview(t, home.idle(st.ID))
	s = server.Open(t)
	other := newNode(t, s, agent, steps, func(_ *node, o *run.Options) {
		o.Queue, o.Sweep = homeward{queueOf(s, "runs"), home.close}, time.Hour
	})
	other.decide(review, true)
	if st := other.ends(st.ID); st.Text != "Done." {
		t.Errorf("ending %+v", st.Ending)
	}
}
