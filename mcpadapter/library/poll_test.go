package library

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPolls_are_shared_by_streams_of_a_user(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, rounds, interval = 20, 10, time.Second
		p := &Polls{Interval: interval, Rate: DefaultWatchRate}
		var looks, others atomic.Int32
		var watching sync.WaitGroup
		for i := range streams {
			watching.Go(func() {
				time.Sleep(time.Duration(i) * interval / streams) // each stream has its own rhythm
				for range rounds {
					stamp, ok := p.Version(t.Context(), PollKey{"ada", "", "x:1"}, func() (string, bool) {
						looks.Add(1)
						return "s", true
					})
					if stamp != "s" || !ok {
						t.Errorf("got %q, %t", stamp, ok)
					}
					time.Sleep(interval)
				}
			})
		}
		p.Version(t.Context(), PollKey{"bob", "", "x:1"}, func() (string, bool) { others.Add(1); return "t", true })
		watching.Wait()
		if most := int32(rounds + 1 + rounds/5); looks.Load() < rounds || looks.Load() > most {
			t.Errorf("%d polls for one user, want %d to %d", looks.Load(), rounds, most)
		}
		if others.Load() != 1 {
			t.Errorf("%d polls for another user, want 1", others.Load())
		}
	})
}

func TestPolls_that_end_with_their_stream_are_taken_over(t *testing.T) {
	p := &Polls{Interval: time.Hour, Rate: 1000}
	key := PollKey{"ada", "", "x:1"}
	ctx, leave := context.WithCancel(t.Context())
	began := make(chan struct{})
	var streams sync.WaitGroup
	streams.Go(func() {
		p.Version(ctx, key, func() (string, bool) {
			close(began)
			<-ctx.Done()
			return "", false
		})
	})
	<-began
	streams.Go(func() {
		if stamp, ok := p.Version(t.Context(), key, func() (string, bool) { return "new", true }); stamp != "new" || !ok {
			t.Errorf("got %q, %t, want a poll of its own", stamp, ok)
		}
	})
	leave()
	streams.Wait()
}

func TestPolls_keep_to_the_rate_and_clients_take_turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, greedy = 10, 100
		p := &Polls{Interval: time.Second, Rate: rate}
		begun := time.Now()
		var order []string
		var mu sync.Mutex
		look := func(user string) func() (string, bool) {
			return func() (string, bool) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, user)
				return "", true
			}
		}
		var watching sync.WaitGroup
		for i := range greedy {
			watching.Go(func() { p.Version(t.Context(), PollKey{"greedy", "", fmt.Sprint(i)}, look("greedy")) })
		}
		synctest.Wait() // the greedy user waits before the modest one comes
		watching.Go(func() { p.Version(t.Context(), PollKey{"modest", "", "0"}, look("modest")) })
		watching.Wait()
		if took, least := time.Since(begun), greedy*time.Second/rate; took < least {
			t.Errorf("%d polls took %s, want %s or more", greedy+1, took, least)
		}
		for i, user := range order {
			if user == "modest" && i > 3 {
				t.Errorf("the modest user had turn %d of %d", i+1, len(order))
			}
		}
	})
}

// A client whose streams come and go, or that calls itself many names, must not keep
// others from their turns.
func TestPolls_of_streams_that_ended_take_no_turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, streams = 10, 1000
		p := &Polls{Interval: time.Second, Rate: rate}
		look := func() (string, bool) { return "", true }
		p.Version(t.Context(), PollKey{"modest", "", "0"}, look) // takes the turn of this moment
		ctx, leave := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		for i := range streams {
			watching.Go(func() { p.Version(ctx, PollKey{"greedy", fmt.Sprint(i), fmt.Sprint(i)}, look) })
		}
		synctest.Wait()
		leave()
		watching.Wait()
		if waiting := len(p.turns.waiting); waiting != 0 || len(p.byKey) != 1 || len(p.byClient) != 1 {
			t.Errorf("%d polls wait, and %d polls of %d clients are remembered", waiting, len(p.byKey), len(p.byClient))
		}
		begun := time.Now()
		p.Version(t.Context(), PollKey{"modest", "", "1"}, look)
		if waited := time.Since(begun); waited > 2*time.Second/rate {
			t.Errorf("the next poll waited %s", waited)
		}
	})
}

func TestPolls_of_one_client_are_not_older_because_another_watches_much(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Polls{Interval: time.Second, Rate: 1000}
		var looks atomic.Int32
		key := PollKey{"modest", "", "0"}
		look := func() (string, bool) { looks.Add(1); return "", true }
		p.Version(t.Context(), key, look)
		for i := range 5000 {
			p.Version(t.Context(), PollKey{"greedy", fmt.Sprint(i % 64), fmt.Sprint(i)}, func() (string, bool) { return "", true })
		}
		p.Version(t.Context(), key, look)
		if looks.Load() != 2 {
			t.Errorf("%d polls, want 2: the first is 5 seconds old", looks.Load())
		}
	})
}

func TestPolls_end_when_unwatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Polls{Interval: time.Second, Rate: 1000}
		look := func() (string, bool) { return "", true }
		for i := range 1000 {
			p.Version(t.Context(), PollKey{"ada", "", fmt.Sprint(i)}, look)
		}
		for range 10 {
			time.Sleep(time.Second)
			p.Version(t.Context(), PollKey{"ada", "", "last"}, look)
		}
		if len(p.byKey) != 1 {
			t.Errorf("%d polls are remembered, want 1", len(p.byKey))
		}
	})
}
