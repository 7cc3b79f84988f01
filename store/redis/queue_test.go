package redis_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

// take returns the next job of a node.
func take(t *testing.T, q store.Queue, node string) (id string, ack func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	job, ack, err := q.Take(ctx, node, nil)
	if err != nil {
		t.Fatalf("node %s: error %v", node, err)
	}
	return job.ID, ack
}

// TestQueue checks that each job goes to one node, and that a job for a node goes to that node.
func TestQueue(t *testing.T) {
	address, _ := storetest.Redis(t)
	a, b := openStore(t, address), openStore(t, address)
	defer a.Close()
	defer b.Close()
	first, second := a.Queue("runs"), b.Queue("runs")
	for _, job := range []string{"1", "2"} { // before any node has joined
		if err := first.Push(t.Context(), store.Job{ID: job}, ""); err != nil {
			t.Fatal(err)
		}
	}
	one, ackOne := take(t, first, "a")
	two, ackTwo := take(t, second, "b")
	if got := []string{one, two}; !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("jobs %q", got)
	}
	ackOne()
	ackTwo()
	if err := second.Push(t.Context(), store.Job{ID: "for a"}, "a"); err != nil {
		t.Fatal(err)
	}
	if err := second.Push(t.Context(), store.Job{ID: "for b"}, "b"); err != nil {
		t.Fatal(err)
	}
	if job, _ := take(t, first, "a"); job != "for a" {
		t.Errorf("node a got %q", job)
	}
	if job, _ := take(t, second, "b"); job != "for b" {
		t.Errorf("node b got %q", job)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if job, _, err := first.Take(ctx, "a", nil); err == nil {
		t.Errorf("there is another job %q", job.ID)
	}
}

// TestQueue_node_leaves checks that the jobs of a node that stops go to others at once.
func TestQueue_node_leaves(t *testing.T) {
	address, _ := storetest.Redis(t)
	a, b := openStore(t, address), openStore(t, address)
	defer a.Close()
	defer b.Close()
	first, second := a.Queue("runs"), b.Queue("runs")
	if err := second.Push(t.Context(), store.Job{ID: "any"}, ""); err != nil {
		t.Fatal(err)
	}
	if job, ack := take(t, first, "a"); job != "any" {
		t.Fatalf("job %q", job)
	} else {
		ack()
	}
	for _, job := range []string{"1", "2"} {
		if err := second.Push(t.Context(), store.Job{ID: job}, "a"); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if job, _, err := first.Take(ended, "a", nil); err == nil {
		t.Errorf("job %q after the end", job.ID)
	}
	for _, want := range []string{"1", "2"} {
		job, ack := take(t, second, "b")
		if ack(); job != want {
			t.Errorf("job %q, want %q", job, want)
		}
	}
}

// TestQueue_down checks that errors reach the caller while the server is down.
func TestQueue_down(t *testing.T) {
	address, kill := storetest.Redis(t)
	s := openStore(t, address)
	defer s.Close()
	kill()
	q := s.Queue("runs")
	if err := q.Push(t.Context(), store.Job{ID: "1"}, ""); err == nil {
		t.Error("Push succeeds")
	}
	if _, _, err := q.Take(t.Context(), "a", nil); err == nil {
		t.Error("Take succeeds")
	}
}

// TestQueue_dead_node checks that another node gets a job that was delivered and not acknowledged,
// and not one that was.
func TestQueue_dead_node(t *testing.T) {
	address, _ := storetest.Redis(t)
	s := openStore(t, address)
	defer s.Close()
	dead, alive := s.Queue("runs"), s.Queue("runs")
	alive.(*redis.Queue).SetIdle(time.Millisecond)
	for _, job := range []string{"done", "lost"} {
		if err := dead.Push(t.Context(), store.Job{ID: job}, ""); err != nil {
			t.Fatal(err)
		}
	}
	_, ack := take(t, dead, "dead")
	ack()
	take(t, dead, "dead")
	if job, _ := take(t, alive, "alive"); job != "lost" {
		t.Errorf("job %q", job)
	}
}

// TestQueue_lanes checks that the jobs of an owner with many do not precede those of others, and that a
// lane can be skipped.
func TestQueue_lanes(t *testing.T) {
	address, _ := storetest.Redis(t)
	s := openStore(t, address)
	defer s.Close()
	q := s.Queue("runs")
	ada, bob := store.Job{ID: "ada", Owner: "user ada"}, store.Job{ID: "bob", Owner: "user bob"}
	for range 20 {
		if err := q.Push(t.Context(), ada, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Push(t.Context(), bob, ""); err != nil {
		t.Fatal(err)
	}
	first, _ := take(t, q, "a")
	second, _ := take(t, q, "a")
	if got := []string{first, second}; !slices.Contains(got, "bob") {
		t.Errorf("the first two jobs are %q", got)
	}
	if err := q.Push(t.Context(), bob, ""); err != nil {
		t.Fatal(err)
	}
	job, _, err := q.Take(t.Context(), "a", func(lane int) bool { return lane == ada.Lane() })
	if err != nil || job != bob {
		t.Errorf("job %+v, error %v", job, err)
	}
}
