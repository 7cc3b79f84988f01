package redis_test

import (
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
