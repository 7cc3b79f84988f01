package mcpadapter

import (
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// A toolListRequest is a request of tools/list.
type toolListRequest struct{ *message }

// listTools serves tools/list: it writes the head of the response, followed by the encoded page.
func (q toolListRequest) listTools() *jsonrpc.Fault {
	c := q.catalog()
	page, f := q.page("tools", c.Stamp)
	if f != nil {
		return f
	}
	pages := c.Pages(q.version)
	if page >= len(pages) {
		return staleList("tools")
	}
	q.out.B = q.appendListHead(q.beginResult(), c)
	q.trailer = pages[page]
	return nil
}

// appendListHead appends the members that every list starts with.
func (m *message) appendListHead(dst []byte, c *catalog.Catalog) []byte {
	if !m.version.Stateless() {
		return dst
	}
	dst = append(append(dst, c.Complete...), ',')
	return append(append(dst, c.Fresh...), ',')
}

// page returns the number of the page for the request's cursor of a list. Some clients send an empty
// cursor for the first page; cursors of this server are never empty.
func (m *message) page(list string, stamp [8]byte) (int, *jsonrpc.Fault) {
	switch m.params.cursor.Kind() {
	case 0, 'n':
		return 0, nil
	case '"':
	default:
		return 0, jsonrpc.BadParams("params.cursor must be a string, not %s", wire.KindName(m.params.cursor.Kind()))
	}
	cursor := wire.Text(m.params.cursor)
	if cursor == "" {
		return 0, nil
	}
	page, ok := catalog.PageOf(stamp, cursor)
	if !ok {
		return 0, staleList(list)
	}
	return page, nil
}

// staleList returns the fault for a cursor of another or a changed list.
func staleList(name string) *jsonrpc.Fault {
	return jsonrpc.BadParams("params.cursor does not belong to this list, or the %s have changed since: "+
		"discard the pages that you have and list again without a cursor", name)
}
