package console

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
)

// Limits of the list of calls.
const (
	shownCalls = 100                   // calls on the page, of those in progress and of those that have ended
	mostCalls  = 10 * calllog.MaxCalls // calls that a program can request, of all nodes
)

// callsModel is the list of recent calls, newest first.
type callsModel struct {
	Running []calllog.Call    `json:"running"` // in progress
	Calls   []calllog.Call    `json:"calls"`   // that have ended
	Filter  map[string]string `json:"filter,omitzero"`

	Always   bool     `json:"-"`
	Several  bool     `json:"-"` // calls of several nodes
	Inputs   bool     `json:"-"` // a call has arguments
	Tools    []string `json:"-"` // values for the filters
	Users    []string `json:"-"`
	Outcomes []string `json:"-"`
}

// callFilters are the parameters that filter calls, and what they compare.
var callFilters = map[string]func(*calllog.Call) string{
	"tool":     func(c *calllog.Call) string { return c.Tool },
	"user":     func(c *calllog.Call) string { return c.User },
	"agent":    func(c *calllog.Call) string { return c.Agent },
	"protocol": func(c *calllog.Call) string { return c.Protocol },
	"outcome":  func(c *calllog.Call) string { return c.Outcome },
	"toolset":  func(c *calllog.Call) string { return c.Toolset },
	"trace":    func(c *calllog.Call) string { return c.Trace },
	"node":     func(c *calllog.Call) string { return c.Node },
}

// serveCalls serves the recent calls: those of all users to auditors, and their own to others.
func (c *Handler) serveCalls(q *request) (*page, error) {
	if len(q.rest) != 1 || !q.isRead() {
		return nil, errNotFound
	}
	query := q.URL.Query()
	m := &callsModel{Filter: make(map[string]string), Running: []calllog.Call{}, Calls: []calllog.Call{}, Always: c.Calls == callsAlways}
	for name := range callFilters {
		if value := query.Get(name); value != "" {
			m.Filter[name] = value
		}
	}
	limit := shownCalls
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostCalls {
			return nil, &failure{http.StatusBadRequest, "Invalid number", "limit must be a whole number from 1 to " + strconv.Itoa(mostCalls) + "."}
		}
		limit = n
	}
	tools, users, outcomes, nodes := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	keep := func(call *calllog.Call) bool {
		if call.Site != c.site.name || !q.viewer.Auditor && call.User != q.viewer.User {
			return false
		}
		tools[call.Tool], users[call.User], outcomes[call.Outcome], nodes[call.Node] = true, true, true, true
		for name, value := range m.Filter {
			if callFilters[name](call) != value {
				return false
			}
		}
		return true
	}
	// In this order, a call that ends meanwhile is in a list.
	m.Running = append(m.Running, c.site.app.Calls().Running(q.Context(), limit, keep)...)
	m.Calls = append(m.Calls, c.site.app.Calls().Recent(q.Context(), limit, keep)...)
	for _, list := range [][]calllog.Call{m.Running, m.Calls} {
		for i := range list {
			list[i].Arguments = calllog.Choose(list[i].Arguments, c.LogInputs)
			m.Inputs = m.Inputs || list[i].Arguments != nil
		}
	}
	m.Tools, m.Users, m.Outcomes, m.Several = names(tools), names(users), names(outcomes), len(nodes) > 1
	return &page{view: "calls", template: "calls", part: "rows", title: "Calls", model: m}, nil
}

// names returns the names that are not empty, sorted.
func names(set map[string]bool) []string {
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}

// Live returns the query of the page, for its updates.
func (m *callsModel) Live() string {
	pairs := make([]string, 0, len(m.Filter))
	for _, name := range slices.Sorted(maps.Keys(m.Filter)) {
		pairs = append(pairs, name+"="+queryEscape(m.Filter[name]))
	}
	return strings.Join(pairs, "&")
}

// Shown returns the calls of the page: first those in progress.
func (m *callsModel) Shown() []calllog.Call { return slices.Concat(m.Running, m.Calls) }
