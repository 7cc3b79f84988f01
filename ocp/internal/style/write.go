package style

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A writer is the state of one call of Append.
type writer struct {
	*Serializer
	dst   []byte
	start int // where the parameter starts in dst
	parts int // number of parts written
}

func (w *writer) write(value jsontext.Value) error {
	value = bytes.Trim(value, " \t\r\n")
	if len(value) == 0 {
		return w.malformed()
	}
	if value[0] == 'n' {
		return nil
	}
	nested := value[0] == '[' || value[0] == '{'
	if nested && wire.CheckDepth(value, MaxDepth) != nil {
		return w.refuse("nests deeper than " + strconv.Itoa(MaxDepth) + " levels")
	}
	switch {
	case !nested || w.content:
		return w.single(value)
	case w.layout.deep:
		var short [128]byte
		return w.deep(append(short[:0], w.key...), value)
	case w.explode:
		return w.exploded(value)
	}
	return w.list(value)
}

// single writes a value as a whole.
func (w *writer) single(value jsontext.Value) error {
	w.part()
	if !w.layout.named {
		return w.piece(value, w.values)
	}
	return w.pair(w.key, value)
}

// exploded writes each item or property as a separate part.
func (w *writer) exploded(value jsontext.Value) error {
	walk := wire.Into(value)
	for walk.Next() {
		if walk.Value[0] == 'n' {
			continue
		}
		w.part()
		if err := w.explodedPart(walk.Name, walk.Value); err != nil {
			return err
		}
	}
	return w.ended(&walk)
}

func (w *writer) explodedPart(name, value jsontext.Value) error {
	switch {
	case name != nil:
		return w.property(name, value)
	case w.layout.named:
		return w.pair(w.key, value)
	}
	return w.piece(value, w.items)
}

// property writes name=value for a property of an exploded object.
func (w *writer) property(name, value jsontext.Value) error {
	if other := w.anothersName(name); other != "" {
		return w.refuse(fmt.Sprintf("has a property %s, which the API would read as the argument %q: give it there", name, other))
	}
	mark := len(w.dst)
	if err := w.piece(name, w.names); err != nil {
		return err
	}
	if w.in == Cookie && len(w.dst) == mark {
		return w.refuse("has a property with an empty name, which no cookie can have")
	}
	values := w.values
	if !w.layout.named {
		values = w.items // the properties are joined like a list
	}
	return w.equals(value, values)
}

// pair writes key=value.
func (w *writer) pair(key []byte, value jsontext.Value) error {
	w.dst = append(w.dst, key...)
	return w.equals(value, w.values)
}

func (w *writer) equals(value jsontext.Value, e escape) error {
	w.dst = append(w.dst, '=')
	mark := len(w.dst)
	if err := w.piece(value, e); err != nil {
		return err
	}
	w.dropBareEquals(mark)
	return nil
}

// dropBareEquals removes the "=" before mark if no value follows and the layout omits
// it in that case.
func (w *writer) dropBareEquals(mark int) {
	if w.layout.bareEmpty && len(w.dst) == mark {
		w.dst = w.dst[:mark-1]
	}
}

// list writes the items of an array, or the names and values of an object, as one
// delimited value.
func (w *writer) list(value jsontext.Value) error {
	mark := -1
	walk := wire.Into(value)
	for walk.Next() {
		if walk.Value[0] == 'n' {
			continue
		}
		if mark < 0 {
			w.part()
			if w.layout.named {
				w.dst = append(append(w.dst, w.key...), '=')
			}
			mark = len(w.dst)
		} else {
			w.dst = append(w.dst, w.layout.delimiter...)
		}
		if walk.Name != nil {
			if err := w.item(walk.Name); err != nil {
				return err
			}
			w.dst = append(w.dst, w.layout.delimiter...)
		}
		if err := w.item(walk.Value); err != nil {
			return err
		}
	}
	if mark >= 0 {
		w.dropBareEquals(mark)
	}
	return w.ended(&walk)
}

// item writes one element of a list.
func (w *writer) item(value jsontext.Value) error {
	mark := len(w.dst)
	if err := w.piece(value, w.items); err != nil {
		return err
	}
	if reads := w.layout.reads; reads != 0 && hasDecoded(w.dst[mark:], reads) {
		return w.refuse(fmt.Sprintf("must not have %q inside an item: the API separates the items by it", reads))
	}
	return nil
}

// deep writes the elements of value as pairs named by their path: f[a][b]=1,
// f[a][0]=x. Array items get an index, since "[]" cannot separate the properties of
// two objects in one array. Servers that read brackets accept both forms.
func (w *writer) deep(prefix []byte, value jsontext.Value) error {
	index := 0
	walk := wire.Into(value)
	for walk.Next() {
		if walk.Value[0] == 'n' {
			continue
		}
		path := append(prefix, "%5B"...)
		if walk.Name == nil {
			path = strconv.AppendInt(path, int64(index), 10)
			index++
		} else {
			mark := len(path)
			var err error
			if path, err = w.text(path, walk.Name, w.names); err != nil {
				return err
			}
			if !isDeepName(path[mark:]) {
				return w.refuse("has a property whose name is empty or has a bracket, which cannot be sent")
			}
		}
		path = append(path, "%5D"...)
		if len(path) > w.maxLength {
			return w.tooLong()
		}
		if err := w.deepValue(path, walk.Value); err != nil {
			return err
		}
	}
	return w.ended(&walk)
}

func (w *writer) deepValue(path []byte, value jsontext.Value) error {
	if value[0] == '[' || value[0] == '{' {
		return w.deep(path, value)
	}
	w.part()
	return w.pair(path, value)
}

// isDeepName reports whether an escaped name can be written in brackets and read back
// as the same name.
func isDeepName(escaped []byte) bool {
	return len(escaped) > 0 &&
		!bytes.Contains(escaped, []byte("%5B")) && !bytes.Contains(escaped, []byte("%5D"))
}

// part writes the text before a part: the style's prefix, or the separator.
func (w *writer) part() {
	if w.parts++; w.parts == 1 {
		w.dst = append(w.dst, w.layout.first...)
		return
	}
	w.dst = append(w.dst, w.layout.between...)
}

// piece writes the text of one value between delimiters.
func (w *writer) piece(value jsontext.Value, e escape) error {
	dst, err := w.text(w.dst, value, e)
	if err != nil {
		return err
	}
	if w.dst = dst; len(dst)-w.start > w.maxLength {
		return w.tooLong()
	}
	return nil
}

// text appends the text of one value, checked and escaped: the content of a string, the
// literal of a number or boolean, or compact JSON for anything else.
func (s *Serializer) text(dst []byte, value jsontext.Value, e escape) ([]byte, error) {
	verbatim := s.content && s.json
	if text, ok := literal(value); ok && !verbatim {
		if s.in == Header {
			text = bytes.Trim(text, " ")
		}
		if problem := s.problemOf(text); problem != "" {
			return dst, s.refuse(problem)
		}
		return e.append(dst, text), nil
	}

	// Text that must be decoded is first decoded at the end of dst. The escaped form
	// is appended after it and then moved over the decoded text.
	mark := len(dst)
	var err error
	if value[0] == '"' && !verbatim {
		if dst, err = jsontext.AppendUnquote(dst, value); err != nil {
			return dst[:mark], s.malformed()
		}
	} else {
		dst = appendCompact(dst, value, s.in == Header)
	}
	text := dst[mark:]
	end := len(dst)
	if s.in == Header {
		text = bytes.Trim(text, " ")
	}
	if problem := s.problemOf(text); problem != "" {
		return dst[:mark], s.refuse(problem)
	}
	dst = e.append(dst, text)
	return dst[:mark+copy(dst[mark:], dst[end:])], nil
}

// literal returns the text of a value that needs no decoding.
func literal(value jsontext.Value) ([]byte, bool) {
	switch value[0] {
	case '[', '{':
		return nil, false
	case '"':
		if len(value) < 2 || value[len(value)-1] != '"' || bytes.IndexByte(value, '\\') >= 0 {
			return nil, false
		}
		return value[1 : len(value)-1], true
	}
	return value, true
}

func (w *writer) finish() error {
	if w.in != Path {
		return nil
	}
	return w.checkSegment(w.dst[w.start:])
}

func (w *writer) ended(walk *wire.Walk) error {
	if walk.Err() != nil {
		return w.malformed()
	}
	return nil
}

func (s *Serializer) malformed() error {
	return s.refuse("is not valid JSON")
}

func (s *Serializer) tooLong() error {
	return s.refuse("is too long: at most " + strconv.Itoa(s.maxLength) + " bytes can be sent, escapes included")
}

// appendCompact appends valid JSON without the space between tokens. Numbers, strings
// and the order of members stay unchanged. If ascii is set, non-ASCII characters become
// \u escapes, so that the text can be used in a header.
func appendCompact(dst []byte, value jsontext.Value, ascii bool) []byte {
	quoted := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case ascii && c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(value[i:])
			dst = appendUnicodeEscape(dst, r)
			i += size - 1
			continue
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\' && i+1 < len(value):
			dst = append(dst, c)
			i++
			c = value[i]
		}
		dst = append(dst, c)
	}
	return dst
}

func appendUnicodeEscape(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return appendUnicodeEscape(appendUnicodeEscape(dst, high), low)
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&0xf], hex[r>>8&0xf], hex[r>>4&0xf], hex[r&0xf])
}
