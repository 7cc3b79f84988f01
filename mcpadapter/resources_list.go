package mcpadapter

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// listResources serves resources/list. Files in folders come last, as they currently exist.
func (q resourceRequest) listResources() *jsonrpc.Fault {
	c := q.catalog()
	all := slices.Concat(c.index().Resources, c.index().FilesInFolders(time.Now()))
	return q.listItems(c, "resources", all)
}

// listTemplates serves resources/templates/list.
func (q resourceRequest) listTemplates() *jsonrpc.Fault {
	c := q.catalog()
	return q.listItems(c, "resourceTemplates", c.index().Templates)
}

// listItems writes one page of resources.
func (q resourceRequest) listItems(c *catalog, name string, all []*library.Entry) *jsonrpc.Fault {
	items := make([]listed, 0, len(all))
	for _, r := range all {
		if !r.Denied {
			items = append(items, r)
		}
	}
	return q.listPage(c, name, items)
}

// listPage writes one page of a list. Unlike tools/list, these lists are short or change without a
// reload, so they are encoded for each request.
func (m *message) listPage(c *catalog, name string, items []listed) *jsonrpc.Fault {
	var encoded []byte
	ends := make([]int, len(items))
	for i, item := range items {
		encoded = append(item.AppendTo(encoded, m.version), ',')
		ends[i] = len(encoded)
	}
	sum := sha256.New()
	sum.Write(c.stamp[:])
	sum.Write([]byte(name))
	sum.Write(encoded)
	stamp := [8]byte(sum.Sum(nil)[:8])
	size := m.server.options.PageSize
	if size <= 0 {
		size = max(len(items), 1)
	}
	page, f := m.pageOf(stamp, name)
	if f != nil {
		return f
	}
	if page > 0 && page*size >= len(items) {
		return staleList(name)
	}
	from, to := page*size, min((page+1)*size, len(items))
	b := m.beginResult()
	if m.version.Stateless() {
		b = append(append(b, c.complete...), ',')
		b = append(append(b, c.fresh...), ',')
	}
	b = append(append(append(b, '"'), name...), `":[`...)
	if from < to {
		start := 0
		if from > 0 {
			start = ends[from-1]
		}
		b = append(b, encoded[start:ends[to-1]-1]...)
	}
	b = append(b, ']')
	if to < len(items) {
		b = wire.AppendString(append(b, `,"nextCursor":`...), cursorOf(stamp, page+1))
	}
	m.out.B = append(b, "}}"...)
	return nil
}

// listed is an entry of a list.
type listed interface {
	AppendTo(dst []byte, v revision.Revision) []byte
}

// pageOf returns the page number of the request's cursor.
func (m *message) pageOf(stamp [8]byte, name string) (int, *jsonrpc.Fault) {
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
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != len(stamp)+4 || string(raw[:len(stamp)]) != string(stamp[:]) {
		return 0, staleList(name)
	}
	return int(binary.BigEndian.Uint32(raw[len(stamp):])), nil
}

// staleList returns the fault for a cursor of another or a changed list.
func staleList(name string) *jsonrpc.Fault {
	return jsonrpc.BadParams("params.cursor is not of this list, or the %s have changed since: "+
		"drop what you have and list them again without a cursor", name)
}

// cursorOf returns the cursor for a page. The stamp makes it invalid for other lists.
func cursorOf(stamp [8]byte, page int) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(stamp[:], uint32(page)))
}
