package library

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
)

// An extension is x-mcp of an operation, without what cannot be used:
//
//	tool      false: the operation is not offered as a tool
//	resource  true, or {uri, name, title, description, mimeType}
//	prompt    true, or {name, title, description, arguments}
//	execution {taskSupport}: whether the tool is called as a task
//	icons     [{src, mimeType, sizes, theme}] of the tool; at the root of the document: of the server
//	ui        _meta.ui of the tool and of the page (MCP Apps)
//	openai    members of their _meta that start with openai/; the prefix may be omitted
type extension jsontext.Value

// readExtension reads an x-mcp object, and warns about what cannot be used.
func readExtension(raw jsontext.Value, warn warner) extension {
	return extension(operationRules.read("", raw, warn))
}

// at returns a member, or nil.
func (e extension) at(name string) jsontext.Value {
	return strictjson.MemberOf(jsontext.Value(e), name)
}

// isHidden reports whether the operation is not offered as a tool.
func (e extension) isHidden() bool { return e.at("tool").Kind() == 'f' }

// A declared is the resource or the prompt that x-mcp makes of an operation.
type declared struct {
	URI         string           `json:"uri"`
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	MIMEType    string           `json:"mimeType"`
	Icons       jsontext.Value   `json:"icons"`
	Meta        jsontext.Value   `json:"_meta"`
	Arguments   []PromptArgument `json:"arguments"` // nil for all arguments of the operation
}

// declared returns the resource or the prompt. ok is false if the operation is none.
func (e extension) declared(name string) (d declared, ok bool) {
	switch raw := e.at(name); raw.Kind() {
	case 't':
		return d, true
	case '{':
		return d, json.Unmarshal(raw, &d) == nil // the rules have left nothing that could fail
	}
	return d, false
}

// ExtensionIcons returns the valid icons of an x-mcp object.
func ExtensionIcons(raw jsontext.Value) []content.Icon {
	return content.ReadIcons(strictjson.MemberOf(raw, "icons"))
}

// IsHidden reports whether the operation is not offered as a tool. It can still be a resource or a
// prompt.
func IsHidden(tool *tools.Tool) bool { return extension(tool.MCP).isHidden() }

// TaskSupport says whether calls of a tool can be tasks (MCP 2025-11-25, Tasks, Tool-Level Negotiation).
type TaskSupport string

// The values of TaskSupport.
const (
	TaskOptional  TaskSupport = "optional"  // the default
	TaskRequired  TaskSupport = "required"  // clients that do not take tasks cannot call the tool
	TaskForbidden TaskSupport = "forbidden" // calls are never tasks
)

// TaskSupportOf returns whether calls of a tool can be tasks, as x-mcp says. Tools of the gateway itself
// end at once, except those that call other tools.
func TaskSupportOf(t *tools.Tool) TaskSupport {
	if t.Builtin != "" && !t.Builtin.IsCall() {
		return TaskForbidden
	}
	switch s := TaskSupport(strictjson.Text(strictjson.MemberOf(extension(t.MCP).at("execution"), "taskSupport"))); s {
	case TaskRequired, TaskForbidden:
		return s
	}
	return TaskOptional
}

// openaiPrefix starts the names of the Apps SDK's members in _meta. A document may omit it.
const openaiPrefix = "openai/"

// ofPage are the members of ui and openai that describe a page. All others describe the tool: an operation can be a tool
// with a page, a page itself, or both (MCP Apps, UI Resource Format; Apps SDK, Resource Definition).
var ofPage = []string{
	"ui.csp", "ui.permissions", "ui.domain", "ui.prefersBorder",
	"openai.widgetDescription", "openai.widgetPrefersBorder", "openai.widgetCSP", "openai.widgetDomain",
}

// appMembers returns the members of ui and openai by their paths.
func (e extension) appMembers() iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for _, of := range [...]string{"ui", "openai"} {
			for walk := strictjson.Into(e.at(of)); walk.Next(); {
				if !yield(of+"."+strictjson.Text(walk.Name), walk.Value) {
					return
				}
			}
		}
	}
}

// appMeta returns the members of _meta that x-mcp declares for the page (page is true) or for the tool: an object of those
// for MCP Apps, and one of those for the Apps SDK. An object without members is nil.
func (e extension) appMeta(page bool) (meta [2]jsontext.Value) {
	var ui, wrapped, openai strictjson.ObjectBuilder
	for path, value := range e.appMembers() {
		name, isUI := strings.CutPrefix(path, "ui.")
		switch {
		case slices.Contains(ofPage, path) != page:
		case isUI:
			ui.Add(name, value)
		default:
			openai.Add(strings.Replace(name, "openai.", openaiPrefix, 1), value)
		}
	}
	if len(ui) > 0 {
		wrapped.Add("ui", ui.Close())
		meta[0] = wrapped.Close()
	}
	if len(openai) > 0 {
		meta[1] = openai.Close()
	}
	return meta
}

// addMembers adds the members of an object that other does not have.
func addMembers(to *strictjson.ObjectBuilder, object, other jsontext.Value) {
	for walk := strictjson.Into(object); walk.Next(); {
		if name := strictjson.Text(walk.Name); !strictjson.HasMember(other, name) {
			to.Add(name, walk.Value)
		}
	}
}

// describePage adds the page members of the operation's x-mcp to _meta of a resource that is a page.
// Members that the resource's own _meta already has are kept.
func (r *Entry) describePage(e extension) {
	if !r.isPage() {
		return
	}
	var meta strictjson.ObjectBuilder
	addMembers(&meta, r.meta, nil)
	for _, part := range e.appMeta(true) {
		addMembers(&meta, part, r.meta)
	}
	if len(meta) > 0 {
		r.meta = meta.Close()
	}
}

// isPage reports whether hosts show the resource as a page of an app.
func (r *Entry) isPage() bool {
	uri := r.uri
	if r.template != nil {
		uri = r.template.text
	}
	return pageType(r.Mime) != "" || strings.HasPrefix(uri, "ui://")
}

// checkApp warns about the following members of ui and openai:
//
//   - members for a tool, if the operation is not a tool
//   - members for a page, if the operation is not a page
//   - URIs of pages that do not exist
//   - members that the configuration overrides, or _meta of the resource
func (s *Index) checkApp(tool *tools.Tool, e extension, warn warner) {
	own, app, meta := s.byTool[tool], s.library.apps[tool.Name], strictjson.MemberOf(e.at("resource"), "_meta")
	for path, value := range e.appMembers() {
		forPage := slices.Contains(ofPage, path)
		inMeta := "ui"
		if name, isOpenAI := strings.CutPrefix(path, "openai."); isOpenAI {
			inMeta = openaiPrefix + name
		}
		switch {
		case forPage && (own == nil || !own.isPage()):
			warn("ignored %s: it applies to the page of an app; give the operation a resource whose uri begins with ui://", path)
		case forPage && strictjson.HasMember(meta, inMeta):
			warn("ignored %s: _meta of the resource already has it", path)
		case !forPage && e.isHidden():
			warn("ignored %s: it applies to a tool, and the operation has tool: false", path)
		case !forPage && app != nil:
			warn("ignored %s: the configuration gives the tool the app %s", path, app.URI)
		case path == "ui.resourceUri" || path == "openai.outputTemplate":
			if _, found := s.Find(strictjson.Text(value)); !found {
				warn("%s: unknown resource %s", path, text.Cut(strictjson.Text(value), text.MaxQuoted))
			}
		}
	}
}
