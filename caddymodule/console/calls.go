package console

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/store"
)

// Limits of the list of calls.
const (
	shownCalls     = 100 // calls on a page
	shownRunning   = 100 // calls in progress
	liveRows       = 25  // newest calls that an update has; there is one every 2 s
	shownNeighbors = 10  // other calls on the page of a call
)

// callsModel is a page of calls, newest first.
type callsModel struct {
	Running []calllog.Call    `json:"running"` // in progress
	Calls   []calllog.Call    `json:"calls"`   // that have ended
	Next    string            `json:"next,omitzero"`
	Partial bool              `json:"partial,omitzero"` // the search has taken too long; next goes on with it
	Problem string            `json:"problem,omitzero"` // why calls are missing
	Filter  map[string]string `json:"filter,omitzero"`

	Off      bool           `json:"-"` // calls are not kept
	Outcomes []outcomeCount `json:"-"`
	First    bool           `json:"-"` // the page has the newest calls
}

// outcomeCount is an outcome with the number of its calls in the last day.
type outcomeCount struct {
	Name  string
	Calls int
	Query template.URL // of the page with these calls only, or with all if they are selected
	On    bool         // these calls are selected
}

// callPage is one call.
type callPage struct {
	Call    calllog.Call   `json:"call"`
	Trace   []calllog.Call `json:"trace,omitzero"`   // other calls of the trace
	Earlier []calllog.Call `json:"earlier,omitzero"` // of the user
	Tool    string         `json:"-"`                // path of the page of the tool, "" if there is none
}

// serveCalls serves the calls, and one of them.
func (c *Handler) serveCalls(q *request) (*page, error) {
	switch {
	case !q.isRead() || len(q.rest) > 2:
		return nil, errNotFound
	case len(q.rest) == 2:
		return c.serveCall(q, q.rest[1])
	}
	parameters := q.URL.Query()
	for name, field := range map[string]string{"since": "from", "until": "to"} { // of the form, which has another field for since
		if value := parameters.Get(field); value != "" {
			parameters.Set(name, value)
		}
	}
	query, err := calllog.ParseQuery(parameters, time.Now())
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "Invalid parameter", err.Error() + "."}
	}
	c.limit(q, &query)
	if format := parameters.Get("export"); format != "" {
		return c.exportCalls(q, query, format)
	}
	log := c.site.calls.Log
	m := &callsModel{Filter: filterOf(parameters), Off: log.Options().Off, First: query.Cursor == ""}
	if m.First && query.To.IsZero() && query.Text == "" && query.Match["outcome"] == "" {
		m.Running = log.Running(q.Context(), shownRunning, query.Selects)
	}
	part := parameters.Get("part")
	if part == "rows" {
		query.Limit = liveRows
	}
	found, err := log.Find(q.Context(), query)
	if err != nil {
		c.site.logger.Warn("reading the kept calls failed", zap.Error(err))
		m.Problem = "The store cannot be read now. These are the calls of the last second. The gateway's log has the reason."
	}
	m.Calls, m.Next, m.Partial = found.Calls, found.Next, found.Partial
	for i := range m.Running {
		q.viewer.reduce(&m.Running[i])
	}
	if !q.api && part == "" {
		m.Outcomes = c.countOutcomes(q, parameters)
	}
	if part != "rows" && part != "running" {
		part = ""
	}
	return &page{view: "calls", template: "calls", part: part, title: "Calls", model: m}, nil
}

// limit limits a query to the calls that the viewer may see, and to what the viewer may see of them.
func (c *Handler) limit(q *request, query *calllog.Query) {
	query.Site, query.View = c.site.name, q.viewer.reduce
	if !q.viewer.seesAll() {
		query.Owner, query.Would = &q.viewer.User, false
	}
}

// callParameters are the parameters that select calls.
var callParameters = append(slices.Clone(calllog.Fields), "text", "since", "until", "would")

// filterOf returns the parameters that select calls, without those that are empty.
func filterOf(parameters url.Values) map[string]string {
	filter := make(map[string]string)
	for _, name := range callParameters {
		if value := parameters.Get(name); value != "" {
			filter[name] = value
		}
	}
	return filter
}

// countOutcomes returns the outcomes of the calls of the last day, the most frequent first.
func (c *Handler) countOutcomes(q *request, parameters url.Values) (counts []outcomeCount) {
	stats, err := c.site.calls.Stats(q.Context(), c.statsQuery(q, 24*time.Hour))
	if err != nil {
		return nil // the list says that the store cannot be read
	}
	calls := make([]int, len(stats.Outcomes))
	for _, p := range stats.Points {
		for i, n := range p.Calls {
			calls[i] += n
		}
	}
	selected := parameters.Get("outcome")
	for i, outcome := range stats.Outcomes {
		other := make(url.Values)
		for name, value := range filterOf(parameters) {
			other.Set(name, value)
		}
		if other.Set("outcome", outcome); outcome == selected {
			other.Del("outcome")
		}
		counts = append(counts, outcomeCount{outcome, calls[i], template.URL(other.Encode()), outcome == selected}) //nolint:gosec // each value is escaped
	}
	return counts
}

// statsQuery selects the calls that the viewer may see.
func (c *Handler) statsQuery(q *request, span time.Duration) calllog.StatsQuery {
	query := calllog.StatsQuery{Site: c.site.name, Range: span}
	if !q.viewer.seesAll() {
		query.User, query.Own = q.viewer.User, true
	}
	return query
}

// serveCall serves one call.
func (c *Handler) serveCall(q *request, id string) (*page, error) {
	log := c.site.calls.Log
	call, err := log.Get(q.Context(), id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errNotFound
	case err != nil:
		return nil, err
	case call.Site != c.site.name || !q.viewer.seesAll() && call.User != q.viewer.User:
		return nil, errNotFound
	}
	m := &callPage{Call: call, Tool: c.toolPath(&call)}
	if call.Trace != "" {
		if m.Trace, err = c.neighbors(q, &call, calllog.Query{Match: map[string]string{"trace": call.Trace}}); err != nil {
			return nil, err
		}
	}
	if m.Earlier, err = c.neighbors(q, &call, calllog.Query{Owner: &call.User, To: call.Ended}); err != nil {
		return nil, err
	}
	q.viewer.reduce(&m.Call)
	return &page{view: "calls", template: "call", title: "Call of " + nameOfCall(&call), model: m}, nil
}

// neighbors returns other calls than the one that is shown.
func (c *Handler) neighbors(q *request, call *calllog.Call, query calllog.Query) ([]calllog.Call, error) {
	owner := query.Owner
	if c.limit(q, &query); owner != nil {
		query.Owner = owner
	}
	query.Limit = shownNeighbors + 1
	found, err := c.site.calls.Find(q.Context(), query)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(found.Calls, func(other calllog.Call) bool { return other.ID == call.ID })
	return others[:min(len(others), shownNeighbors)], nil
}

// nameOfCall returns the name of the tool of a call.
func nameOfCall(call *calllog.Call) string {
	if call.Tool == "" {
		return "an unknown tool"
	}
	return call.Tool
}

// toolPath returns the path of the page of a tool, "" if the site does not serve it.
func (c *Handler) toolPath(call *calllog.Call) string {
	for _, e := range c.site.endpoints() {
		if set := e.Parts.Loaded(); e.Protocol == call.Protocol && e.Path == call.Endpoint && set != nil && call.Tool != "" {
			if _, served := set.Tool(call.Tool); served {
				return c.site.base + "/tools/" + url.PathEscape(e.id) + "/" + url.PathEscape(call.Tool)
			}
		}
	}
	return ""
}

// With returns the query of the page with another value of a parameter.
func (m *callsModel) With(name, value string) template.URL {
	query := make(url.Values)
	for name, value := range m.Filter {
		query.Set(name, value)
	}
	if query.Del(name); value != "" {
		query.Set(name, value)
	}
	return template.URL(query.Encode()) //nolint:gosec // each value is escaped
}

// MaxExported returns how many calls an export has at most.
func (*callsModel) MaxExported() int { return maxExported }

// Exact returns the time of a parameter for a field of the form, "" if there is none or if it is a duration.
func (m *callsModel) Exact(name string) string {
	at, ok := calllog.ExactTime(m.Filter[name])
	if !ok {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05")
}

// Hidden returns the parameters of the filter that the form has no field for.
func (m *callsModel) Hidden() (names []string) {
	for name := range m.Filter {
		switch name {
		case "text", "tool", "user", "agent", "trace", "since", "would":
		default:
			if name != "until" || m.Exact(name) == "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
