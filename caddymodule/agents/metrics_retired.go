package agents

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// retiredSeriesTime is how long the counters of a tool stay after the tool has gone. A
	// scrape within this time still sees what the counters gained since the scrape before.
	retiredSeriesTime = 15 * time.Minute

	// maxRetiredSeries bounds how many tools and toolsets that have gone keep their counters.
	// Above it the oldest ones are removed early.
	maxRetiredSeries = 4096
)

// retiredSeries are the counters of a tool that has gone, or of a toolset if tool is "".
type retiredSeries struct{ toolset, tool string }

// retire keeps the series for retiredSeriesTime and then removes those whose tool or toolset
// has not come back. The caller holds mu.
func (m *metrics) retire(gone ...retiredSeries) {
	if len(gone) == 0 {
		return
	}
	due := time.Now().Add(retiredSeriesTime)
	for _, series := range gone {
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

// removeRetired removes the series that are due.
func (m *metrics) removeRetired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for series, due := range m.retired {
		if !now.Before(due) {
			m.remove(series)
		}
	}
}

// remove removes the series unless their tool or toolset has come back. The caller holds mu.
func (m *metrics) remove(series retiredSeries) {
	delete(m.retired, series)
	label := prometheus.Labels{"toolset": series.toolset}
	use := m.labels[series.toolset]
	switch {
	case series.tool != "":
		if use != nil && use.latest != nil {
			if _, back := use.latest.Tool(series.tool); back {
				return
			}
		}
		label["tool"] = series.tool
		m.calls.DeletePartialMatch(label)
	case use == nil:
		m.calls.DeletePartialMatch(label)
		m.duration.DeletePartialMatch(label)
		m.loads.DeletePartialMatch(label)
	}
}
