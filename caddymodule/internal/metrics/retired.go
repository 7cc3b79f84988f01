package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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
func (m *collectors) retire(removed ...retiredSeries) {
	if len(removed) == 0 {
		return
	}
	due := time.Now().Add(retiredSeriesTime)
	for _, series := range removed {
		m.retired[series] = due
	}
	if excess := len(m.retired) - maxRetiredSeries; excess > 0 {
		oldest := slices.SortedFunc(maps.Keys(m.retired), func(a, b retiredSeries) int { return m.retired[a].Compare(m.retired[b]) })
		m.remove(oldest[:excess])
	}
	time.AfterFunc(retiredSeriesTime, m.removeRetired)
}

// removeRetired removes the series whose time is over.
func (m *collectors) removeRetired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var due []retiredSeries
	for series, at := range m.retired {
		if !now.Before(at) {
			due = append(due, series)
		}
	}
	m.remove(due)
}

// remove removes the series of tools and toolsets, except those that have returned. It scans each collector once, where
// DeletePartialMatch would scan them for each tool. The caller holds mu.
func (m *collectors) remove(due []retiredSeries) {
	gone, names := make(map[retiredSeries]bool), make(map[string]bool)
	for _, series := range due {
		delete(m.retired, series)
		if m.hasReturned(series) {
			continue
		}
		gone[series] = true
		if series.tool != "" {
			names[series.tool] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	for _, collector := range []*prometheus.MetricVec{
		m.calls.MetricVec, m.duration.MetricVec, m.loads.MetricVec, callerCalls.MetricVec, callerDuration.MetricVec, callerTokens.MetricVec,
	} {
		deleteSeries(collector, func(labels prometheus.Labels) bool {
			return gone[retiredSeries{toolset: labels["toolset"]}] || gone[retiredSeries{labels["toolset"], labels["tool"]}]
		})
	}
	deleteSeries(m.requests.MetricVec, func(labels prometheus.Labels) bool { return names[labels[labelToolName]] })
}

// hasReturned reports whether the tool or the toolset exists again. The caller holds mu.
func (m *collectors) hasReturned(series retiredSeries) bool {
	use := m.labels[series.toolset]
	if use == nil || series.tool == "" {
		return use != nil
	}
	return use.tools[series.tool]
}

// deleteSeries deletes the series with such labels.
func deleteSeries(from *prometheus.MetricVec, isGone func(prometheus.Labels) bool) {
	series := make(chan prometheus.Metric, 64)
	go func() {
		from.Collect(series)
		close(series)
	}()
	var found []prometheus.Labels // deleted after the scan, which locks the collector
	for metric := range series {
		var written dto.Metric
		if metric.Write(&written) != nil {
			continue // cannot happen: the collectors make valid metrics
		}
		labels := make(prometheus.Labels, len(written.Label))
		for _, pair := range written.Label {
			labels[pair.GetName()] = pair.GetValue()
		}
		if isGone(labels) {
			found = append(found, labels)
		}
	}
	for _, labels := range found {
		from.Delete(labels)
	}
}
