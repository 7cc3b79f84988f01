package testkit_test

import (
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// recordingTest is a test whose failures are counted.
type recordingTest struct {
	testing.TB
	failures int
}

func (r *recordingTest) Helper()               {}
func (r *recordingTest) Errorf(string, ...any) { r.failures++ }

func TestInProportion_rejects_a_quadratic_time(t *testing.T) {
	noise := 0
	for name, c := range map[string]struct {
		time     func(n int) int
		failures int
	}{
		"constant":           {func(int) int { return 1000 }, 0},
		"in proportion":      {func(n int) int { return 1000 + n }, 0},
		"with a factor of 4": {func(n int) int { return n + n*(n/1000) }, 0},
		"quadratic":          {func(n int) int { return n * n }, 1},
		"one slow measurement": {func(n int) int {
			if noise++; noise <= 2 {
				return n * n * n
			}
			return n
		}, 0},
	} {
		r := &recordingTest{TB: t}
		testkit.InProportion(r, 100, 10, func(size int) time.Duration { return time.Duration(c.time(size)) })
		if r.failures != c.failures {
			t.Errorf("%s: %d failures, want %d", name, r.failures, c.failures)
		}
	}
}

func TestFreePort_gives_each_port_once(t *testing.T) {
	seen := make(map[int]bool)
	for range 20 {
		port := testkit.FreePort(t)
		if seen[port] || testkit.Listeners(port) != 0 {
			t.Errorf("port %d was given before, or is in use", port)
		}
		seen[port] = true
	}
}
