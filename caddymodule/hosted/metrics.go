package hosted

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
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

// Metrics of budgets. The names are those of the configuration, so users cannot create label values.
var (
	budgetRefusals = directive.Counter("agent_budget_refusals_total",
		"Requests to models that were not made, because a budget was used. of: user, group, agent or total.", "of")
	budgetSpent = directive.Gauge("agent_budget_spent",
		"What was used of a budget with a name, or of all runs, on the day (UTC) of the latest request. unit: tokens, or cost in the currency of the prices.", "of", "name", "unit")
	budgetLimit = directive.Gauge("agent_budget_limit", "The limit of such a budget.", "of", "name", "unit")
)

// registerMetrics registers the collectors.
func registerMetrics(registry prometheus.Registerer) error {
	return directive.RegisterMetrics(registry, processMetrics, budgetRefusals, budgetSpent, budgetLimit)
}

// budgetMetrics measures the budgets of a configuration.
type budgetMetrics []Budget

// checked counts a check of a budget. Budgets that each user or agent has are not measured one by one.
func (m budgetMetrics) checked(b *run.Budget, used model.Usage, isReached bool) {
	if isReached {
		budgetRefusals.WithLabelValues(b.Of).Inc()
	}
	for _, configured := range m {
		if configured.Of != b.Of || configured.Name != b.Name {
			continue
		}
		unit, limit, spent := "tokens", float64(configured.Tokens), float64(used.Total())
		if configured.Cost > 0 {
			unit, limit, spent = "cost", configured.Cost, model.Money(used.Cost)
		}
		budgetSpent.WithLabelValues(b.Of, b.Name, unit).Set(spent)
		budgetLimit.WithLabelValues(b.Of, b.Name, unit).Set(limit)
	}
}

// forget removes the metrics, because the configuration has ended. The next one sets its own.
func (m budgetMetrics) forget() {
	for _, b := range m {
		labels := prometheus.Labels{"of": b.Of, "name": b.Name}
		budgetSpent.DeletePartialMatch(labels)
		budgetLimit.DeletePartialMatch(labels)
	}
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
			counts := runner.Counts()
			running += counts.Working
			queued += counts.Queued
			waiting += counts.Waiting
		}
	}
	m.mu.Unlock()
	to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, float64(running), "running")
	to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, float64(waiting), "waiting")
	to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, float64(queued), "queued")
}
