package mcpadapter

import (
	"crypto/sha256"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
)

// A listRequest is a request for one page of a list.
type listRequest struct {
	*message
	name string // of the list in the result
	from *catalog.Catalog
}

// A toolListRequest is a request of tools/list.
type toolListRequest struct{ *message }

// listTools serves tools/list: it writes the head of the response, followed by the encoded page.
func (t toolListRequest) listTools() *jsonrpc.Fault {
	q := listRequest{t.message, "tools", t.catalog()}
	page, f := q.page(q.from.Stamp)
	if f != nil {
		return f
	}
	pages := q.from.Pages(q.version)
	if page >= len(pages) {
		return staleList(q.name)
	}
	q.out.B = q.appendHead(q.beginResult())
	q.trailer = pages[page]
	return nil
}

// write writes one page of a list. Unlike tools/list, the other lists are short or change without a
// reload, so they are encoded for each request.
func (q listRequest) write(items []listed) *jsonrpc.Fault {
	var encoded []byte
	ends := make([]int, len(items))
	for i, item := range items {
		encoded = append(item.AppendTo(encoded, q.version), ',')
		ends[i] = len(encoded)
	}
	sum := sha256.New()
	sum.Write(q.from.Stamp[:])
	sum.Write([]byte(q.name))
	sum.Write(encoded)
	stamp := [8]byte(sum.Sum(nil)[:8])
	size := q.server.options.PageSize
	if size <= 0 {
		size = max(len(items), 1)
	}
	page, f := q.page(stamp)
	if f != nil {
		return f
	}
	if page > 0 && page*size >= len(items) {
		return staleList(q.name)
	}
	from, to := page*size, min((page+1)*size, len(items))
	b := q.appendHead(q.beginResult())
	b = append(append(append(b, '"'), q.name...), `":[`...)
	if from < to {
		start := 0
		if from > 0 {
			start = ends[from-1]
		}
		b = append(b, encoded[start:ends[to-1]-1]...)
	}
	b = append(b, ']')
	if to < len(items) {
		b = wire.AppendString(append(b, `,"nextCursor":`...), catalog.Cursor(stamp, page+1))
	}
	q.out.B = append(b, "}}"...)
	return nil
}

// listed is an entry of a list.
type listed interface {
	AppendTo(dst []byte, v revision.Revision) []byte
}

// appendHead appends the members that every list starts with.
func (q listRequest) appendHead(dst []byte) []byte {
	if !q.version.Stateless() {
		return dst
	}
	dst = append(append(dst, q.from.Complete...), ',')
	return append(append(dst, q.from.Fresh...), ',')
}

// page returns the number of the page for the request's cursor. Some clients send an empty
// cursor for the first page; cursors of this server are never empty.
func (q listRequest) page(stamp [8]byte) (int, *jsonrpc.Fault) {
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
	page, ok := catalog.PageOf(stamp, cursor)
	if !ok {
		return 0, staleList(q.name)
	}
	return page, nil
}

// staleList returns the fault for a cursor of another or a changed list.
func staleList(name string) *jsonrpc.Fault {
	return jsonrpc.BadParams("params.cursor does not belong to this list, or the %s have changed since: "+
		"discard the pages that you have and list again without a cursor", name)
}
