package console

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/schema"
)

// maxProblems limits the listed problems of a document.
const maxProblems = 200

// maxFault limits the error of a document, in bytes.
const maxFault = 1 << 10

// toolPages are the list of tools, and from there the pages of each tool.
type toolPages struct {
	site *siteOf
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
	ID       string          `json:"id"`
	Protocol string          `json:"protocol"`
	Path     string          `json:"path"`
	URL      string          `json:"url"`
	Agent    string          `json:"agent,omitzero"`  // whose tools are served
	Tools    int             `json:"tools"`           // that the viewer can call
	Tokens   int             `json:"tokens"`          // of these, estimated
	Listed   int             `json:"listed"`          // tools in the list that a model gets: all, or those that search
	Listing  int             `json:"listed_tokens"`   // of these, estimated
	Searches bool            `json:"searches"`        // the list has tools that search, in place of all tools
	Pinned   int             `json:"pinned,omitzero"` // tools in the list in addition to those that search
	Toolsets []*toolsetModel `json:"toolsets"`
}

// SearchTools returns the number of built-in tools in the list.
func (e *endpointModel) SearchTools() int { return e.Listed - e.Pinned }

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
	Seen        string         `json:"lock_digest,omitzero"`  // identifies these changes, to approve them

	Fault *faultModel `json:"fault,omitzero"` // why the current document is not in use

	Index      int    `json:"-"` // among the toolsets of the endpoint
	All        bool   `json:"-"` // Withheld has all changes
	Approvable bool   `json:"-"` // the lock file can be written
	Command    string `json:"-"` // that approves the changes
}

// faultModel says why a document is not in use. The error is for auditors.
type faultModel struct {
	Error string    `json:"error,omitzero"`
	Since time.Time `json:"since"`
	Next  time.Time `json:"next"` // the next attempt to load it
}

// Problems returns the number of listed problems.
func (t *toolsetModel) Problems() int { return len(t.Lost) + len(t.Warnings) + len(t.Guesses) }

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
	for _, t := range e.Listed(p.in.Request) {
		m.Listed++
		m.Listing += app.ToolTokens(t)
		m.Searches = m.Searches || t.Builtin == tools.SearchTools
		if t.Builtin == "" {
			m.Pinned++
		}
	}
	if !m.Searches {
		m.Pinned = 0
	}
	for i, part := range e.Parts.All {
		m.Toolsets = append(m.Toolsets, p.describeToolset(part.Toolset))
		m.Toolsets[i].Index = i
	}
	return m
}

// describeToolset returns the model of a toolset.
func (p *toolPages) describeToolset(t *app.Toolset) *toolsetModel {
	m := &toolsetModel{Name: t.Key.ShownName()}
	set := t.Loader.Toolset()
	if set != nil {
		m.Loaded, m.Title, m.Version, m.Description = true, set.Title, set.Version, set.Description
	}
	if fault := t.Loader.Fault(); fault != nil {
		m.Fault = &faultModel{Since: fault.Since, Next: fault.Next}
		if p.in.viewer.Auditor {
			m.Fault.Error = text.Cut(fault.Err.Error(), maxFault)
		}
	}
	if !p.in.viewer.Auditor {
		return m
	}
	m.Document = shownAddress(t.Key.Address)
	if set == nil {
		return m
	}
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
	if changes := t.LockChanges(); len(changes) > 0 {
		m.Withheld, m.Seen = changes[:min(len(changes), maxProblems)], t.LockDigest()
		m.All = len(m.Withheld) == len(changes)
		m.Approvable, m.Command = t.Key.Lock != "" && lock.CheckWritable(t.Key.Lock) == nil, app.LockCommand(t.Key)
	}
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
	return text.RedactURL(address)
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

// describeTool returns the model of a tool. Tools has it.
func (e siteEndpoint) describeTool(t *tools.Tool, toolset *tools.Toolset) toolModel {
	m := toolModel{
		Name: t.Name, Endpoint: e.id, Title: t.Definition.Title, Method: t.Plan.Method, Path: t.Plan.Path, Tags: t.Definition.Tags, Tokens: app.ToolTokens(t),
		Deprecated: t.Definition.Deprecated, ReadOnly: hint(t, "readOnlyHint", t.ReadOnly()),
		Toolset: e.toolsetOf(t, toolset).Key.ShownName(),
	}
	m.Destructive = !m.ReadOnly && hint(t, "destructiveHint", t.Plan.Method == http.MethodDelete)
	rest := strings.TrimSpace(strings.TrimPrefix(t.Definition.Description, t.Definition.Title))
	m.Summary = summary(strings.TrimLeft(rest, ". "))
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

	root   *schema.Root // of schema
	schema *schema.Tree
	types  []string // that its values can have, without null; none if they are not known
	items  []string // of the items of a list
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
	m.types = slices.DeleteFunc(slices.Clone(a.Types()), func(name string) bool { return name == "null" })
	if len(m.types) == 1 {
		m.Type = m.types[0]
	}
	if a.Schema.Kind() != '{' {
		return m
	}
	m.root, m.schema = schema.Open(t.Definition.InputSchema, a.Schema)
	if items := m.schema.Part("items"); items != nil {
		_, items = schema.Open(t.Definition.InputSchema, items.Text)
		m.items = typesOf(items)
	}
	if m.types == nil {
		m.types = typesOf(m.schema)
	}
	for walk := strictjson.Into(m.schema.Value("enum")); walk.Next() && len(m.Enum) < maxEnum; {
		m.Enum = append(m.Enum, string(walk.Value))
	}
	if examples := strictjson.Into(m.schema.Value("examples")); examples.Next() {
		m.Example = examples.Value
	}
	return m
}

// typesOf returns the types of the values of a schema and of its alternatives.
func typesOf(t *schema.Tree) []string {
	types := t.Types()
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, part := range t.Parts(keyword) {
			types = append(types, part.Types()...)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
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
