package integration

import (
	"fmt"
	"sync"
	"testing"
)

// TestOTC_killed_right_after_the_answer checks that a client that has read a response
// finds it after a crash: the process is killed as soon as the client has the response,
// and the calls are repeated to the process that follows.
func TestOTC_killed_right_after_the_answer(t *testing.T) {
	const rounds, together = 6, 4
	api := startOrders(t)
	close(api.hold)
	dir, address := t.TempDir(), freeAddress(t)
	site := ordersSite(address, "bolt", "ttl 1h", api)
	node := startBrittle(t, dir, address, site)
	lost := 0
	for round := range rounds {
		calls := 1 // alone, or several that end at about the same time
		if round%2 == 1 {
			calls = together
		}
		before := make([]orderAnswer, calls)
		id := func(i int) string { return fmt.Sprint("order-", round, "-", i) }
		var group sync.WaitGroup
		for i := range before {
			group.Go(func() {
				var err error
				if before[i], err = node.order(t.Context(), id(i)); err != nil || !before[i].success {
					t.Errorf("%s: %+v, %v", id(i), before[i], err)
				}
			})
		}
		group.Wait()
		node.kill()
		node = startBrittle(t, dir, address, site)
		for i := range before {
			after, err := node.order(t.Context(), id(i))
			if err != nil || after.body != before[i].body {
				lost++
				t.Errorf("%s: %s, want %s (%v)", id(i), after.body, before[i].body, err)
			}
		}
	}
	if twice := api.twice(); len(twice) > 0 {
		t.Errorf("ordered twice: %q", twice)
	}
	t.Logf("%d responses lost in %d crashes", lost, rounds)
}
