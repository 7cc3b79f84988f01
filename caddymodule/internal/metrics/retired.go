package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// retiredSeriesTime is how long the counters of a removed tool are kept, so that the next
	// scrape still reads their last increments.
	retiredSeriesTime = 15 * time.Minute

	// maxRetiredSeries limits how many removed tools and toolsets keep their counters. Above
	// the limit the oldest are removed early.
	maxRetiredSeries = 2048
)

// retiredSeries identifies the counters of a removed tool, or of a removed toolset if tool is
// "".
type retiredSeries struct{ toolset, tool string }

// retire schedules the removal of the series after retiredSeriesTime. A series stays if its
// tool or toolset returns before. The caller holds mu.
func (m *Collectors) retire(removed ...retiredSeries) {
	if len(removed) == 0 {
		return
	}
	due := time.Now().Add(retiredSeriesTime)
	for _, series := range removed {
		m.retired[series] = due
	}
	if excess := len(m.retired) - maxRetiredSeries; excess > 0 {
		oldest := slices.SortedFunc(maps.Keys(m.retired), func(a, b retiredSeries) int { return m.retired[a].Compare(m.retired[b]) })
		for _, series := range oldest[:excess] {
			m.remove(series)
		}
	}
	time.AfterFunc(retiredSeriesTime, m.removeRetired)
}

// removeRetired removes the series whose time is over.
func (m *Collectors) removeRetired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for series, due := range m.retired {
		if !now.Before(due) {
			m.remove(series)
		}
	}
}

// remove removes the series unless its tool or toolset has returned. The caller holds mu.
func (m *Collectors) remove(series retiredSeries) {
	delete(m.retired, series)
	label := prometheus.Labels{"toolset": series.toolset}
	use := m.labels[series.toolset]
	switch {
	case series.tool != "":
		if use != nil && use.toolset != nil {
			if _, back := use.toolset.Tool(series.tool); back {
				return
			}
		}
		label["tool"] = series.tool
		m.calls.DeletePartialMatch(label)
		removeCallers(label)
		m.requests.DeletePartialMatch(prometheus.Labels{labelToolName: series.tool})
	case use == nil:
		m.calls.DeletePartialMatch(label)
		m.duration.DeletePartialMatch(label)
		removeCallers(label)
		m.loads.DeletePartialMatch(label)
	}
}
