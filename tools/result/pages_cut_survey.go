package result

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
)

// A span is a value that can be shortened.
type span struct{ start, end int }

func (s span) size() int { return s.end - s.start }

// A survey finds the largest array, object and string of a value.
type survey struct {
	decoder
	array, object span // of those with two elements or more
	string        span
}

// value surveys the next value.
func (s *survey) value() {
	kind, start, largest := s.next(), s.at, &s.array
	switch kind {
	case '[':
	case '{':
		largest = &s.object
	case '"':
		s.skip()
		larger(&s.string, span{start, s.at})
		return
	default:
		s.skip()
		return
	}
	s.at++
	count := 0
	for s.more() {
		if kind == '{' {
			s.name()
		}
		s.value()
		count++
	}
	if count > 1 {
		larger(largest, span{start, s.at})
	}
}

// larger replaces old if other is larger.
func larger(old *span, other span) {
	if other.size() > old.size() {
		*old = other
	}
}

// name skips the name of a member and the colon.
func (d *decoder) name() {
	d.skip()
	d.next()
	d.at++
}

// element skips an item of an array or a member of an object.
func (d *decoder) element(kind byte) {
	if kind == '{' {
		d.name()
	}
	d.skip()
}

// delimiter skips the white space and the comma after an element, up to the end of the data.
func (d *decoder) delimiter() {
	for d.at < len(d.data) && d.data[d.at] <= ' ' {
		d.at++
	}
	if d.at < len(d.data) && d.data[d.at] == ',' {
		d.at++
	}
}

// cut chooses the range to omit from the value, which is excess bytes too large. The range is empty if
// nothing can be omitted.
func (s *survey) cut(excess int) (r rest, from, to int) {
	switch {
	case s.array.size() >= s.string.size() && s.array.size()*minShortened >= excess:
		return s.cutElements('[', s.array, excess)
	case s.string.size()*minShortened >= excess && s.string.size() > minString:
		return s.cutString(excess)
	case s.object.size() > 0:
		return s.cutElements('{', s.object, excess)
	}
	return rest{}, 0, 0
}

// cutElements omits the last elements of an array or object. It keeps at least one.
func (s *survey) cutElements(kind byte, of span, excess int) (r rest, from, to int) {
	d := decoder{data: s.data, at: of.start + 1}
	r = rest{at: of.start, kind: kind}
	begin := 0 // of the omitted range
	for d.more() {
		start := d.at
		d.element(kind)
		r.total++
		switch size := d.at - of.start + 1; {
		case begin > 0:
		case r.total == 1 || size <= of.size()-excess:
			r.start, from = r.total, d.at
		default:
			begin = start
		}
	}
	to = of.end - 1
	r.body = s.data[begin:to]
	return r, from, to
}

// cutString omits the end of the largest string.
func (s *survey) cutString(excess int) (r rest, from, to int) {
	of := s.string
	to = of.end - 1
	last := of.start + max(of.size()-excess, minString) - 1
	from = of.start + 1
	for from < to {
		n := characterLen(s.data[from:to])
		if from+n > last {
			break
		}
		from += n
	}
	kept := unquoted(s.data[of.start+1 : from])
	left := unquoted(s.data[from:to])
	return rest{at: of.start, kind: '"', body: left, start: len(kept), total: len(kept) + len(left)}, from, to
}

// unquoted returns the text of a part of a JSON string.
func unquoted(part []byte) []byte {
	quoted := slices.Concat([]byte{'"'}, part, []byte{'"'})
	content, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return part
	}
	return content
}

// Lengths of escapes in JSON strings, in bytes.
const (
	shortEscape   = len(`\n`)
	unicodeEscape = len(`\u0000`)
)

// characterLen returns the length of the first character of the content of a JSON string. A pair of
// surrogates is one character.
func characterLen(content []byte) int {
	if content[0] != '\\' {
		_, n := utf8.DecodeRune(content)
		return n
	}
	if content[1] != 'u' {
		return shortEscape
	}
	isHigh := (content[2] == 'd' || content[2] == 'D') && strings.IndexByte("89abAB", content[3]) >= 0
	if isHigh && len(content) >= 2*unicodeEscape && content[unicodeEscape] == '\\' && content[unicodeEscape+1] == 'u' {
		return 2 * unicodeEscape
	}
	return unicodeEscape
}

// pathTo returns the path of the value that begins at offset at of a JSON value, such as
// "items[3].labels".
func pathTo(data []byte, at int) string {
	d := decoder{data: data, text: string(data[:at])}
	var path []container // the containers of the current value, outermost first
	for d.next(); d.at < at; d.next() {
		switch d.data[d.at] {
		case '[', '{':
			path = append(path, container{object: d.data[d.at] == '{'})
			d.at++
		case ']', '}':
			path = path[:len(path)-1]
			d.at++
		case ',':
			path[len(path)-1].next()
			d.at++
		case '"':
			if inner := &path[len(path)-1]; inner.object && !inner.named {
				inner.named, inner.name = true, d.string()
				d.next()
				d.at++
				continue
			}
			d.skip()
		default:
			d.skip()
		}
	}
	var b strings.Builder
	for _, c := range path {
		c.appendTo(&b)
	}
	return b.String()
}

// A container is an array or an object on the path to a value.
type container struct {
	object bool
	named  bool   // whether the name of the current member was read
	name   string // of the current member
	index  int    // of the current item
}

// next goes to the next item or member.
func (c *container) next() {
	c.index++
	c.named = false
}

// appendTo appends the current item or member to a path.
func (c *container) appendTo(path *strings.Builder) {
	switch {
	case !c.object:
		fmt.Fprintf(path, "[%d]", c.index)
	case path.Len() > 0:
		path.WriteString("." + text.Cut(c.name, text.MaxQuoted))
	default:
		path.WriteString(text.Cut(c.name, text.MaxQuoted))
	}
}
