package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestQueue(t *testing.T) {
	storetest.RunQueue(t, func(t *testing.T) storetest.Place {
		address, _ := storetest.Redis(t)
		return storetest.Place{Nodes: true, Open: func(t testing.TB) store.Store { return openStore(t, address) }}
	}, func(q store.Queue) { q.(*redis.Queue).SetIdle(time.Millisecond) })
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
	if job, ack := storetest.Take(t, first, "a"); job != "any" {
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
		job, ack := storetest.Take(t, second, "b")
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
