package engagement

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// States and entries are stored in a compact binary form, because each call writes two of
// each: a version, and then fields. A field is a tag and a value. Fields with the zero value
// are omitted. A value is a varint, or text that is preceded by its length as a uvarint.
//
// The method fields of a type lists its fields once, for both directions: it passes each to a
// codec, which appends it or, if it is the next field of the encoding, reads it.
//
// Tags must not be reused. A reader rejects unknown tags.

// encodingVersion is the first byte of a state or an entry.
const encodingVersion = 1

// errEncoding means that a state or an entry in the store is damaged, or was written by a
// later version.
var errEncoding = errors.New("the encoding is damaged or of a later version")

// codec appends fields, or reads them.
type codec struct {
	to      encoder
	from    decoder
	reading bool
	tag     byte // when reading: the tag of the next field; 0 at the end and after an error
	rest    int  // when reading: bytes that were unread before the last pass over the fields
}

// appending returns a codec that appends to dst.
func appending(dst []byte) codec {
	return codec{to: encoder{append(dst, encodingVersion)}}
}

// reading returns a codec that reads an encoding:
//
//	for c := reading(data); c.more(); { x.fields(&c) }
//
// One pass is enough if the encoding has the fields in that order.
func reading(data []byte) codec {
	c := codec{from: newDecoder(data), reading: true, rest: -1}
	c.next()
	return c
}

// more reports whether there are fields to read. It fails if the last pass has read none, because
// their tag is unknown.
func (c *codec) more() bool {
	if c.tag != 0 && len(c.from.b) == c.rest {
		c.from.fail()
	}
	c.rest = len(c.from.b)
	return c.tag != 0 && c.from.err == nil
}

// next reads the next tag.
func (c *codec) next() {
	tag, ok := c.from.next()
	if ok && tag == 0 {
		c.from.fail()
	}
	c.tag = tag
}

func integer[T int | int64 | uint64](c *codec, tag byte, n *T) {
	switch {
	case !c.reading:
		c.to.number(tag, int64(*n))
	case c.tag == tag:
		*n = T(c.from.number())
		c.next()
	}
}

// since is integer for a time that is written relative to base. What it reads is relative.
func since(c *codec, tag byte, n *int64, base int64) {
	if c.reading {
		base = 0
	}
	relative := *n - base
	integer(c, tag, &relative)
	*n = relative + base
}

func text[T ~string](c *codec, tag byte, t *T) {
	switch {
	case !c.reading:
		c.to.text(tag, string(*t))
	case c.tag == tag:
		*t = T(c.from.text())
		c.next()
	}
}

// asJSON is for a list that is encoded as JSON.
func asJSON[T any](c *codec, tag byte, list *[]T) {
	switch {
	case !c.reading && len(*list) > 0:
		encoded, _ := json.Marshal(*list)
		c.to.bytes(tag, encoded)
	case c.reading && c.tag == tag:
		if json.Unmarshal(c.from.bytes(), list) != nil {
			c.from.fail()
		}
		c.next()
	}
}

// alias is for a text that refers to the bytes of the encoding afterwards, in both directions.
func (c *codec) alias(tag byte, t *jsontext.Value) {
	switch {
	case !c.reading:
		*t = c.to.bytes(tag, *t)
	case c.tag == tag:
		*t = c.from.bytes()
		c.next()
	}
}

// encoder appends fields.
type encoder struct{ b []byte }

func (e *encoder) number(tag byte, n int64) {
	if n != 0 {
		e.b = binary.AppendVarint(append(e.b, tag), n)
	}
}

// text appends a text. Texts become part of JSON later, so invalid UTF-8 is replaced.
func (e *encoder) text(tag byte, text string) {
	if text != "" {
		if !utf8.ValidString(text) {
			text = strings.ToValidUTF8(text, "\ufffd")
		}
		e.b = binary.AppendUvarint(append(e.b, tag), uint64(len(text)))
		e.b = append(e.b, text...)
	}
}

// bytes appends a text and returns where it is in the encoding.
func (e *encoder) bytes(tag byte, text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	e.b = binary.AppendUvarint(append(e.b, tag), uint64(len(text)))
	start := len(e.b)
	e.b = append(e.b, text...)
	return e.b[start:len(e.b):len(e.b)]
}

// decoder reads fields. After an error, its methods return zero values.
type decoder struct {
	b   []byte
	err error
}

// newDecoder reads the version.
func newDecoder(b []byte) decoder {
	if len(b) == 0 || b[0] != encodingVersion {
		return decoder{err: errEncoding}
	}
	return decoder{b: b[1:]}
}

// next returns the tag of the next field. ok is false at the end and after an error.
func (d *decoder) next() (tag byte, ok bool) {
	if d.err != nil || len(d.b) == 0 {
		return 0, false
	}
	tag = d.b[0]
	d.b = d.b[1:]
	return tag, true
}

func (d *decoder) fail() {
	d.b, d.err = nil, errEncoding
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

// bytes returns a text, which aliases the input.
func (d *decoder) bytes() []byte {
	length, size := binary.Uvarint(d.b)
	if size <= 0 || length > uint64(len(d.b)-size) {
		d.fail()
		return nil
	}
	text := d.b[size : size+int(length) : size+int(length)] //nolint:gosec // at most the length of the input
	d.b = d.b[size+int(length):]                            //nolint:gosec // as above
	return text
}

func (d *decoder) text() string { return string(d.bytes()) }
