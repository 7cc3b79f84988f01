package run_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// TestWaiting_costs_nothing checks that 1,000 runs that wait take no goroutines and little memory.
func TestWaiting_costs_nothing(t *testing.T) {
	const runs, maxBytes, maxGoroutines = 1000, 100 << 20, 50
	n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-trip: {}}\n"), script(wants("get-trip", `{}`), wants("ask-user", `{"question":"Where?"}`)),
		func(n *node, _ *run.Options) {
			n.tools.tools["get-trip"] = func(context.Context, *run.Invocation) (string, error) {
				return fmt.Sprintf("%q", make([]byte, 10_000)), nil
			}
		})
	bytes, goroutines := memory(), runtime.NumGoroutine()
	var ids []string
	for range runs {
		ids = append(ids, n.start("Go").ID)
	}
	for _, id := range ids {
		n.until(id, "waits", func(st *run.State) bool { return st.Status == run.StatusAwaitingInput })
	}
	n.drained()
	n.model.mu.Lock()
	n.model.requests = nil // the test's own memory
	n.model.mu.Unlock()
	took, more := memory()-bytes, runtime.NumGoroutine()-goroutines
	t.Logf("%d runs that wait take %d KiB and %d goroutines", runs, took>>10, more)
	if took > maxBytes {
		t.Errorf("%d runs that wait take %d bytes; the limit is %d", runs, took, maxBytes)
	}
	if more > maxGoroutines {
		t.Errorf("%d runs that wait take %d goroutines", runs, more)
	}
}

// memory returns the number of bytes in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below the limit
}

// BenchmarkStep is the time that a node itself takes for a step of the model or of a tool, with
// the embedded store and the Guard. Each turn has two steps.
func BenchmarkStep(b *testing.B) {
	const turns = 20
	steps := make([]*model.Response, 0, turns+1)
	for i := range turns {
		steps = append(steps, wants("get-trip", fmt.Sprintf(`{"n":%d}`, i)))
	}
	steps = append(steps, says("Done."))
	n := newNode(b, openStore(b), readAgent(b, "capabilities: {get-trip: {}}\n"), script(steps...))
	var total int
	var began time.Time
	for b.Loop() {
		if total == 0 {
			began = time.Now()
		}
		st, err := n.Start(b.Context(), run.StartOptions{Agent: n.agent, User: engagement.User{}, Input: "Go"})
		if err != nil {
			b.Fatal(err)
		}
		n.idle(st.ID)
		total += 2*turns + 1
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(total), "µs/step")
}
