package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// Limits of the list of tools.
const (
	toolsPerPage = 100
	maxFound     = 30  // tools that a search returns
	maxSearch    = 400 // bytes of a search
)

// Values of the parameter sort, in addition to "": the order of the document, or that of a search.
const (
	sortName   = "name"
	sortTokens = "tokens"
)

// Values of the parameter kind.
const (
	kindReads       = "reads"
	kindWrites      = "writes"
	kindDestructive = "destructive"
)

// Kind returns what a call of the tool does: reads, writes or destructive.
func (m *toolModel) Kind() string {
	switch {
	case m.Destructive:
		return kindDestructive
	case m.ReadOnly:
		return kindReads
	}
	return kindWrites
}

// facetFields are the parameters that filter tools, in the order of the page, and the values of a tool that they compare.
var facetFields = []struct {
	name   string
	values func(*toolModel) []string
}{
	{"method", func(m *toolModel) []string { return []string{m.Method} }},
	{"kind", func(m *toolModel) []string { return []string{m.Kind()} }},
	{"scope", func(m *toolModel) []string {
		return slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.Scopes...))))
	}},
	{"tag", func(m *toolModel) []string { return m.Tags }},
}

// facet is a filter of the list with its values.
type facet struct {
	Name   string       `json:"name"`
	Values []facetValue `json:"values"` // sorted by their text
}

// facetValue is a value of a filter.
type facetValue struct {
	Text     string `json:"value"`
	Count    int    `json:"count"` // tools that the other filters leave and that have this value
	Selected bool   `json:"selected,omitzero"`

	ID   string `json:"-"` // of its link
	Link string `json:"-"` // the list with this filter, or without it if it is selected
}

// Folded reports whether a facet has too many values to show them all at once.
func (f *facet) Folded() bool { return len(f.Values) > maxOpenValues }

// Chosen returns the selected value, "" if there is none.
func (f *facet) Chosen() string {
	for _, v := range f.Values {
		if v.Selected {
			return v.Text
		}
	}
	return ""
}

// maxOpenValues is how many values of a facet the page shows at once.
const maxOpenValues = 8

// toolsModel is the list of tools.
type toolsModel struct {
	Endpoints []endpointModel `json:"endpoints"`
	Endpoint  string          `json:"endpoint"` // whose tools are listed
	Search    string          `json:"search,omitzero"`
	Sort      string          `json:"sort,omitzero"`
	Facets    []facet         `json:"facets,omitzero"`
	Tools     []toolModel     `json:"tools"`
	Found     int             `json:"found"` // tools that the filters leave; a search returns the best of these
	Page      int             `json:"page"`  // from 1
	Pages     int             `json:"pages"` // number of pages
	Next      string          `json:"next,omitzero"`

	Approved string            `json:"-"` // number of tools that were approved by the last request
	Filter   map[string]string `json:"-"`
	path     string
}

// Selected returns the listed endpoint.
func (m *toolsModel) Selected() *endpointModel {
	for i := range m.Endpoints {
		if m.Endpoints[i].ID == m.Endpoint {
			return &m.Endpoints[i]
		}
	}
	return nil
}

// Best reports whether a search has found more tools than it returns.
func (m *toolsModel) Best() bool { return m.Search != "" && len(m.Tools) == maxFound }

// With returns the path of the list with another value of a parameter. The list begins at its first page again.
func (m *toolsModel) With(name, value string) string {
	query := url.Values{"endpoint": {m.Endpoint}}
	for _, p := range [][2]string{{"q", m.Search}, {"sort", m.Sort}, {"page", ""}} {
		query.Set(p[0], p[1])
	}
	for key, chosen := range m.Filter {
		query.Set(key, chosen)
	}
	query.Set(name, value)
	for key := range query {
		if query.Get(key) == "" {
			query.Del(key)
		}
	}
	return m.path + "?" + query.Encode()
}

// sortLink returns the link that sorts the list.
func (m *toolsModel) sortLink(by, name string) facetValue {
	return facetValue{Text: name, Selected: m.Sort == by, Link: m.With("sort", by)}
}

// PageLink returns the path of a page of the list.
func (m *toolsModel) PageLink(page int) string { return m.With("page", strconv.Itoa(page)) }

// PageNumbers returns the pages that the page links: the first, the last, and those near the current one. A 0 marks
// pages that are left out.
func (m *toolsModel) PageNumbers() (numbers []int) {
	const near = 2
	for n := 1; n <= m.Pages; n++ {
		switch {
		case n == 1, n == m.Pages, n >= m.Page-near && n <= m.Page+near:
			numbers = append(numbers, n)
		case numbers[len(numbers)-1] != 0:
			numbers = append(numbers, 0)
		}
	}
	return numbers
}

// serve serves the list of tools, and a tool of it.
func (p *toolPages) serve() (*page, error) {
	switch {
	case len(p.in.rest) == 3 && p.in.rest[0] == "tools":
		tool, err := p.findTool(p.in.rest[1], p.in.rest[2])
		if err != nil {
			return nil, err
		}
		return tool.serve()
	case len(p.in.rest) > 1 || !p.in.isRead():
		return nil, errNotFound
	}
	query := p.in.URL.Query()
	m := &toolsModel{
		Endpoint: query.Get("endpoint"), Search: text.Cut(strings.TrimSpace(query.Get("q")), maxSearch), Sort: query.Get("sort"), Tools: []toolModel{},
		Approved: query.Get("approved"), Filter: make(map[string]string), path: p.site.base + "/tools",
	}
	for _, field := range facetFields {
		if value := query.Get(field.name); value != "" {
			m.Filter[field.name] = value
		}
	}
	m.Endpoints = make([]endpointModel, 0, 1)
	var selected *siteEndpoint
	all := p.site.endpoints()
	for i := range all {
		m.Endpoints = append(m.Endpoints, p.describe(all[i]))
		if all[i].id == m.Endpoint || m.Endpoint == "" && selected == nil {
			selected = &all[i]
		}
	}
	if selected == nil && len(all) > 0 {
		return nil, errNotFound
	}
	if selected != nil {
		m.Endpoint = selected.id
		if err := p.listTools(m, *selected); err != nil {
			return nil, err
		}
	}
	if p.in.api && p.in.view() == "endpoints" {
		return &page{model: map[string]any{"endpoints": m.Endpoints}}, nil
	}
	return &page{view: "tools", template: "tools", part: "list", title: "Tools", model: m}, nil
}

// listTools sets the tools of the page.
func (p *toolPages) listTools(m *toolsModel, e siteEndpoint) error {
	toolset, visible := p.callable(e)
	if toolset == nil {
		return nil
	}
	var all []toolModel
	for _, t := range toolset.Tools() {
		if visible(t) {
			all = append(all, e.describeTool(t, toolset))
		}
	}
	m.setFacets(all)
	list := slices.DeleteFunc(all, func(t toolModel) bool { return !m.keeps(&t, "") })
	m.Found = len(list)
	if m.Search != "" {
		list = bestOf(list, toolset, m.Search)
	}
	m.sort(list)
	m.Pages = max((len(list)+toolsPerPage-1)/toolsPerPage, 1)
	m.Page = 1
	if wanted := p.in.URL.Query().Get("page"); wanted != "" {
		n, err := strconv.Atoi(wanted)
		if err != nil || n < 1 || n > m.Pages {
			return errNotFound
		}
		m.Page = n
	}
	if m.Page < m.Pages {
		m.Next = strings.Replace(m.PageLink(m.Page+1), p.site.base, p.site.base+"/api", 1)
	}
	list = list[(m.Page-1)*toolsPerPage:]
	m.Tools = append(m.Tools, list[:min(len(list), toolsPerPage)]...)
	return nil
}

// bestOf returns the tools of a list that fit a search best.
func bestOf(list []toolModel, toolset *tools.Toolset, search string) []toolModel {
	byName := make(map[string]*toolModel, len(list))
	for i := range list {
		byName[list[i].Name] = &list[i]
	}
	found := toolset.Find(search, maxFound, func(t *tools.Tool) bool { return byName[t.Name] != nil })
	best := make([]toolModel, 0, len(found))
	for _, t := range found {
		best = append(best, *byName[t.Name])
	}
	return best
}

// sort sorts a list as the request wants it.
func (m *toolsModel) sort(list []toolModel) {
	switch m.Sort {
	case sortName:
		slices.SortStableFunc(list, func(a, b toolModel) int { return cmp.Compare(a.Name, b.Name) })
	case sortTokens:
		slices.SortStableFunc(list, func(a, b toolModel) int { return cmp.Compare(b.Tokens, a.Tokens) })
	}
}

// keeps reports whether the filters leave a tool. The filter except is not applied.
func (m *toolsModel) keeps(t *toolModel, except string) bool {
	for _, field := range facetFields {
		if chosen := m.Filter[field.name]; chosen != "" && field.name != except && !slices.Contains(field.values(t), chosen) {
			return false
		}
	}
	return true
}

// setFacets sets the filters with the values that the tools have. A filter with a single value is left out.
func (m *toolsModel) setFacets(all []toolModel) {
	for _, field := range facetFields {
		counts, chosen := make(map[string]int), m.Filter[field.name]
		for i := range all {
			kept := m.keeps(&all[i], field.name)
			for _, value := range field.values(&all[i]) {
				if n := counts[value]; kept {
					counts[value] = n + 1
				} else {
					counts[value] = n // the ids of links do not depend on the other filters
				}
			}
		}
		f := facet{Name: field.name}
		for i, value := range slices.Sorted(maps.Keys(counts)) {
			v := facetValue{Text: value, Count: counts[value], Selected: value == chosen, ID: "f-" + field.name + "-" + strconv.Itoa(i), Link: m.With(field.name, value)}
			if v.Selected {
				v.Link = m.With(field.name, "")
			}
			if v.Count > 0 || v.Selected {
				f.Values = append(f.Values, v)
			}
		}
		if len(counts) > 1 || chosen != "" {
			m.Facets = append(m.Facets, f)
		}
	}
}
