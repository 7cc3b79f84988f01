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
	m := &metrics{
		ignored: directive.Counter("ocp_headers_ignored_total", "Ignored OCP request headers by header and reason.", "header", "reason"),
		contexts: directive.Counter("ocp_contexts_total", "Requests with OCP headers by the verdict on their session: conforming, usable, ignored, "+
			"none (no session) or unjudged (not compared with the schema; strict and forward json do that).", "verdict"),
		replies:  directive.Counter("ocp_replies_total", "Responses with OCP headers by whether detail was removed to make the session fit.", "shed"),
		enhanced: directive.Counter("ocp_enhancements_total", "Responses selected for enhancement by outcome: enhanced, or why the response was left unchanged.", "outcome"),
		failed:   directive.Counter("ocp_property_failures_total", "Failed expressions of enhance by property and reason.", "property", "reason"),
	}
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
