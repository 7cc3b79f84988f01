package mcpadapter

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// An extension is what x-mcp says of an operation:
//
//	tool      false: the operation is no tool
//	resource  true, or {uri, name, title, description, mimeType}
//	prompt    true, or {name, title, description, arguments}
//	icons     [{src, mimeType, sizes, theme}] of the tool, or at the root of the document of the server
//	ui        _meta.ui of the tool and of the page (MCP Apps)
//	openai    members of their _meta whose names begin with openai/, with or without that
type extension struct {
	hidden                              bool // the operation is no tool
	resource, prompt, icons, ui, openai jsontext.Value
}

// readExtension takes an x-mcp object apart. Members of another kind than they
// must be count as absent; extensionWarnings tells of them.
func readExtension(raw jsontext.Value) (e extension) {
	for walk := wire.Into(raw); walk.Next(); {
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
		}
	}
	return e
}

// isHidden reports whether the operation is no tool: only a resource or a prompt,
// or nothing.
func isHidden(tool *ocp.Tool) bool {
	return tool.MCP != nil && readExtension(tool.MCP).hidden
}
