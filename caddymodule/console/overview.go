package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/tools/result"
)

// spans are the time ranges of the overview.
var spans = []span{{"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

type span struct {
	Name string
	Span time.Duration
}

// overviewModel is the first page: what happened on the site, and the state of what it needs.
type overviewModel struct {
	Range     string          `json:"range"`
	Calls     *calllog.Stats  `json:"calls"`
	Reviews   reviewsWaiting  `json:"reviews"`
	Faults    []documentFault `json:"document_faults,omitzero"`
	Nodes     []calllog.Node  `json:"nodes,omitzero"`     // for auditors and operators, like the following
	Upstreams []upstreamModel `json:"upstreams,omitzero"` // of this node
	Limits    []share.Usage   `json:"limits,omitzero"`    // of this node
	Problem   string          `json:"problem,omitzero"`   // why there are no statistics
	Off       bool            `json:"-"`                  // calls are not kept
}

// reviewsWaiting are the reviews that wait for the viewer.
type reviewsWaiting struct {
	Waiting int       `json:"waiting"`
	Oldest  time.Time `json:"oldest,omitzero"`
}

// documentFault is a document that could not be loaded.
type documentFault struct {
	Toolset string `json:"toolset"`
	faultModel
}

// upstreamModel is a server of reverse_proxy.
type upstreamModel struct {
	Address  string `json:"address"`
	Requests int    `json:"num_requests"` // in progress
	Fails    int    `json:"fails"`        // that count for its health
}

// serveOverview serves the overview.
func (c *Handler) serveOverview(q *request) (*page, error) {
	if len(q.rest) > 1 || !q.isRead() {
		return nil, errNotFound
	}
	log := c.site.calls.Log
	m := &overviewModel{Range: cmp.Or(q.URL.Query().Get("range"), spans[0].Name), Off: log.Options().Off}
	i := slices.IndexFunc(spans, func(s span) bool { return s.Name == m.Range })
	if i < 0 {
		return nil, &failure{http.StatusBadRequest, "Invalid parameter", "range must be 1h, 24h or 7d."}
	}
	var err error
	if m.Calls, err = log.Stats(q.Context(), c.statsQuery(q, spans[i].Span)); err != nil {
		c.site.logger.Warn("reading the kept calls failed", zap.Error(err))
		m.Problem = "The store cannot be read now. The gateway's log has the reason."
		m.Calls = new(calllog.Stats)
	}
	if q.viewer.User != "" {
		if m.Reviews, err = (&recordPages{c.site, q}).oldestReview(); err != nil {
			return nil, err
		}
	}
	if q.viewer.seesAll() {
		m.Nodes, m.Upstreams, m.Limits = log.Nodes(q.Context()), upstreams(q.Request), c.site.app.Usage()
		m.Faults = (&toolPages{c.site, q}).faults()
	}
	return &page{view: "overview", template: "overview", part: "overview", title: "Overview", model: m}, nil
}

// oldestReview returns the number of the reviews that wait for the viewer, and when the oldest was requested.
func (p *recordPages) oldestReview() (reviewsWaiting, error) {
	w := reviewsWaiting{Waiting: p.waiting()}
	if w.Waiting == 0 {
		return w, nil
	}
	for n := range p.site.guards() {
		var list struct {
			Reviews []reviewModel `json:"reviews"`
		}
		if _, err := p.do(n, http.MethodGet, "/reviews", nil, &list); err != nil {
			return w, err
		}
		for _, r := range list.Reviews {
			if w.Oldest.IsZero() || r.AskedAt.Before(w.Oldest) {
				w.Oldest = r.AskedAt
			}
		}
	}
	return w, nil
}

// faults returns the documents of the site that could not be loaded.
func (p *toolPages) faults() (faults []documentFault) {
	known := make(map[string]bool)
	for _, e := range p.site.endpoints() {
		for _, part := range e.Parts.All {
			t := p.describeToolset(part.Toolset)
			if t.Fault != nil && !known[t.Name] {
				known[t.Name] = true
				faults = append(faults, documentFault{t.Name, *t.Fault})
			}
		}
	}
	return faults
}

// maxUpstreams is the maximum size of Caddy's list of servers, in bytes.
const maxUpstreams = 1 << 20

// upstreams returns the servers of reverse_proxy, as Caddy's admin endpoint /reverse_proxy/upstreams lists them. It
// returns nil if the build has no reverse_proxy.
func upstreams(r *http.Request) (list []upstreamModel) {
	info, err := caddy.GetModule("admin.api.reverse_proxy")
	if err != nil {
		return nil
	}
	router, ok := info.New().(caddy.AdminRouter)
	if !ok {
		return nil
	}
	for _, route := range router.Routes() {
		if route.Pattern != "/reverse_proxy/upstreams" {
			continue
		}
		w := respond.NewRecorder(maxUpstreams)
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, route.Pattern, nil)
		if err == nil && route.Handler.ServeHTTP(w, request) == nil {
			_ = json.Unmarshal(w.Body.B, &list) // without a list, the page has no table
		}
		w.Release()
	}
	return list
}

// Spans returns the names of the time ranges.
func (m *overviewModel) Spans() (names []string) {
	for _, s := range spans {
		names = append(names, s.Name)
	}
	return names
}

// PerSecond returns the calls of a point per second.
func (m *overviewModel) PerSecond(calls int) string {
	return fmt.Sprintf("%.3g", float64(calls)/m.Calls.Step)
}

// Tokens returns about how many tokens of a model the responses of a tool have.
func (m *overviewModel) Tokens(u calllog.Usage) int { return int(u.Size / result.BytesPerToken) }

// Share returns a share in percent.
func (m *overviewModel) Share(u calllog.Usage) string {
	if u.Calls == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(u.Failures)/float64(u.Calls))
}

// Size of a sparkline in pixels.
const (
	sparkWidth  = 96
	sparkHeight = 18
)

// sparkline returns numbers as a line in SVG. It is decoration beside the number of calls.
func sparkline(values []int) template.HTML {
	if len(values) < 2 {
		return ""
	}
	highest := max(slices.Max(values), 1)
	var points strings.Builder
	for i, value := range values {
		fmt.Fprintf(&points, "%d,%d ", i*sparkWidth/(len(values)-1), sparkHeight-1-value*(sparkHeight-2)/highest)
	}
	return template.HTML(fmt.Sprintf(`<svg class="spark" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" aria-hidden="true"><polyline points="%s"/></svg>`, //nolint:gosec // only numbers
		sparkWidth, sparkHeight, points.String()))
}
