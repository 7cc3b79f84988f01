package result

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// BytesPerToken is [text.BytesPerToken].
const BytesPerToken = text.BytesPerToken

// The minimum and the maximum of the limit of Cut, in bytes. A page of MaxCut bytes with its note fits
// a value of the store.
const (
	MinCut = 400
	MaxCut = 1_000_000
)

// A Page is a part of a response. Its body shares no memory with the response.
type Page struct {
	Body []byte
	JSON bool   // Body is one JSON value; otherwise it is text
	Note string // the part of the response that it contains, such as "20 of 512 items"
}

// CutPages splits a response that is larger than limit bytes into pages of at most limit bytes. It returns
// nil if the response is not larger. The limit is between MinCut and MaxCut. JSON that is small enough without
// its white space becomes one page without a note.
//
// The first page of a JSON response is the response with some parts omitted. It still matches the
// schema of the response: the largest array is shortened to whole items. If this is not enough,
// further arrays and the largest strings are shortened, then objects that are used as maps. The other
// pages contain the omitted items, in an array, and the omitted ends of strings, as text. Text, and JSON
// that cannot be shortened, is cut at the ends of lines, or between two characters if a line is too
// long.
func CutPages(body []byte, isJSON bool, limit int) []Page {
	limit = min(max(limit, MinCut), MaxCut)
	if len(body) <= limit {
		return nil
	}
	if isJSON && strictjson.Valid(body) {
		body = compact(body)
		if len(body) <= limit {
			return []Page{{Body: body, JSON: true}}
		}
		c := cutter{limit: limit, work: maxWork * len(body)}
		if page, rests := c.shorten(body); rests != nil {
			c.add(page, rests, func(path string) string { return joinPath("", path) })
			return c.pages
		}
	}
	c := cutter{limit: limit}
	c.text(body)
	return c.pages
}

// A cutter collects the pages of a response.
type cutter struct {
	limit int
	work  int // remaining number of bytes that shorten may survey
	pages []Page
}

// A rest is the part that was omitted from one array, object or string.
type rest struct {
	at    int    // offset in the page at which it was omitted
	path  string // of the array, the object or the string
	kind  byte   // '[', '{' or '"'
	body  []byte // items or members without brackets, or the text of a string
	start int    // number of items, members or bytes before it
	total int    // number of items, members or bytes in all
}

// describe returns the share of the array, object or string that the page contains.
func (r *rest) describe() string {
	unit := "items"
	switch r.kind {
	case '{':
		unit = "members"
	case '"':
		unit = "bytes"
	}
	return fmt.Sprintf("%d of %d %s%s", r.start, r.total, unit, in(r.path))
}

// in returns the path as the end of a note.
func in(path string) string {
	if path == "" {
		return ""
	}
	return " of " + path
}

// maxPath is the maximum length of a path in a note, in bytes. maxPlaces is the maximum number of paths
// in a note.
const (
	maxPath   = 200
	maxPlaces = 3
)

// compact returns JSON without white space. If there is none, it returns body.
func compact(body []byte) []byte {
	var out []byte
	start := 0 // of the part that is not yet in out
	for i := 0; i < len(body); {
		switch {
		case body[i] == '"':
			i += strictjson.ValueLen(body[i:])
		case body[i] > ' ':
			i++
		default:
			out = append(out, body[start:i]...)
			for i < len(body) && body[i] <= ' ' {
				i++
			}
			start = i
		}
	}
	if start == 0 {
		return body
	}
	return append(out, body[start:]...)
}

// add adds a page, then the pages with the parts that it omits.
func (c *cutter) add(page []byte, rests []rest, place func(string) string) {
	places := make([]string, 0, maxPlaces)
	for i := range rests {
		r := &rests[i]
		r.path = place(r.path)
		if i < maxPlaces {
			places = append(places, r.describe())
		}
	}
	note := strings.Join(places, ", ")
	if len(rests) > maxPlaces {
		note += ", …"
	}
	c.pages = append(c.pages, Page{Body: page, JSON: true, Note: note})
	for i := range rests {
		switch r := &rests[i]; r.kind {
		case '"':
			c.part(r)
		default:
			c.elements(r)
		}
	}
}

// elements adds pages of omitted items or members.
func (c *cutter) elements(r *rest) {
	opening, closing, unit := byte('['), byte(']'), "items"
	if r.kind == '{' {
		opening, closing, unit = '{', '}', "members"
	}
	number := r.start // of the element
	begin := number   // the first of the page
	var page []byte
	finish := func() {
		if page != nil {
			c.pages = append(c.pages, Page{
				Body: append(page, closing), JSON: true,
				Note: fmt.Sprintf("%s %d to %d of %d%s", unit, begin+1, number, r.total, in(r.path)),
			})
		}
		page, begin = nil, number
	}
	d := decoder{data: r.body}
	for d.at < len(r.body) {
		start := d.at
		d.element(r.kind)
		element := bytes.TrimSpace(r.body[start:d.at])
		d.delimiter()
		if len(page)+len(element)+2 > c.limit {
			finish()
		}
		if len(element)+2 > c.limit {
			c.element(opening, closing, element, r, number)
			number++
			begin = number
			continue
		}
		if page == nil {
			page = append(make([]byte, 0, min(c.limit, len(r.body)-start+2)), opening)
		} else {
			page = append(page, ',')
		}
		page = append(page, element...)
		number++
	}
	finish()
}

// element adds pages of one item or member that is too large for a page.
func (c *cutter) element(opening, closing byte, element []byte, r *rest, number int) {
	whole := slices.Concat([]byte{opening}, element, []byte{closing})
	place := func(p string) string { return joinPath(r.path, p) }
	if opening == '[' {
		place = func(p string) string {
			return joinPath(r.path, "["+strconv.Itoa(number)+"]"+strings.TrimPrefix(p, "[0]"))
		}
	}
	if page, rests := c.shorten(whole); rests != nil {
		c.add(page, rests, place)
		return
	}
	c.part(&rest{path: place("[0]"), body: element, total: len(element)})
}

// text adds the pages of a text, which notes count in lines if the pages are whole lines.
func (c *cutter) text(body []byte) {
	line, lines := 1, bytes.Count(body, []byte("\n"))
	if !bytes.HasSuffix(body, []byte("\n")) {
		lines++
	}
	for start := 0; start < len(body); {
		end := textEnd(body, start, c.limit)
		next := line + bytes.Count(body[start:end], []byte("\n"))
		note := fmt.Sprintf("bytes %d to %d of %d", start+1, end, len(body))
		if isLineEnd(body, start) && isLineEnd(body, end) {
			last := next - 1
			if end == len(body) {
				last = lines
			}
			note = fmt.Sprintf("lines %d to %d of %d", line, last, lines)
		}
		c.pages = append(c.pages, Page{Body: bytes.Clone(body[start:end]), Note: note})
		start, line = end, next
	}
}

// isLineEnd reports whether a line ends before body[at].
func isLineEnd(body []byte, at int) bool {
	return at == 0 || at == len(body) || body[at-1] == '\n'
}

// part adds pages of the omitted end of a string.
func (c *cutter) part(r *rest) {
	for start := 0; start < len(r.body); {
		end := textEnd(r.body, start, c.limit)
		c.pages = append(c.pages, Page{
			Body: bytes.Clone(r.body[start:end]),
			Note: fmt.Sprintf("bytes %d to %d of %d%s", r.start+start+1, r.start+end, r.total, in(r.path)),
		})
		start = end
	}
}

// textEnd returns the end of the page of a text that begins at start.
func textEnd(body []byte, start, limit int) int {
	if len(body)-start <= limit {
		return len(body)
	}
	end := start + limit
	if newline := bytes.LastIndexByte(body[start:end], '\n'); newline >= 0 {
		return start + newline + 1
	}
	for end > start+limit-utf8.UTFMax && !utf8.RuneStart(body[end]) {
		end--
	}
	return end
}

// joinPath joins two paths.
func joinPath(base, path string) string {
	if base == "" || path == "" || path[0] == '[' {
		return text.Cut(base+path, maxPath)
	}
	return text.Cut(base+"."+path, maxPath)
}

// Limits of shorten.
const (
	// maxShortened is the maximum number of arrays, objects and strings that are shortened in a value.
	maxShortened = 16

	// minShortened: an array, object or string is shortened only if that saves at least 1/minShortened of
	// the excess.
	minShortened = 8

	// maxWork is the maximum number of bytes that shorten surveys, as a multiple of the size of the
	// response. A part that is still too large for a page afterwards, such as an item that is nested in
	// hundreds of others, is cut as text.
	maxWork = 2 * maxShortened

	// minString is the size of a string, in bytes of JSON, below which it is not shortened.
	minString = 128
)

// shorten returns a copy of value that fits a page, without some items, members and ends of strings, and
// the omitted parts, in the order of the value. It returns nil if it cannot omit enough, or if maxWork is
// reached.
func (c *cutter) shorten(value []byte) (page []byte, rests []rest) {
	page = value
	for len(page) > c.limit {
		if c.work -= len(page); c.work < 0 || len(rests) == maxShortened {
			return nil, nil
		}
		s := survey{decoder: decoder{data: page}}
		s.value()
		r, from, to := s.cut(len(page) - c.limit)
		if to <= from {
			return nil, nil
		}
		for i := range rests {
			if rests[i].at >= from {
				rests[i].at = max(from, rests[i].at-(to-from))
			}
		}
		r.path = pathTo(page, r.at)
		rests = append(rests, r)
		page = slices.Concat(page[:from], page[to:])
	}
	slices.SortStableFunc(rests, func(a, b rest) int { return a.at - b.at })
	return page, rests
}
