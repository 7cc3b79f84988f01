package engagement

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"
)

// States and entries are stored in a compact binary form, because each call writes two of
// each: a version, and then fields. A field is a tag and a value. Fields with the zero value
// are left out. A value is a varint, or text with its length before it as a uvarint.
//
// Tags must not be reused. A reader rejects unknown tags.

// encodingVersion is the first byte of a state or an entry.
const encodingVersion = 1

// errEncoding means that a state or an entry in the store is damaged, or was written by a
// later version.
var errEncoding = errors.New("not in a known form")

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
func newDecoder(b []byte) *decoder {
	if len(b) == 0 || b[0] != encodingVersion {
		return &decoder{err: errEncoding}
	}
	return &decoder{b: b[1:]}
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
