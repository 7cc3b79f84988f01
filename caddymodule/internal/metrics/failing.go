package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// failingCollector exports whether the latest load of a document failed. Counters do not show this: a file with an error is
// counted once, and a file that gets its earlier content back is not counted.
type failingCollector struct {
	failing *prometheus.Desc

	mu        sync.Mutex
	documents map[*func() error]string // value: the label
}

func newFailingCollector() *failingCollector {
	return &failingCollector{
		failing: prometheus.NewDesc("fairway_document_failing", "1 if the latest load of the document failed, else 0.",
			[]string{"toolset"}, nil),
		documents: make(map[*func() error]string),
	}
}

// ExportFailing exports whether latest returns an error, until remove is called. latest returns the error of the latest load.
func (m *collectors) ExportFailing(toolset string, latest func() error) (remove func()) {
	c := m.failing
	c.mu.Lock()
	defer c.mu.Unlock()
	c.documents[&latest] = toolset
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.documents, &latest)
	}
}

// Describe implements prometheus.Collector.
func (c *failingCollector) Describe(to chan<- *prometheus.Desc) { to <- c.failing }

// Collect implements prometheus.Collector. While one configuration replaces another, a label can have two documents.
func (c *failingCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := make(map[string]float64)
	for latest, toolset := range c.documents {
		value := 0.0
		if (*latest)() != nil {
			value = 1
		}
		values[toolset] = max(values[toolset], value)
	}
	for toolset, value := range values {
		to <- prometheus.MustNewConstMetric(c.failing, prometheus.GaugeValue, value, toolset)
	}
}
