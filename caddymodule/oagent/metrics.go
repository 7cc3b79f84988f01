package oagent

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/caddymodule/oagent/hosting"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/internal/calltrace"
)

// agentMetrics are the collectors of the oagent handlers. They survive a reload. The label
// agent has only names of documents, or "" for requests that no agent governs, so clients
// cannot create label values.
type agentMetrics struct {
	decisions *prometheus.CounterVec   // agent, outcome
	duration  *prometheus.HistogramVec // agent

	outcomes sync.Map // agent name → *agentOutcomes
}

// processMetrics is the only set of these collectors in the process.
var processMetrics = newAgentMetrics()

// processSpans makes the spans of work without a request. There is one in the process, like Caddy's tracer
// provider, so that runs have spans after a reload too.
var processSpans calltrace.Source

func newAgentMetrics() *agentMetrics {
	const namespace = "fairway"
	return &agentMetrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Name:      "agent_decisions_total",
			Help:      "Decisions about requests that agents govern, by agent and by outcome: allowed, or the kind of the refusal.",
		}, []string{"agent", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace,
			Name:      "agent_call_duration_seconds",
			Help:      "Duration of requests that agents govern, by agent. It includes the time that the reviewer and the API take.",
			Buckets:   []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"agent"}),
	}
}

func (m *agentMetrics) register(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.decisions, m.duration} {
		already := prometheus.AlreadyRegisteredError{}
		if err := registry.Register(c); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return errors.Join(reviewers.RegisterMetrics(registry), hosting.RegisterMetrics(registry))
}

// agentOutcomes are the collectors of one agent.
type agentOutcomes struct {
	allowed   prometheus.Counter
	decisions *prometheus.CounterVec // outcome
	duration  prometheus.Observer
}

// of returns the collectors of an agent. The name must be one of a document, or "" for requests
// that no agent governs.
func (m *agentMetrics) of(agent string) *agentOutcomes {
	if known, ok := m.outcomes.Load(agent); ok {
		return known.(*agentOutcomes)
	}
	decisions := m.decisions.MustCurryWith(prometheus.Labels{"agent": agent})
	known, _ := m.outcomes.LoadOrStore(agent, &agentOutcomes{decisions.WithLabelValues(allowed), decisions, m.duration.WithLabelValues(agent)})
	return known.(*agentOutcomes)
}

func (o *agentOutcomes) count(decision string) {
	if decision == allowed {
		o.allowed.Inc()
		return
	}
	o.decisions.WithLabelValues(decision).Inc()
}
