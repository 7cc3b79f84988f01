package ocp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// metrics has the collectors of the ocp handlers. Like those of tool calls, they survive a
// reload. No label value comes from a client.
type metrics struct {
	ignored  *prometheus.CounterVec // header, reason
	contexts *prometheus.CounterVec // countVerdict
	replies  *prometheus.CounterVec // shed
	enhanced *prometheus.CounterVec // outcome
	failed   *prometheus.CounterVec // property, reason

	verdicts map[string]prometheus.Counter
	complete prometheus.Counter // replies from which nothing was removed
	reduced  prometheus.Counter // other replies
}

// processMetrics has the collectors of the process.
var processMetrics = newMetrics()

// newMetrics creates the collectors without registering them.
func newMetrics() *metrics {
	const namespace, subsystem = "fairway", "ocp"
	m := &metrics{
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "headers_ignored_total",
			Help:      "Ignored OCP request headers by header and reason.",
		}, []string{"header", "reason"}),
		contexts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "contexts_total",
			Help: "Requests with OCP headers by the verdict on their session: conforming, usable, ignored, " +
				"none (no session) or unjudged (not compared with the schema; strict and forward json do that).",
		}, []string{"verdict"}),
		replies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "replies_total",
			Help:      "Responses with OCP headers by whether detail was removed to make the session fit.",
		}, []string{"shed"}),
		enhanced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "enhancements_total",
			Help:      "Responses selected for enhancement by outcome: enhanced, or why the response was left unchanged.",
		}, []string{"outcome"}),
	}
	m.failed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace,
		Subsystem: subsystem,
		Name:      "property_failures_total",
		Help:      "Failed expressions of enhance by property and reason.",
	}, []string{"property", "reason"})
	m.verdicts = make(map[string]prometheus.Counter)
	for _, verdict := range []string{"conforming", "usable", "ignored", "none", "unjudged"} {
		m.verdicts[verdict] = m.contexts.WithLabelValues(verdict)
	}
	m.complete, m.reduced = m.replies.WithLabelValues("false"), m.replies.WithLabelValues("true")
	return m
}

// register adds the collectors to the registry of a configuration.
func (m *metrics) register(registry prometheus.Registerer) error {
	return directive.RegisterMetrics(registry, m.ignored, m.contexts, m.replies, m.enhanced, m.failed)
}

// countVerdict counts a context by its verdict.
func (m *metrics) countVerdict(verdict string) {
	if counter := m.verdicts[verdict]; counter != nil {
		counter.Inc()
	}
}

// countReply counts a reply. Shed is the last step of ocp.Context.FitSession.
func (m *metrics) countReply(step int) {
	if step > 0 {
		m.reduced.Inc()
		return
	}
	m.complete.Inc()
}
