package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/internal/share"
)

// shareCollector exports the use of limits with shares. Owners are not among the labels.
type shareCollector struct {
	used, limit, largest *prometheus.Desc

	mu      sync.Mutex
	sources map[*func() []share.Usage]struct{}
}

func newShareCollector() *shareCollector {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("fairway", "limit", name), help, []string{"resource"}, nil)
	}
	return &shareCollector{
		used:    describe("used", "Units of a limited resource in use."),
		limit:   describe("max", "The limit of the resource."),
		largest: describe("largest_owner_used", "Units in use by the user or network that uses most."),
		sources: make(map[*func() []share.Usage]struct{}),
	}
}

// ExportUse exports what the function returns, until remove is called.
func (m *collectors) ExportUse(usage func() []share.Usage) (remove func()) {
	c := m.shares
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[&usage] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sources, &usage)
	}
}

// Describe implements prometheus.Collector.
func (c *shareCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.used
	to <- c.limit
	to <- c.largest
}

// Collect implements prometheus.Collector. It adds up resources of the same name.
func (c *shareCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := make(map[string]share.Usage)
	for source := range c.sources {
		for _, u := range (*source)() {
			sum := sums[u.Name]
			sums[u.Name] = share.Usage{Used: sum.Used + u.Used, Limit: sum.Limit + u.Limit, LargestUsed: max(sum.LargestUsed, u.LargestUsed)}
		}
	}
	for name, u := range sums {
		to <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, float64(u.Used), name)
		to <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(u.Limit), name)
		to <- prometheus.MustNewConstMetric(c.largest, prometheus.GaugeValue, float64(u.LargestUsed), name)
	}
}
