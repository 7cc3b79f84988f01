package request

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// exploded writes each item or property as a separate part.
func (w *writer) exploded(value jsontext.Value) error {
	walk := strictjson.Into(value)
	for walk.Next() {
		if walk.Value[0] == 'n' {
			continue
		}
		if walk.Name != nil && walk.Value[0] == '[' && w.param.layout.repeats() {
			if err := w.repeated(walk.Name, walk.Value); err != nil {
				return err
			}
			continue
		}
		w.part()
		if err := w.explodedPart(walk.Name, walk.Value); err != nil {
			return err
		}
	}
	return w.ended(&walk)
}

// repeated writes an array that is a property of an exploded object as one pair for each item.
func (w *writer) repeated(name, value jsontext.Value) error {
	walk := strictjson.Into(value)
	for walk.Next() {
		if walk.Value[0] == 'n' {
			continue
		}
		w.part()
		if err := w.property(name, walk.Value); err != nil {
			return err
		}
	}
	return w.ended(&walk)
}

func (w *writer) explodedPart(name, value jsontext.Value) error {
	switch {
	case name != nil:
		return w.property(name, value)
	case w.param.layout.named:
		return w.pair(w.param.key, value)
	}
	return w.piece(value, w.param.items)
}

// property writes name=value for a property of an exploded object.
func (w *writer) property(name, value jsontext.Value) error {
	if other := w.param.anothersName(name); other != "" {
		return w.param.refuse(fmt.Sprintf("has a property %s, which the API would read as the argument %q: give it there", name, other))
	}
	mark := len(w.dst)
	if err := w.piece(name, w.param.names); err != nil {
		return err
	}
	if w.param.in == Cookie && len(w.dst) == mark {
		return w.param.refuse("has a property with an empty name, which no cookie can have")
	}
	values := w.param.values
	if !w.param.layout.named {
		values = w.param.items // the properties are joined like a list
	}
	return w.equals(value, values)
}

// list writes the items of an array, or the names and values of an object, as one
// delimited value.
func (w *writer) list(value jsontext.Value) error {
	mark := -1
	walk := strictjson.Into(value)
	for walk.Next() {
		if walk.Value[0] == 'n' {
			continue
		}
		if mark < 0 {
			w.part()
			if w.param.layout.named {
				w.dst = append(append(w.dst, w.param.key...), '=')
			}
			mark = len(w.dst)
		} else {
			w.dst = append(w.dst, w.param.layout.delimiter...)
		}
		if walk.Name != nil {
			if err := w.item(walk.Name); err != nil {
				return err
			}
			w.dst = append(w.dst, w.param.layout.delimiter...)
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
	if err := w.piece(value, w.param.items); err != nil {
		return err
	}
	if reads := w.param.layout.reads; reads != 0 && hasDecoded(w.dst[mark:], reads) {
		return w.param.refuse(fmt.Sprintf("must not have %q inside an item: the API separates the items by it", reads))
	}
	return nil
}

// deep writes the elements of value as pairs named by their path: f[a][b]=1,
// f[a][0]=x. Array items get an index, since "[]" cannot separate the properties of
// two objects in one array. Servers that read brackets accept both forms.
func (w *writer) deep(prefix []byte, value jsontext.Value) error {
	index := 0
	walk := strictjson.Into(value)
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
			if path, err = w.param.text(path, walk.Name, w.param.names); err != nil {
				return err
			}
			if !isDeepName(path[mark:]) {
				return w.param.refuse("has a property whose name is empty or has a bracket, which cannot be sent")
			}
		}
		path = append(path, "%5D"...)
		if len(path) > w.param.maxLength {
			return w.param.tooLong()
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

func (w *writer) ended(walk *strictjson.Walk) error {
	if walk.Err() != nil {
		return w.param.malformed()
	}
	return nil
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
