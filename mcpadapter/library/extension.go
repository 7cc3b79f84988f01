package library

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
)

// An extension holds the members of x-mcp of an operation:
//
//	tool      false: the operation is not offered as a tool
//	resource  true, or {uri, name, title, description, mimeType}
//	prompt    true, or {name, title, description, arguments}
//	execution {taskSupport}: whether the tool is called as a task
//	icons     [{src, mimeType, sizes, theme}] of the tool; at the root of the document: of the server
//	ui        _meta.ui of the tool and of the page (MCP Apps)
//	openai    members of their _meta that start with openai/; the prefix may be omitted
type extension struct {
	hidden                              bool // whether the operation is not offered as a tool
	resource, prompt, icons, ui, openai jsontext.Value
	execution                           jsontext.Value
}

// readExtension reads an x-mcp object. It ignores members of the wrong type; extensionWarnings
// reports them.
func readExtension(raw jsontext.Value) (e extension) {
	for walk := strictjson.Into(raw); walk.Next(); {
		kind := walk.Value.Kind()
		described := kind == '{' || kind == 't'
		switch {
		case walk.Is("tool"):
			e.hidden = kind == 'f'
		case walk.Is("resource") && described:
			e.resource = walk.Value
		case walk.Is("prompt") && described:
			e.prompt = walk.Value
		case walk.Is("icons") && kind == '[':
			e.icons = walk.Value
		case walk.Is("ui") && kind == '{':
			e.ui = walk.Value
		case walk.Is("openai") && kind == '{':
			e.openai = walk.Value
		case walk.Is("execution") && kind == '{':
			e.execution = walk.Value
		}
	}
	return e
}

// ExtensionIcons returns the valid icons of an x-mcp object.
func ExtensionIcons(raw jsontext.Value) []content.Icon {
	return content.ReadIcons(readExtension(raw).icons)
}

// IsHidden reports whether the operation is not offered as a tool. It can still be a resource or a
// prompt.
func IsHidden(tool *tools.Tool) bool {
	return tool.MCP != nil && readExtension(tool.MCP).hidden
}

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
	switch {
	case t.Builtin != "" && !t.Builtin.IsCall():
		return TaskForbidden
	case t.MCP == nil:
		return TaskOptional
	}
	switch s := TaskSupport(strictjson.Text(strictjson.MemberOf(readExtension(t.MCP).execution, "taskSupport"))); s {
	case TaskRequired, TaskForbidden:
		return s
	}
	return TaskOptional
}
