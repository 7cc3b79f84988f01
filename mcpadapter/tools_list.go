package mcpadapter

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A toolListRequest is a request of tools/list.
type toolListRequest struct{ *message }

// listTools serves tools/list: it writes the head of the response, followed by the encoded page.
func (q toolListRequest) listTools() *jsonrpc.Fault {
	c := q.catalog()
	pages := c.pages[q.version]
	page, f := q.page(c)
	if f != nil {
		return f
	}
	if page >= len(pages()) {
		return staleCursor()
	}
	b := q.beginResult()
	if q.version.Stateless() {
		b = append(append(b, c.complete...), ',')
		b = append(append(b, c.fresh...), ',')
	}
	q.out.B = b
	q.trailer = pages()[page]
	return nil
}

// page returns the number of the page for the request's cursor. Some clients send an empty cursor
// for the first page; cursors of this server are never empty.
func (q toolListRequest) page(c *catalog) (int, *jsonrpc.Fault) {
	switch q.params.cursor.Kind() {
	case 0, 'n':
		return 0, nil
	case '"':
	default:
		return 0, jsonrpc.BadParams("params.cursor must be a string, not %s", wire.KindName(q.params.cursor.Kind()))
	}
	cursor := wire.Text(q.params.cursor)
	if cursor == "" {
		return 0, nil
	}
	page, ok := c.page(cursor)
	if !ok {
		return 0, staleCursor()
	}
	return page, nil
}

// staleCursor returns the fault for a cursor of another or a changed list.
func staleCursor() *jsonrpc.Fault {
	return jsonrpc.BadParams("params.cursor is not of this list, or the tools have changed since: " +
		"drop what you have and call tools/list again without a cursor")
}

// maxPageBytes is the size, in bytes, at which a page of tools/list ends.
const maxPageBytes = 4 << 20

// encode returns the pages of tools/list, each from "tools" to the end of the response. A page has
// at most c.size tools and at most maxPageBytes, unless a single tool is larger.
func (c *catalog) encode(v revision.Revision) [][]byte {
	var pages [][]byte
	var tool []byte
	page, count := []byte(`"tools":[`), 0
	for _, t := range c.visible {
		tool = c.decorate(c.server.appendTool(tool[:0], t, v), t, v)
		if count == c.size || count > 0 && len(page)+len(tool) > maxPageBytes {
			page = wire.AppendString(append(page, `],"nextCursor":`...), c.cursor(len(pages)+1))
			pages = append(pages, bytes.Clone(append(page, "}}"...)))
			page, count = append(page[:0], `"tools":[`...), 0
		}
		if count > 0 {
			page = append(page, ',')
		}
		page = append(page, tool...)
		count++
	}
	return append(pages, bytes.Clone(append(page, "]}}"...)))
}

// appendTool appends a tool as tools/list returns it. In revisions where tools have no title, the
// annotations contain it.
//
// The annotations state only what HTTP guarantees for the method (MCP, Tools, ToolAnnotations):
//
//   - GET, HEAD and OPTIONS are read-only.
//   - All other methods may be destructive: a POST can be a cancellation. Clients assume the same by default.
//   - openWorldHint is always true, because it is unknown whether the API uses other systems.
func (s *Server) appendTool(dst []byte, tool *tool.Tool, v revision.Revision) []byte {
	dst = wire.AppendString(append(dst, `{"name":`...), tool.Name)
	if v.SupportsTitles() && tool.Title != "" {
		dst = wire.AppendString(append(dst, `,"title":`...), tool.Title)
	}
	dst = wire.AppendString(append(dst, `,"description":`...), tool.Description)
	dst = elicit.AppendVisibleSchema(append(dst, `,"inputSchema":`...), tool)
	dst = s.appendOutputSchema(dst, tool, v)
	if !v.SupportsAnnotations() {
		return append(dst, '}')
	}
	dst = append(dst, `,"annotations":{`...)
	if !v.SupportsTitles() && tool.Title != "" {
		dst = append(wire.AppendString(append(dst, `"title":`...), tool.Title), ',')
	}
	dst = appendHint(dst, `"readOnlyHint":`, tool.ReadOnly())
	dst = appendHint(dst, `,"destructiveHint":`, !tool.ReadOnly())
	dst = appendHint(dst, `,"idempotentHint":`, tool.Idempotent())
	dst = appendHint(dst, `,"openWorldHint":`, true)
	return append(dst, "}}"...)
}

func appendHint(dst []byte, name string, hint bool) []byte {
	dst = append(dst, name...)
	if hint {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// cursor returns the cursor for a page: the catalog's stamp and the page number. The stamp makes it
// invalid for other catalogs.
func (c *catalog) cursor(page int) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(c.stamp[:], uint32(page)))
}

// page is the inverse of cursor.
func (c *catalog) page(cursor string) (int, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != len(c.stamp)+4 || string(raw[:len(c.stamp)]) != string(c.stamp[:]) {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(raw[len(c.stamp):])), true
}

// decorate adds to an encoded tool (which ends in a brace) the members that do not follow from its
// operation alone: icons, securitySchemes, and _meta with its app.
func (c *catalog) decorate(dst []byte, tool *tool.Tool, v revision.Revision) []byte {
	if !v.SupportsTitles() {
		return dst
	}
	schemes := securitySchemes(tool, c.tools, c.login)
	dst = content.AppendIcons(dst[:len(dst)-1], library.ExtensionIcons(tool.MCP), v)
	if schemes != nil && v.SupportsIcons() {
		dst = append(append(dst, `,"securitySchemes":`...), schemes...)
	}
	var meta wire.ObjectBuilder
	if schemes != nil {
		meta.Add("securitySchemes", schemes)
	}
	c.library.AddToolMeta(&meta, tool)
	if len(meta) > 0 {
		dst = append(append(dst, `,"_meta":`...), meta.Close()...)
	}
	return append(dst, '}')
}
