package storetest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// RunQueue tests queues. The stores at each place implement store.Queuer. hurry makes a queue deliver a job again
// a millisecond after it was taken.
func RunQueue(t *testing.T, place func(*testing.T) Place, hurry func(store.Queue)) {
	for _, check := range []struct {
		name string
		run  func(*testing.T, []store.Queue)
	}{
		{"each job goes to one node", queueNodes},
		{"a job of a dead node is delivered again", func(t *testing.T, q []store.Queue) {
			hurry(q[1])
			queueDeadNode(t, q)
		}},
		{"jobs of a node that leaves go to others", queueLeaves},
		{"owners take turns", queueLanes},
		{"take waits for a push", queueWaits},
		{"many nodes take many jobs", queueStorm},
	} {
		t.Run(check.name, func(t *testing.T) {
			queues := make([]store.Queue, 2)
			for i, s := range nodes(t, place(t)) {
				queues[i] = s.(store.Queuer).Queue("runs") //nolint:forcetypeassert // as documented
			}
			check.run(t, queues)
		})
	}
}

// Take returns the id of the next job of a node.
func Take(t *testing.T, q store.Queue, node string) (id string, ack func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, ack, err := q.Take(ctx, node, nil)
	if err != nil {
		t.Fatalf("node %s: error %v", node, err)
	}
	return job.ID, ack
}

func push(t *testing.T, q store.Queue, job store.Job, node string) {
	t.Helper()
	if err := q.Push(t.Context(), job, node); err != nil {
		t.Fatal(err)
	}
}

func queueNodes(t *testing.T, q []store.Queue) {
	for _, job := range []string{"1", "2"} { // before any node has joined
		push(t, q[0], store.Job{ID: job}, "")
	}
	one, ackOne := Take(t, q[0], "a")
	two, ackTwo := Take(t, q[1], "b")
	if got := []string{one, two}; !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("jobs %q", got)
	}
	ackOne()
	ackTwo()
	push(t, q[1], store.Job{ID: "for a"}, "a")
	push(t, q[1], store.Job{ID: "for b"}, "b")
	if job, _ := Take(t, q[0], "a"); job != "for a" {
		t.Errorf("node a got %q", job)
	}
	if job, _ := Take(t, q[1], "b"); job != "for b" {
		t.Errorf("node b got %q", job)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if job, _, err := q[0].Take(ctx, "a", nil); err == nil {
		t.Errorf("there is another job %q", job.ID)
	}
}

// queueDeadNode checks that another node gets a job that was delivered and not acknowledged, and not one that was.
func queueDeadNode(t *testing.T, q []store.Queue) {
	for _, job := range []string{"done", "lost"} {
		push(t, q[0], store.Job{ID: job}, "")
	}
	_, ack := Take(t, q[1], "dead")
	ack()
	Take(t, q[1], "dead")
	if job, _ := Take(t, q[1], "alive"); job != "lost" {
		t.Errorf("job %q", job)
	}
}

// queueLeaves checks that the jobs for a node that stops go to others at once, and those of all nodes that it has read
// ahead, but not those that it has acknowledged.
func queueLeaves(t *testing.T, q []store.Queue) {
	want := []string{"1", "2", "3", "4"}
	push(t, q[1], store.Job{ID: "1", Owner: string(ada)}, "")
	push(t, q[1], store.Job{ID: "2", Owner: string(bob)}, "")
	push(t, q[1], store.Job{ID: "3"}, "a")
	push(t, q[1], store.Job{ID: "4"}, "a")
	done, ack := Take(t, q[0], "a")
	ack()
	if err := q[0].Leave(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	got := append(make([]string, 0, len(want)), done)
	for range len(want) - 1 {
		job, ack := Take(t, q[1], "b")
		ack()
		got = append(got, job)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q", got, want)
	}
}

// queueLanes checks that the jobs of an owner with many do not precede those of others, and that a lane can be skipped.
func queueLanes(t *testing.T, q []store.Queue) {
	ofAda, ofBob := store.Job{ID: "ada", Owner: string(ada)}, store.Job{ID: "bob", Owner: string(bob)}
	for range 20 {
		push(t, q[0], ofAda, "")
	}
	push(t, q[0], ofBob, "")
	first, _ := Take(t, q[0], "a")
	second, _ := Take(t, q[0], "a")
	if got := []string{first, second}; !slices.Contains(got, "bob") {
		t.Errorf("the first two jobs are %q", got)
	}
	push(t, q[0], ofBob, "")
	job, _, err := q[0].Take(t.Context(), "a", func(lane int) bool { return lane == ofAda.Lane() })
	if err != nil || job != ofBob {
		t.Errorf("job %+v, error %v", job, err)
	}
}

// queueWaits pushes jobs while nodes wait for them.
func queueWaits(t *testing.T, q []store.Queue) {
	for i := range 10 {
		node := strconv.Itoa(i % 2)
		taken := make(chan string, 1)
		go func() {
			job, ack, err := q[i%2].Take(t.Context(), node, nil)
			if err != nil {
				t.Errorf("Take: %v", err)
			} else {
				ack()
			}
			taken <- job.ID
		}()
		push(t, q[(i+1)%2], store.Job{ID: strconv.Itoa(i)}, "")
		select {
		case got := <-taken:
			if got != strconv.Itoa(i) {
				t.Errorf("got job %q, want %d", got, i)
			}
		case <-time.After(patience):
			t.Fatalf("timed out waiting for job %d", i)
		}
	}
}

// queueStorm has several takers on each node. Each job must be delivered exactly once, since each is acknowledged.
func queueStorm(t *testing.T, q []store.Queue) {
	const pushers, each, takers = 8, 25, 8
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	seen := make(map[string]int)
	var all sync.WaitGroup
	for i := range takers {
		all.Go(func() {
			for {
				job, ack, err := q[i%len(q)].Take(ctx, strconv.Itoa(i%len(q)), nil)
				if err != nil {
					return // the context has ended
				}
				ack()
				mu.Lock()
				if seen[job.ID]++; len(seen) == pushers*each {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for i := range pushers {
		all.Go(func() {
			for n := range each {
				id := strconv.Itoa(i*each + n)
				if err := q[i%len(q)].Push(t.Context(), store.Job{ID: id, Owner: strconv.Itoa(i)}, ""); err != nil {
					t.Errorf("Push: %v", err)
				}
			}
		})
	}
	all.Wait()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("job %s was delivered %d times", id, times)
		}
	}
	if len(seen) != pushers*each {
		t.Errorf("%d jobs were delivered, want %d", len(seen), pushers*each)
	}
}
