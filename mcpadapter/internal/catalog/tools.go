package catalog

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

// MaxPageBytes is the size, in bytes, at which a page of tools/list ends.
const MaxPageBytes = 4 << 20

// encode returns the pages of tools/list, each from "tools" to the end of the response. A page has
// at most c.size tools and at most MaxPageBytes, unless a single tool is larger.
func (c *Catalog) encode(v protocol.Revision) [][]byte {
	var pages [][]byte
	var tool []byte
	page, count := []byte(`"tools":[`), 0
	for _, t := range c.Visible {
		tool = c.AppendTool(tool[:0], t, v)
		if count == c.size || count > 0 && len(page)+len(tool) > MaxPageBytes {
			page = strictjson.AppendString(append(page, `],"nextCursor":`...), Cursor(c.Stamp, len(pages)+1))
			pages = append(pages, bytes.Clone(append(page, "}}"...)))
			page, count = append(page[:0], `"tools":[`...), 0
		}
		page = append(strictjson.Comma(page), tool...)
		count++
	}
	return append(pages, bytes.Clone(append(page, "]}}"...)))
}

// AppendTool appends a tool as tools/list returns it.
func (c *Catalog) AppendTool(dst []byte, t *tools.Tool, v protocol.Revision) []byte {
	return c.decorate(c.options.appendTool(dst, t, v), t, v)
}

// appendTool appends what follows from the operation of a tool. In revisions where tools have no title, the
// annotations contain it.
//
// The annotations state only what HTTP guarantees for the method (MCP, Tools, ToolAnnotations):
//
//   - GET, HEAD and OPTIONS are read-only.
//   - All other methods may be destructive: a POST can be a cancellation. Clients assume the same by default.
//   - openWorldHint is true, because it is unknown whether the API uses other systems.
//
// A shape can set each of them.
func (o *Options) appendTool(dst []byte, tool *tools.Tool, v protocol.Revision) []byte {
	dst = strictjson.AppendString(append(dst, `{"name":`...), tool.Name)
	if v.SupportsTitles() && tool.Definition.Title != "" {
		dst = strictjson.AppendString(append(dst, `,"title":`...), tool.Definition.Title)
	}
	dst = strictjson.AppendString(append(dst, `,"description":`...), tool.Definition.Description)
	dst = tool.AppendVisibleSchema(append(dst, `,"inputSchema":`...))
	if tool.Foreign != nil {
		return append(o.appendExecution(appendForeign(dst, tool, v), tool, v), '}')
	}
	output := content.OutputOf(o.OutputSchema, tool, elicit.NeedsOf(tool).Native, v)
	if tool.Output.Assured && v.SupportsOutputSchema() {
		output = &content.Output{Strict: true}
	}
	dst = output.AppendTo(dst, tool, v)
	if !v.SupportsAnnotations() {
		return append(dst, '}')
	}
	dst = append(dst, `,"annotations":{`...)
	if !v.SupportsTitles() && tool.Definition.Title != "" {
		dst = append(strictjson.AppendString(append(dst, `"title":`...), tool.Definition.Title), ',')
	}
	dst = appendHint(dst, `"readOnlyHint":`, tool.Hint(build.ReadOnlyHint))
	dst = appendHint(dst, `,"destructiveHint":`, tool.Hint(build.DestructiveHint))
	dst = appendHint(dst, `,"idempotentHint":`, tool.Hint(build.IdempotentHint))
	dst = appendHint(dst, `,"openWorldHint":`, tool.Hint(build.OpenWorldHint))
	dst = append(dst, '}')
	return append(o.appendExecution(dst, tool, v), '}')
}

// appendExecution appends that calls of a tool can be tasks of the gateway, where tasks are a parameter of the call.
func (o *Options) appendExecution(dst []byte, tool *tools.Tool, v protocol.Revision) []byte {
	support := library.TaskSupportOf(tool)
	if !o.Tasks || !v.SupportsTaskParameter() || support == library.TaskForbidden {
		return dst
	}
	return append(append(append(dst, `,"execution":{"taskSupport":"`...), support...), `"}`...)
}

func appendHint(dst []byte, name string, hint bool) []byte {
	dst = append(dst, name...)
	if hint {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// decorate adds to an encoded tool (which ends in a brace) the members that do not follow from its
// operation alone: icons, securitySchemes, and _meta with its app.
func (c *Catalog) decorate(dst []byte, tool *tools.Tool, v protocol.Revision) []byte {
	if !v.SupportsTitles() {
		return dst
	}
	schemes := securitySchemes(tool, c.Tools, c.login, c.mixed)
	dst = dst[:len(dst)-1]
	if tool.Foreign == nil {
		dst = content.AppendIcons(dst, library.ExtensionIcons(tool.MCP), v)
	}
	if schemes != nil && v.SupportsIcons() {
		dst = append(append(dst, `,"securitySchemes":`...), schemes...)
	}
	var meta strictjson.ObjectBuilder
	if tool.Foreign != nil {
		addForeignMeta(&meta, tool)
	}
	if schemes != nil {
		meta.Add("securitySchemes", schemes)
	}
	c.Library.AddToolMeta(&meta, tool)
	if c.options.ToolMeta != nil {
		if name, value := c.options.ToolMeta(tool); value != nil {
			meta.Add(name, value)
		}
	}
	if len(meta) > 0 {
		dst = append(append(dst, `,"_meta":`...), meta.Close()...)
	}
	return append(dst, '}')
}

// Cursor returns the cursor for a page of a list with that stamp. The stamp makes it invalid for other
// lists.
func Cursor(stamp [8]byte, page int) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(stamp[:], uint32(page)))
}

// PageOf is the inverse of Cursor. ok is false for a cursor of another list.
func PageOf(stamp [8]byte, cursor string) (page int, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != len(stamp)+4 || string(raw[:len(stamp)]) != string(stamp[:]) {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(raw[len(stamp):])), true
}
