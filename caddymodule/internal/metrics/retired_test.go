package metrics

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/internal/identity"
)

// loadedWith returns collectors of a toolset t, which is loaded.
func loadedWith(names []string) *collectors {
	m := newCollectors()
	m.Acquire("t")
	m.Loaded("t", names, 0)
	return m
}

// countOne counts a successful call of each tool.
func countOne(m *collectors, toolset string, names []string) {
	of := m.Of(toolset, "mcp")
	for _, name := range names {
		of.Observe(name, "ok", 0)
	}
}

// countSeries returns how many series the collector has.
func countSeries(c prometheus.Collector) int {
	series := make(chan prometheus.Metric, 2*maxRetiredSeries)
	c.Collect(series)
	return len(series)
}

func wantSeries(t *testing.T, m *collectors, want int, when string) {
	t.Helper()
	if got := countSeries(m.calls); got != want {
		t.Errorf("%s: %d series, want %d", when, got, want)
	}
}

func TestMetrics_series_of_a_tool_outlive_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both, one := []string{"a", "b"}, []string{"a"}
		m := loadedWith(both)
		countOne(m, "t", both)
		m.Loaded("t", one, 0)
		wantSeries(t, m, 2, "after the reload")
		time.Sleep(retiredSeriesTime - time.Second)
		wantSeries(t, m, 2, "before its time")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantSeries(t, m, 1, "after its time")
	})
}

func TestMetrics_series_of_a_tool_that_comes_back_stay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both, one := []string{"a", "b"}, []string{"a"}
		m := loadedWith(both)
		countOne(m, "t", both)
		m.Loaded("t", one, 0)
		time.Sleep(retiredSeriesTime / 2)
		m.Loaded("t", both, 0)
		time.Sleep(retiredSeriesTime)
		synctest.Wait()
		wantSeries(t, m, 2, "after the tool came back")
		m.Loaded("t", one, 0)
		time.Sleep(2 * retiredSeriesTime)
		synctest.Wait()
		wantSeries(t, m, 1, "after it went for good")
	})
}

func TestMetrics_series_of_a_toolset_outlive_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newCollectors()
		set := []string{"a", "b"}
		m.Acquire("t")
		m.Loaded("t", set, 0)
		countOne(m, "t", set)
		m.Release("t")
		wantSeries(t, m, 2, "after the configuration went")
		if got := countSeries(m.tools); got != 0 {
			t.Errorf("%d gauges of a toolset that has gone", got)
		}
		time.Sleep(2 * retiredSeriesTime)
		synctest.Wait()
		wantSeries(t, m, 0, "after its time")
		if got := countSeries(m.duration) + countSeries(m.loads); got != 0 {
			t.Errorf("%d other series are left", got)
		}
	})
}

func TestMetrics_retired_series_are_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newCollectors()
		for i := range maxRetiredSeries + 10 {
			label := fmt.Sprint(i)
			m.Acquire(label)
			of := m.Of(label, "mcp")
			of.Count("", "ok")
			m.Release(label)
		}
		wantSeries(t, m, maxRetiredSeries, "above the limit")
		time.Sleep(2 * retiredSeriesTime)
		synctest.Wait()
		wantSeries(t, m, 0, "after their time")
	})
}

func TestMetrics_series_of_callers_and_requests_end_with_the_tool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both, one := []string{"kept", "gone"}, []string{"kept"}
		m := loadedWith(both)
		before := countSeries(callerCalls)
		for _, tool := range []string{"kept", "gone"} {
			new(Callers).Observe(&CallBy{User: &identity.User{}, Toolset: "t", Tool: tool, Outcome: "ok"})
			m.ObserveOperation("tools/call", tool, "", "2025-11-25", time.Millisecond)
		}
		m.ObserveOperation("tools/list", "", "", "2025-11-25", time.Millisecond)
		m.Loaded("t", one, 0)
		time.Sleep(2 * retiredSeriesTime)
		synctest.Wait()
		if got := countSeries(callerCalls) - before; got != 1 {
			t.Errorf("%d series of callers, want that of the kept tool", got)
		}
		if got := countSeries(m.requests); got != 2 {
			t.Errorf("%d series of requests, want those of the list and of the kept tool", got)
		}
		m.Release("t")
		time.Sleep(2 * retiredSeriesTime)
		synctest.Wait()
		if got := countSeries(callerCalls) - before; got != 0 {
			t.Errorf("%d series of callers of a toolset that has gone", got)
		}
	})
}

// BenchmarkMetrics_remove removes half of the tools, each with four series of calls.
func BenchmarkMetrics_remove(b *testing.B) {
	for _, n := range []int{256, 2048} {
		b.Run(fmt.Sprint(n, " tools"), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				m, due := newCollectors(), make([]retiredSeries, 0, n)
				for i := range 2 * n {
					name := fmt.Sprint("tool-", i)
					for _, protocol := range []string{"mcp", "otc"} {
						for _, outcome := range []string{"ok", "timeout"} {
							m.calls.WithLabelValues("t", protocol, name, outcome).Inc()
						}
					}
					if i%2 == 0 {
						due = append(due, retiredSeries{"t", name})
					}
				}
				b.StartTimer()
				m.remove(due)
			}
		})
	}
}
