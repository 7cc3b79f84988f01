package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// shownEngagements is the number of Engagements of each oagent handler on a page.
const shownEngagements = 50

// engagementFilters are the parameters that filter Engagements.
var engagementFilters = []string{"agent", "user", "status"}

// filter is a filter of the list that is in use.
type filter struct{ Name, Value, Without string }

// addEngagements adds a page of the Engagements that the viewer may see, the one with the latest change first.
func (p *recordPages) addEngagements(m *agentsModel) error {
	for _, name := range engagementFilters {
		if value := p.in.URL.Query().Get(name); value != "" {
			m.query.Set(name, value)
		}
	}
	for _, name := range engagementFilters {
		if value := m.query.Get(name); value != "" {
			m.Filters = append(m.Filters, filter{name, value, m.With(name, "")})
		}
	}
	for _, status := range []run.Status{run.StatusAwaitingModel, run.StatusAwaitingTool, run.StatusAwaitingReview, run.StatusAwaitingInput, run.StatusComplete, run.StatusError} {
		m.Statuses = append(m.Statuses, string(status))
	}
	after := p.in.URL.Query().Get("after")
	m.IsFirst = after == ""
	end := "" // each handler has listed its Engagements up to this position
	for n := range p.site.guards() {
		next, err := p.newest(m, n, after)
		if err != nil {
			return err
		}
		if next != "" && (end == "" || next < end) {
			end = next
		}
	}
	slices.SortFunc(m.Engagements, func(a, b engagement.Summary) int { return cmp.Compare(a.Position(), b.Position()) })
	m.Engagements = slices.CompactFunc(m.Engagements, func(a, b engagement.Summary) bool { return a.Key == b.Key }) // of agents with the same name
	if end != "" {
		m.Engagements = slices.DeleteFunc(m.Engagements, func(e engagement.Summary) bool { return e.Position() > end })
		m.Next = m.With("after", end)
	}
	return nil
}

// newest adds the first Engagements of the n-th oagent handler after a position. It returns where its next page begins.
func (p *recordPages) newest(m *agentsModel, n int, after string) (next string, err error) {
	query := url.Values{"order": {"newest"}, "limit": {strconv.Itoa(shownEngagements)}, "after": {after}}
	maps.Copy(query, m.query)
	var list struct {
		Engagements []engagement.Summary `json:"engagements"`
		Next        string               `json:"next"`
	}
	if _, err := p.do(n, http.MethodGet, "/engagements?"+query.Encode(), nil, &list); err != nil {
		return "", err
	}
	m.Engagements = append(m.Engagements, list.Engagements...)
	path, err := url.Parse(list.Next)
	if err != nil {
		return "", err
	}
	return path.Query().Get("after"), nil
}

// With returns the path of the list with another value of a parameter, "" to remove it. It begins at the first page.
func (m *agentsModel) With(name, value string) string {
	query := maps.Clone(m.query)
	if query.Set(name, value); value == "" {
		query.Del(name)
	}
	if len(query) == 0 {
		return m.base + "/agents"
	}
	return m.base + "/agents?" + query.Encode()
}

// Is reports whether the list is filtered by that value.
func (m *agentsModel) Is(name, value string) bool { return m.query.Get(name) == value }

// Path returns the path of the page, for its updates.
func (m *agentsModel) Path() string { return m.With("", "") }
