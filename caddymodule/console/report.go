package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
)

// reportSpans are the time ranges of the report.
var reportSpans = []span{{"28d", 28 * 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"24h", 24 * time.Hour}}

// reportModel says for each tool what the owner of its API should mend.
type reportModel struct {
	Range   string               `json:"range"`
	Tools   []calllog.ToolReport `json:"tools"` // those with the most failures first
	Partial bool                 `json:"partial,omitzero"`
	Problem string               `json:"problem,omitzero"` // why there is no report

	Tool string `json:"-"` // the only tool, "" for all
}

// serveReport serves the report of the calls that the viewer may see.
func (c *Handler) serveReport(q *request) (*page, error) {
	if len(q.rest) > 1 || !q.isRead() {
		return nil, errNotFound
	}
	parameters := q.URL.Query()
	m := &reportModel{Range: cmp.Or(parameters.Get("range"), reportSpans[0].Name), Tool: parameters.Get("tool")}
	i := slices.IndexFunc(reportSpans, func(s span) bool { return s.Name == m.Range })
	if i < 0 {
		return nil, &failure{http.StatusBadRequest, "Invalid parameter", "range must be 24h, 7d or 28d."}
	}
	query := c.statsQuery(q, reportSpans[i].Span)
	query.Report = true
	stats, err := c.site.calls.Stats(q.Context(), query)
	if err != nil {
		c.site.logger.Warn("reading the kept calls failed", zap.Error(err))
		m.Problem = "The store cannot be read now. The gateway's log has the reason."
		stats = new(calllog.Stats)
	}
	m.Partial = stats.Partial
	for _, r := range stats.Report {
		if m.Tool == "" || r.Name == m.Tool {
			m.Tools = append(m.Tools, r)
		}
	}
	return &page{view: "overview", template: "report", title: "What to mend", model: m}, nil
}

// Spans returns the time ranges.
func (*reportModel) Spans() []span { return reportSpans }
