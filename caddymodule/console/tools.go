package console

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Limits of the list of tools.
const (
	toolsPerPage = 100
	maxFound     = 30  // tools that a search returns
	maxSearch    = 400 // bytes of a search
	maxProblems  = 200 // listed problems of a document
)

// toolPages are the list of tools, and from there the pages of each tool.
type toolPages struct {
	site *site
	in   *request
}

// callable returns the tools of the endpoint, and which of them the viewer can see and call. Tools is nil
// if no document is loaded.
func (p *toolPages) callable(e siteEndpoint) (toolset *tools.Toolset, visible func(*tools.Tool) bool) {
	toolset = e.Parts.Loaded()
	if toolset == nil {
		return nil, nil
	}
	return toolset, e.Visible(p.in.Request, toolset)
}

// endpointModel describes an endpoint.
type endpointModel struct {
	ID       string         `json:"id"`
	Protocol string         `json:"protocol"`
	Path     string         `json:"path"`
	URL      string         `json:"url"`
	Agent    string         `json:"agent,omitzero"` // whose tools are served
	Tools    int            `json:"tools"`          // that the viewer can call
	Tokens   int            `json:"tokens"`         // of these, estimated
	Toolsets []toolsetModel `json:"toolsets"`
}

// toolsetModel describes a toolset. What did not become a tool is for auditors.
type toolsetModel struct {
	Name        string         `json:"name"`
	Title       string         `json:"title,omitzero"`
	Version     string         `json:"version,omitzero"`
	Description string         `json:"description,omitzero"`
	Loaded      bool           `json:"loaded"`
	Document    string         `json:"document,omitzero"`
	Operations  int            `json:"operations,omitzero"`
	Excluded    int            `json:"excluded,omitzero"`     // operations that include and exclude removed
	Lost        []problemModel `json:"not_tools,omitzero"`    // operations that did not become tools
	Warnings    []problemModel `json:"warnings,omitzero"`     // parts of the document that could not be used as written
	Guesses     []problemModel `json:"guesses,omitzero"`      // decisions that the document leaves open
	Withheld    []lock.Change  `json:"lock_changes,omitzero"` // how tools differ from the lock
}

// Problems returns the number of listed problems.
func (t *toolsetModel) Problems() int {
	return len(t.Lost) + len(t.Warnings) + len(t.Guesses) + len(t.Withheld)
}

type problemModel struct {
	Operation string `json:"operation,omitzero"`
	Reason    string `json:"reason"`
}

// describe returns the model of an endpoint.
func (p *toolPages) describe(e siteEndpoint) endpointModel {
	m := endpointModel{ID: e.id, Protocol: e.Protocol, Path: e.Path, URL: p.in.origin() + e.Path, Agent: e.AgentName()}
	if toolset, visible := p.callable(e); toolset != nil {
		for _, t := range toolset.Tools() {
			if visible(t) {
				m.Tools++
				m.Tokens += app.ToolTokens(t)
			}
		}
	}
	for _, part := range e.Parts.All {
		m.Toolsets = append(m.Toolsets, p.describeToolset(part.Toolset))
	}
	return m
}

// describeToolset returns the model of a toolset.
func (p *toolPages) describeToolset(t *app.Toolset) toolsetModel {
	m := toolsetModel{Name: t.Key.ShownName()}
	set := t.Loader.Toolset()
	if set != nil {
		m.Loaded, m.Title, m.Version, m.Description = true, set.Title, set.Version, set.Description
	}
	if !p.in.viewer.Auditor || set == nil {
		return m
	}
	m.Document = shownAddress(t.Key.Address)
	m.Operations, m.Excluded = set.Report.Operations, set.Report.Excluded
	for _, w := range set.Report.Warnings {
		if w.Lost {
			m.Lost = append(m.Lost, problemModel{w.Operation, w.Reason})
		} else {
			m.Warnings = append(m.Warnings, problemModel{w.Operation, w.Reason})
		}
	}
	for _, w := range set.Report.Guesses {
		m.Guesses = append(m.Guesses, problemModel{w.Operation, w.Reason})
	}
	for _, list := range []*[]problemModel{&m.Lost, &m.Warnings, &m.Guesses} {
		*list = (*list)[:min(len(*list), maxProblems)]
	}
	changes := t.LockChanges()
	m.Withheld = changes[:min(len(changes), maxProblems)]
	return m
}

// shownAddress returns the address of a document without credentials. A file below Caddy's working
// directory is shown as in the Caddyfile.
func shownAddress(address string) string {
	if working, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(working, address); err == nil && filepath.IsLocal(relative) {
			return relative
		}
	}
	return app.RedactURL(address)
}

// toolModel describes a tool in a list.
type toolModel struct {
	Name        string     `json:"name"`
	Endpoint    string     `json:"endpoint"`
	Title       string     `json:"title,omitzero"`
	Summary     string     `json:"summary"`
	Method      string     `json:"method"`
	Path        string     `json:"path"`
	Toolset     string     `json:"toolset"`
	Tags        []string   `json:"tags,omitzero"`
	Tokens      int        `json:"tokens"`
	Deprecated  bool       `json:"deprecated,omitzero"`
	ReadOnly    bool       `json:"read_only"`
	Destructive bool       `json:"destructive,omitzero"`
	Scopes      [][]string `json:"scopes,omitzero"` // alternatives: of each, all are needed
}

// maxSummary limits the description of a tool in a list, in bytes.
const maxSummary = 160

// describeTool returns the model of a tool. Tools has it.
func (e siteEndpoint) describeTool(t *tools.Tool, toolset *tools.Toolset) toolModel {
	m := toolModel{
		Name: t.Name, Endpoint: e.id, Title: t.Definition.Title, Method: t.Plan.Method, Path: t.Plan.Path, Tags: t.Definition.Tags, Tokens: app.ToolTokens(t),
		Deprecated: t.Definition.Deprecated, ReadOnly: hint(t, "readOnlyHint", t.ReadOnly()),
		Toolset: e.toolsetOf(t, toolset).Key.ShownName(),
	}
	m.Destructive = !m.ReadOnly && hint(t, "destructiveHint", t.Plan.Method == http.MethodDelete)
	rest := strings.TrimSpace(strings.TrimPrefix(t.Definition.Description, t.Definition.Title))
	first, _, _ := strings.Cut(rest, "\n")
	m.Summary = text.Cut(strings.TrimLeft(first, ". "), maxSummary)
	for _, requirement := range t.Plan.Security {
		var scopes []string
		for _, of := range requirement {
			scopes = append(scopes, of...)
		}
		if len(scopes) > 0 {
			slices.Sort(scopes)
			m.Scopes = append(m.Scopes, slices.Compact(scopes))
		}
	}
	return m
}

// toolsetOf returns the toolset that a tool of the endpoint belongs to.
func (e siteEndpoint) toolsetOf(t *tools.Tool, toolset *tools.Toolset) *app.Toolset {
	part, _ := toolset.Original(t)
	return e.Parts.All[max(part, 0)].Toolset
}

// hint returns a hint of the tool that a shape sets, or else what its method implies.
func hint(t *tools.Tool, name string, implied bool) bool {
	if value, set := t.Definition.Annotations[name]; set {
		return value
	}
	return implied
}

// toolsModel is the list of tools.
type toolsModel struct {
	Endpoints []endpointModel `json:"endpoints"`
	Endpoint  string          `json:"endpoint"` // whose tools are listed
	Search    string          `json:"search,omitzero"`
	Tools     []toolModel     `json:"tools"`
	Page      int             `json:"page"`  // from 1
	Pages     int             `json:"pages"` // number of pages
	Next      string          `json:"next,omitzero"`
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
	m := &toolsModel{Endpoint: query.Get("endpoint"), Search: text.Cut(strings.TrimSpace(query.Get("q")), maxSearch), Tools: []toolModel{}}
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
	var list []*tools.Tool
	m.Page, m.Pages = 1, 1
	if m.Search != "" {
		list = toolset.Find(m.Search, maxFound, visible)
	} else {
		list = slices.DeleteFunc(slices.Clone(toolset.Tools()), func(t *tools.Tool) bool { return !visible(t) })
		m.Pages = max((len(list)+toolsPerPage-1)/toolsPerPage, 1)
		if wanted := p.in.URL.Query().Get("page"); wanted != "" {
			n, err := strconv.Atoi(wanted)
			if err != nil || n < 1 || n > m.Pages {
				return errNotFound
			}
			m.Page = n
		}
		if m.Page < m.Pages {
			m.Next = p.site.base + "/api/tools?endpoint=" + e.id + "&page=" + strconv.Itoa(m.Page+1)
		}
		list = list[(m.Page-1)*toolsPerPage:]
		list = list[:min(len(list), toolsPerPage)]
	}
	for _, t := range list {
		m.Tools = append(m.Tools, e.describeTool(t, toolset))
	}
	return nil
}

// toolDetail is a tool with its arguments.
type toolDetail struct {
	toolModel
	Description string         `json:"description"`
	Operation   string         `json:"operation,omitzero"` // operationId
	Arguments   []argument     `json:"arguments"`
	InputSchema jsontext.Value `json:"input_schema"`
	Answers     answers        `json:"answers"`
	Timeout     string         `json:"timeout,omitzero"`
	Gateway     []string       `json:"filled_by_gateway,omitzero"` // arguments that the caller cannot give
}

// answers describes successful responses.
type answers struct {
	Description string   `json:"description,omitzero"`
	MediaTypes  []string `json:"media_types,omitzero"`
}

// argument describes an argument of a tool.
type argument struct {
	Name        string         `json:"name"`
	In          tools.Location `json:"in"`
	Required    bool           `json:"required"`
	Type        string         `json:"type,omitzero"` // of its values; "" if it can have several
	Description string         `json:"description,omitzero"`
	Default     jsontext.Value `json:"default,omitzero"`
	Enum        []string       `json:"enum,omitzero"` // the only values, as JSON
	Example     jsontext.Value `json:"example,omitzero"`
	AskUser     bool           `json:"ask_user,omitzero"` // a model must not make up the value

	schema *schema.Tree
}

// maxEnum limits the listed values of an argument.
const maxEnum = 200

// detail returns a tool with its arguments.
func (e siteEndpoint) detail(t *tools.Tool, toolset *tools.Toolset) *toolDetail {
	d := &toolDetail{
		toolModel: e.describeTool(t, toolset), Description: t.Definition.Description, Operation: t.Definition.OperationID, InputSchema: t.Definition.InputSchema,
		Answers: answers{t.Output.Description, t.Output.MediaTypes}, Arguments: make([]argument, len(t.Definition.Arguments)),
	}
	if timeout := e.toolsetOf(t, toolset).Limits.Timeout; timeout > 0 {
		d.Timeout = timeout.String()
	}
	for i := range t.Definition.Arguments {
		d.Arguments[i] = describeArgument(&t.Definition.Arguments[i], t)
	}
	for _, a := range t.Plan.Arguments {
		if !slices.ContainsFunc(t.Definition.Arguments, func(own tools.Argument) bool { return own.Name == a.Name }) && a.In != tools.InGateway {
			d.Gateway = append(d.Gateway, a.Name)
		}
	}
	return d
}

// describeArgument returns the model of an argument.
func describeArgument(a *tools.Argument, t *tools.Tool) argument {
	m := argument{Name: a.Name, In: a.In, Required: a.Required, Description: a.Description, Default: a.Default, AskUser: a.NonInferrable}
	types := slices.DeleteFunc(slices.Clone(a.Types()), func(name string) bool { return name == "null" })
	if len(types) == 1 {
		m.Type = types[0]
	}
	if a.Schema.Kind() != '{' {
		return m
	}
	_, m.schema = schema.Open(t.Definition.InputSchema, a.Schema)
	for walk := strictjson.Into(m.schema.Value("enum")); walk.Next() && len(m.Enum) < maxEnum; {
		m.Enum = append(m.Enum, string(walk.Value))
	}
	if examples := strictjson.Into(m.schema.Value("examples")); examples.Next() {
		m.Example = examples.Value
	}
	return m
}

// findTool returns the page of a tool of an endpoint.
func (p *toolPages) findTool(endpoint, name string) (*toolPage, error) {
	e, ok := p.site.endpoint(endpoint)
	if !ok {
		return nil, errNotFound
	}
	toolset, visible := p.callable(e)
	if toolset == nil {
		return nil, errNotFound
	}
	t, ok := toolset.Tool(name)
	if !ok || t.Builtin != "" || !visible(t) {
		return nil, errNotFound
	}
	return &toolPage{p.site, p.in, e, toolset, t}, nil
}
