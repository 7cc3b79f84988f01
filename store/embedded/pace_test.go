package embedded

import (
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
)

// TestExpectedCallers checks that a group commit waits for the callers of the last one, and
// starts when all of them wait.
func TestExpectedCallers(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	s := openTest(t, Options{commitInterval: time.Hour, syncWAL: func(diskFile) error {
		select {
		case started <- struct{}{}:
			<-finish
		case <-t.Context().Done(): // the test has failed
		}
		return nil
	}})
	put := func(key string) chan error {
		result := make(chan error, 1)
		go func() { result <- s.Put(t.Context(), key, store.Change{TTL: time.Hour}) }()
		return result
	}
	visible := func(key string) {
		testkit.Eventually(t, key, func() bool {
			r, _, _, err := s.latest(key)
			return err == nil && r != nil
		})
	}
	succeeds := func(key string, result chan error) {
		if err := <-result; err != nil {
			t.Errorf("put %s: %v", key, err)
		}
	}

	first := put("first")
	<-started
	second := put("second")
	visible("second")
	finish <- struct{}{}
	succeeds("first", first)

	select {
	case <-started:
		t.Fatal("the second commit started before the first caller waits again")
	default:
	}
	again := put("again")
	<-started // despite the interval of an hour
	finish <- struct{}{}
	succeeds("second", second)
	succeeds("again", again)
}
