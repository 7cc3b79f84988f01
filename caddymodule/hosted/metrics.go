package hosted

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// runMetrics counts the runs of all Hosts in the process at each scrape. Its only label has fixed values.
type runMetrics struct {
	description *prometheus.Desc

	mu    sync.Mutex
	hosts map[string]*Host // by realm, so that runs are not counted twice during a reload
}

// processMetrics is the only set of these collectors in the process.
var processMetrics = &runMetrics{
	description: prometheus.NewDesc("fairway_agent_runs",
		"Runs of hosted agents. running: this node works on them. queued: they wait for a worker. waiting: they wait for a reviewer, for their user, for another agent or for a model that is unavailable, on all nodes that share the store.",
		[]string{"status"}, nil),
	hosts: make(map[string]*Host),
}

// RegisterMetrics registers the collectors.
func RegisterMetrics(registry prometheus.Registerer) error {
	return directive.RegisterMetrics(registry, processMetrics)
}

// open begins to count the runs of a Host, in place of those of an earlier Host of the realm.
func (m *runMetrics) open(h *Host) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[h.options.Realm()] = h
}

// close stops counting the runs of a Host, unless a later Host has replaced it.
func (m *runMetrics) close(h *Host) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hosts[h.options.Realm()] == h {
		delete(m.hosts, h.options.Realm())
	}
}

// Describe implements prometheus.Collector.
func (m *runMetrics) Describe(to chan<- *prometheus.Desc) { to <- m.description }

// Collect implements prometheus.Collector.
func (m *runMetrics) Collect(to chan<- prometheus.Metric) {
	running, queued, waiting := 0, 0, 0
	m.mu.Lock()
	for _, h := range m.hosts {
		if runner := h.opened.Load(); runner != nil {
			running += runner.Working()
			queued += runner.Queued()
			waiting += runner.Waiting()
		}
	}
	m.mu.Unlock()
	to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, float64(running), "running")
	to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, float64(waiting), "waiting")
	to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, float64(queued), "queued")
}
