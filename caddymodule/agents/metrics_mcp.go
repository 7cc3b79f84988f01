package agents

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/mcpadapter"
)

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

// ObserveOperation records the duration of a request of an MCP client.
func (m *metrics) ObserveOperation(o mcpadapter.Operation) {
	m.requests.WithLabelValues(o.Method, o.Tool, o.Error, o.Revision).Observe(o.Duration.Seconds())
}
