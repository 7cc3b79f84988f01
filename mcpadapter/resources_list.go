package mcpadapter

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// listResources serves resources/list. Files in folders come last, as they currently exist.
func (q resourceRequest) listResources() *jsonrpc.Fault {
	c := q.catalog()
	all := slices.Concat(c.Index().Resources, c.Index().FilesInFolders(time.Now()))
	return q.listItems(c, "resources", all)
}

// listTemplates serves resources/templates/list.
func (q resourceRequest) listTemplates() *jsonrpc.Fault {
	c := q.catalog()
	return q.listItems(c, "resourceTemplates", c.Index().Templates)
}

// listItems writes one page of resources.
func (q resourceRequest) listItems(c *catalog.Catalog, name string, all []*library.Entry) *jsonrpc.Fault {
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
func (m *message) listPage(c *catalog.Catalog, name string, items []listed) *jsonrpc.Fault {
	var encoded []byte
	ends := make([]int, len(items))
	for i, item := range items {
		encoded = append(item.AppendTo(encoded, m.version), ',')
		ends[i] = len(encoded)
	}
	sum := sha256.New()
	sum.Write(c.Stamp[:])
	sum.Write([]byte(name))
	sum.Write(encoded)
	stamp := [8]byte(sum.Sum(nil)[:8])
	size := m.server.options.PageSize
	if size <= 0 {
		size = max(len(items), 1)
	}
	page, f := m.page(name, stamp)
	if f != nil {
		return f
	}
	if page > 0 && page*size >= len(items) {
		return staleList(name)
	}
	from, to := page*size, min((page+1)*size, len(items))
	b := m.appendListHead(m.beginResult(), c)
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
		b = wire.AppendString(append(b, `,"nextCursor":`...), catalog.Cursor(stamp, page+1))
	}
	m.out.B = append(b, "}}"...)
	return nil
}

// listed is an entry of a list.
type listed interface {
	AppendTo(dst []byte, v revision.Revision) []byte
}
