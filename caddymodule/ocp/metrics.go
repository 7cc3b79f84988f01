package ocp

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// ocpMetrics has the collectors of the ocp handlers. Like those of tool calls, they survive a
// reload. No label value comes from a client.
type ocpMetrics struct {
	ignored  *prometheus.CounterVec // header, reason
	contexts *prometheus.CounterVec // verdict
	replies  *prometheus.CounterVec // shed
	enhanced *prometheus.CounterVec // outcome
	failed   *prometheus.CounterVec // property, reason

	verdicts map[string]prometheus.Counter
	whole    prometheus.Counter // replies from which nothing was removed
	part     prometheus.Counter // other replies
}

// collectedOCP has the collectors of the process.
var collectedOCP = newOCPMetrics()

// newOCPMetrics creates the collectors without registering them.
func newOCPMetrics() *ocpMetrics {
	const namespace, subsystem = "fairway", "ocp"
	m := &ocpMetrics{
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "headers_ignored_total",
			Help:      "OCP headers of requests that were ignored, by header and by what was wrong with them.",
		}, []string{"header", "reason"}),
		contexts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "contexts_total",
			Help: "Requests with OCP headers, by what their session was worth: conforming, usable, ignored, " +
				"none (there was no session) or unjudged (strict or forward json would have judged it).",
		}, []string{"verdict"}),
		replies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "replies_total",
			Help:      "Answers that were given OCP headers, by whether detail was shed to make them fit.",
		}, []string{"shed"}),
		enhanced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "enhancements_total",
			Help:      "Answers that were to be enhanced, by how that went: enhanced, or why the answer was left as it was.",
		}, []string{"outcome"}),
	}
	m.failed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace,
		Subsystem: subsystem,
		Name:      "property_failures_total",
		Help:      "Answers in which an expression of enhance failed, by its property and by why it failed.",
	}, []string{"property", "reason"})
	m.verdicts = make(map[string]prometheus.Counter)
	for _, verdict := range []string{"conforming", "usable", "ignored", "none", "unjudged"} {
		m.verdicts[verdict] = m.contexts.WithLabelValues(verdict)
	}
	m.whole, m.part = m.replies.WithLabelValues("false"), m.replies.WithLabelValues("true")
	return m
}

// register adds the collectors to the registry of a configuration.
func (m *ocpMetrics) register(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.ignored, m.contexts, m.replies, m.enhanced, m.failed} {
		already := prometheus.AlreadyRegisteredError{}
		if err := registry.Register(c); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// verdict counts a context by its verdict.
func (m *ocpMetrics) verdict(verdict string) {
	if counter := m.verdicts[verdict]; counter != nil {
		counter.Inc()
	}
}

// replied counts a reply. Shed is the last step of ocp.Context.FitSession.
func (m *ocpMetrics) replied(shed int) {
	if shed > 0 {
		m.part.Inc()
		return
	}
	m.whole.Inc()
}
