package mcpadapter

import (
	"crypto/sha256"
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// A listRequest is a request for one page of a list.
type listRequest struct {
	request  *request
	response *response
	name     string // of the list in the result
	from     *catalog.Catalog
}

// listTools serves tools/list: it writes the head of the response, followed by the encoded page.
func listTools(q *request, w *response) *protocol.Fault {
	l := listRequest{q, w, "tools", q.catalog()}
	page, f := l.page(l.from.Stamp)
	if f != nil {
		return f
	}
	pages := l.from.Pages(q.version)
	if page >= len(pages) {
		return staleList(l.name)
	}
	w.out.B, w.trailer = l.begin(), pages[page]
	return nil
}

// writeList writes one page of the entries that the access token allows. Unlike tools/list, the other lists are short or
// change without a reload, so they are encoded for each request.
func writeList[T listed](l listRequest, all []T) *protocol.Fault {
	items := slices.DeleteFunc(slices.Clone(all), T.IsDenied)
	var encoded []byte
	ends := make([]int, len(items))
	for i, item := range items {
		encoded = append(item.AppendTo(encoded, l.request.version), ',')
		ends[i] = len(encoded)
	}
	sum := sha256.New()
	sum.Write(l.from.Stamp[:])
	sum.Write([]byte(l.name))
	sum.Write(encoded)
	stamp := [8]byte(sum.Sum(nil)[:8])
	page, f := l.page(stamp)
	if f != nil {
		return f
	}
	starts := l.startsOf(ends)
	if page >= len(starts) {
		return staleList(l.name)
	}
	from, to := starts[page], len(items)
	if page+1 < len(starts) {
		to = starts[page+1]
	}
	b := l.begin()
	b = append(append(append(b, '"'), l.name...), `":[`...)
	if from < to {
		start := 0
		if from > 0 {
			start = ends[from-1]
		}
		b = append(b, encoded[start:ends[to-1]-1]...)
	}
	b = append(b, ']')
	if to < len(items) {
		b = strictjson.AppendString(append(b, `,"nextCursor":`...), catalog.Cursor(stamp, page+1))
	}
	l.response.end(b)
	return nil
}

// startsOf returns the first item of each page. A page has at most catalog.MaxPageBytes, unless a single item is larger. ends are the ends of the encoded items.
func (l listRequest) startsOf(ends []int) []int {
	starts := []int{0}
	size := l.request.server.options.PageSize
	for i, begin := 1, 0; i < len(ends); i++ {
		if first := starts[len(starts)-1]; size > 0 && i-first == size || ends[i]-begin > catalog.MaxPageBytes {
			starts, begin = append(starts, i), ends[i-1]
		}
	}
	return starts
}

// listed is an entry of a list.
type listed interface {
	IsDenied() bool
	AppendTo(dst []byte, v protocol.Revision) []byte
}

// begin returns the buffer with the members that every list starts with.
func (l listRequest) begin() []byte {
	b := l.response.begin()
	if !l.request.version.Stateless() {
		return b
	}
	b = append(append(b, l.response.complete...), ',')
	return append(append(b, l.from.Fresh...), ',')
}

// page returns the number of the page for the request's cursor. Some clients send an empty
// cursor for the first page; cursors of this server are never empty.
func (l listRequest) page(stamp [8]byte) (int, *protocol.Fault) {
	raw := strictjson.MemberOf(l.request.params.raw, "cursor")
	switch raw.Kind() {
	case 0, 'n':
		return 0, nil
	case '"':
	default:
		return 0, protocol.BadParams("params.cursor must be a string, not %s", strictjson.KindName(raw.Kind()))
	}
	cursor := strictjson.Text(raw)
	if cursor == "" {
		return 0, nil
	}
	page, ok := catalog.PageOf(stamp, cursor)
	if !ok {
		return 0, staleList(l.name)
	}
	return page, nil
}

// staleList returns the fault for a cursor of another or a changed list.
func staleList(name string) *protocol.Fault {
	return protocol.BadParams("params.cursor does not belong to this list, or the %s have changed since: "+
		"discard the pages that you have and list again without a cursor", name)
}
