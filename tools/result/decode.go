package result

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Memory of decoded JSON in bytes: at most this for each object, each member and each element.
const (
	objectMemory  = 360
	memberMemory  = 64
	elementMemory = 32
)

// decodedMemory estimates the memory of decoded JSON from its punctuation. Punctuation in strings counts,
// too.
func decodedMemory(body []byte) int64 {
	objects, members, elements := bytes.Count(body, []byte("{")), bytes.Count(body, []byte(":")), bytes.Count(body, []byte(","))
	return int64(len(body) + min(objects, members)*objectMemory + (objects+members)*memberMemory + elements*elementMemory)
}

// A decoder reads JSON that is known to be valid, in one pass.
type decoder struct {
	data []byte
	text string // data, so that strings can be parts of it
	at   int
}

// next skips white space and returns the byte that follows.
func (d *decoder) next() byte {
	for d.data[d.at] <= ' ' {
		d.at++
	}
	return d.data[d.at]
}

// skip skips the next value.
func (d *decoder) skip() {
	d.next()
	d.at += strictjson.ValueLen(d.data[d.at:])
}

// more reports whether the container has another element. It skips the delimiter.
func (d *decoder) more() bool {
	switch d.next() {
	case ',':
		d.at++
	case ']', '}':
		d.at++
		return false
	}
	return true
}

// string decodes a string.
func (d *decoder) string() string {
	start := d.at
	d.at += strictjson.ValueLen(d.data[start:])
	inner := d.text[start+1 : d.at-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	unquoted, err := jsontext.AppendUnquote(nil, d.data[start:d.at])
	if err != nil {
		return inner
	}
	return string(unquoted)
}
