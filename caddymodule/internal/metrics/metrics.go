// Package metrics has the Prometheus collectors of the gateway, which all configurations of the process share.
//
//   - Collectors count the tools of documents, the calls of tools and the requests of MCP clients (metrics.go).
//   - Callers says who calls tools (callers.go).
//   - ExportUse shows how much of a limit is in use (limits.go).
//   - ExportFailing shows which documents cannot be loaded (failing.go).
//   - The series of a tool or toolset that is gone are removed some time later (retired.go).
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// collectors are Fairway's Prometheus collectors. Caddy creates a new registry for every
// configuration. The collectors are kept, so that counters survive a reload.
//
// Label values come from the configuration and its documents, never from a client. A call of an
// unknown tool has the tool label "".
type collectors struct {
	calls    *prometheus.CounterVec   // toolset, protocol, tool, outcome
	duration *prometheus.HistogramVec // toolset, protocol
	loads    *prometheus.CounterVec   // toolset, result
	tools    *prometheus.GaugeVec     // toolset
	warnings *prometheus.GaugeVec     // toolset
	requests *prometheus.HistogramVec // of MCP clients, see newOperationDuration
	shares   *shareCollector
	failing  *failingCollector

	callsDropped *prometheus.CounterVec // of this node
	unreadable   *prometheus.CounterVec // kind
	would        *prometheus.CounterVec // agent, rule
	incomplete   *prometheus.CounterVec // agent, rule

	mu      sync.Mutex                  // guards the fields below
	labels  map[string]*labelUse        // by toolset label
	retired map[retiredSeries]time.Time // value: when the series is removed
}

// labelUse counts the documents that use a toolset label. While one configuration replaces
// another, a label can have two documents.
type labelUse struct {
	documents int
	tools     map[string]bool // names of the tools; nil until a toolset is loaded
}

// All holds the collectors of the process.
var All = newCollectors()

// newCollectors creates the collectors without registering them.
func newCollectors() *collectors {
	return &collectors{
		calls:        directive.Counter("tool_calls_total", "Tool calls by outcome: ok, or the kind of failure.", "toolset", "protocol", "tool", "outcome"),
		duration:     directive.CallDuration("tool_call_duration_seconds", "Duration of tool calls, from the arguments to the complete API response.", "toolset", "protocol"),
		loads:        directive.Counter("document_loads_total", "Loads of OpenAPI documents by result: ok or failed.", "toolset", "result"),
		tools:        directive.Gauge("document_tools", "Tools in the current toolset.", "toolset"),
		warnings:     directive.Gauge("document_warnings", "Warnings about the document of the current toolset.", "toolset"),
		requests:     newOperationDuration(),
		shares:       newShareCollector(),
		failing:      newFailingCollector(),
		callsDropped: directive.Counter("calls_dropped_total", "Calls that were not kept, because the store was too slow or failed."),
		unreadable:   directive.Counter("store_unreadable_total", "Reads of records that are damaged, or that a newer version has written, by kind.", "kind"),
		would:        directive.Counter("would_refuse_total", "Calls that went through although a rule in log only would have refused, held or masked them.", "agent", "rule"),
		incomplete:   directive.Counter("log_only_incomplete_total", "Calls for which a rule in log only could not be judged.", "agent", "rule"),
		labels:       make(map[string]*labelUse),
		retired:      make(map[retiredSeries]time.Time),
	}
}

// Register adds the collectors to the registry of a configuration.
func (m *collectors) Register(registry prometheus.Registerer) error {
	return directive.RegisterMetrics(registry, m.calls, m.duration, m.loads, m.tools, m.warnings, m.requests, m.shares, m.failing, m.callsDropped, m.unreadable, m.would, m.incomplete, callerCalls, callerDuration, callerTokens)
}

// Acquire counts a document that uses the toolset label.
func (m *collectors) Acquire(toolset string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	use := m.labels[toolset]
	if use == nil {
		use = new(labelUse)
		m.labels[toolset] = use
	}
	use.documents++
}

// Release stops counting a document that uses the toolset label. After the last document it
// removes the toolset's gauges. The counters are removed later (see retire).
func (m *collectors) Release(toolset string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if use := m.labels[toolset]; use != nil && use.documents > 1 {
		use.documents--
		return
	}
	delete(m.labels, toolset)
	label := prometheus.Labels{"toolset": toolset}
	m.tools.DeletePartialMatch(label)
	m.warnings.DeletePartialMatch(label)
	m.retire(retiredSeries{toolset: toolset})
}

// Loaded records the names of the tools of a new toolset and the number of its warnings. It retires the series of tools that the
// toolset no longer has.
func (m *collectors) Loaded(label string, tools []string, warnings int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads.WithLabelValues(label, "ok").Inc()
	m.tools.WithLabelValues(label).Set(float64(len(tools)))
	m.warnings.WithLabelValues(label).Set(float64(warnings))

	use := m.labels[label]
	if use == nil {
		return
	}
	previous := use.tools
	use.tools = make(map[string]bool, len(tools))
	for _, name := range tools {
		use.tools[name] = true
	}
	var removed []retiredSeries
	for name := range previous {
		if !use.tools[name] {
			removed = append(removed, retiredSeries{label, name})
		}
	}
	m.retire(removed...)
}

// Failed counts a failed load.
func (m *collectors) Failed(label string) {
	m.loads.WithLabelValues(label, "failed").Inc()
}

// Calls are the collectors of one toolset over one protocol.
type Calls struct {
	calls    *prometheus.CounterVec // tool, outcome
	duration prometheus.Observer
}

// Of returns the collectors of one toolset over one protocol.
func (m *collectors) Of(toolset, protocol string) Calls {
	return Calls{
		calls:    m.calls.MustCurryWith(prometheus.Labels{"toolset": toolset, "protocol": protocol}),
		duration: m.duration.WithLabelValues(toolset, protocol),
	}
}

// Observe counts one call and records its duration. Tool is "" if the called tool does not exist.
func (m *Calls) Observe(tool, outcome string, took time.Duration) {
	m.Count(tool, outcome)
	m.duration.Observe(took.Seconds())
}

// Count counts one call. Tool is "" if the called tool does not exist.
func (m *Calls) Count(tool, outcome string) {
	m.calls.WithLabelValues(tool, outcome).Inc()
}

// labelToolName is the label for the name of a tool (OpenTelemetry, gen_ai.tool.name).
const labelToolName = "gen_ai_tool_name"

// newOperationDuration returns the histogram mcp.server.operation.duration of OpenTelemetry's semantic
// conventions for MCP, with the name and the buckets that it has in Prometheus.
func newOperationDuration() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "mcp_server_operation_duration_seconds",
		Help:    "Duration of the requests of MCP clients, by method, tool, error and revision of MCP.",
		Buckets: []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300},
	}, []string{"mcp_method_name", labelToolName, "error_type", "mcp_protocol_version"})
}

// Unreadable counts a record of the store that cannot be read.
func (m *collectors) Unreadable(kind string) { m.unreadable.WithLabelValues(kind).Inc() }

// Would counts a call that a rule in log only would have stopped or changed. The names are those of documents and of the configuration.
func (m *collectors) Would(agent, rule string) { m.would.WithLabelValues(agent, rule).Inc() }

// Incomplete counts a call for which a rule in log only could not be judged.
func (m *collectors) Incomplete(agent, rule string) { m.incomplete.WithLabelValues(agent, rule).Inc() }

// CallsDropped counts calls that were not kept.
func (m *collectors) CallsDropped(n int64) { m.callsDropped.WithLabelValues().Add(float64(n)) }

// ObserveOperation records how long a request of an MCP client took. The tool and the error are "" if there is none.
func (m *collectors) ObserveOperation(method, tool, failure, revision string, took time.Duration) {
	m.requests.WithLabelValues(method, tool, failure, revision).Observe(took.Seconds())
}
