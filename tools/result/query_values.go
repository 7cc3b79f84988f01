package result

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Most of the time of a query goes into allocating the values that the interpreter needs. A builder therefore
// reuses small maps, allocates the strings of many values together, and allocates arrays with their final size.

const (
	// smallMap is the number of members up to which a map has a fixed size.
	smallMap = 8

	// maxKeptMaps is how many maps a builder keeps for the next body: about 1.4 MB.
	maxKeptMaps = 4096

	// textsTogether is the number of strings that are allocated together.
	textsTogether = 64
)

// A builder decodes valid JSON into the types of gojq. Its zero value is ready for use. It can be used for
// several bodies, one after the other.
type builder struct {
	decoder
	free  []map[string]any // empty maps of at most smallMap members
	used  []map[string]any // the maps that the values of the current body have of them
	items []any            // of the arrays that are being decoded
	texts []string         // allocated, and not used yet
}

// build decodes a body. The interpreter does not change the values. They share the memory of the body, and
// release ends their use.
func (b *builder) build(body []byte) any {
	b.decoder = decoder{data: body, text: textOf(body)}
	return b.value()
}

// textOf returns a body as a text that shares its memory. Copy each part of it that outlives the body.
func textOf(body []byte) string {
	return unsafe.String(unsafe.SliceData(body), len(body)) //nolint:gosec // the caller keeps the body unchanged
}

// release makes the maps of the last body available for the next one.
func (b *builder) release() {
	for _, m := range b.used {
		if len(m) <= smallMap && len(b.free) < maxKeptMaps {
			clear(m)
			b.free = append(b.free, m)
		}
	}
	b.used, b.items = emptied(b.used), emptied(b.items)
	b.texts, b.decoder = nil, decoder{}
}

// emptied returns a list without its elements. It drops a large one.
func emptied[T any](list []T) []T {
	if cap(list) > maxKeptMaps {
		return nil
	}
	clear(list[:cap(list)])
	return list[:0]
}

// value decodes the next value.
func (b *builder) value() any {
	switch b.next() {
	case '{':
		return b.object()
	case '[':
		return b.array()
	case '"':
		return b.box(b.string())
	case 't':
		b.at += len("true")
		return true
	case 'f':
		b.at += len("false")
		return false
	case 'n':
		b.at += len("null")
		return nil
	}
	return b.number()
}

func (b *builder) object() any {
	var members map[string]any
	if last := len(b.free) - 1; last >= 0 {
		members, b.free = b.free[last], b.free[:last]
	} else {
		members = make(map[string]any)
	}
	b.used = append(b.used, members)
	b.at++
	for b.more() {
		b.next()
		name := b.string()
		b.next()
		b.at++ // the colon
		members[name] = b.value()
	}
	return members
}

func (b *builder) array() any {
	start := len(b.items)
	b.at++
	for b.more() {
		b.items = append(b.items, b.value())
	}
	items := slices.Clip(append([]any{}, b.items[start:]...))
	b.items = b.items[:start]
	return items
}

// maxIntDigits is the number of characters of a number that certainly fits an int.
const maxIntDigits = 18

// number decodes a number. Integers become int. Other numbers are kept as they are written, so that
// they lose no digits.
func (b *builder) number() any {
	start := b.at
	b.skip()
	literal := b.text[start:b.at]
	if len(literal) <= maxIntDigits && literal != "-0" && !strings.ContainsAny(literal, ".eE") {
		if integer, err := strconv.Atoi(literal); err == nil {
			return integer
		}
	}
	return json.Number(literal)
}

// An emptyInterface is what an interface value without methods consists of.
type emptyInterface struct{ of, value unsafe.Pointer }

// stringType is the type of a string in an emptyInterface.
var stringType = func() unsafe.Pointer {
	var text any = "text"
	return (*emptyInterface)(unsafe.Pointer(&text)).of //nolint:gosec // see emptyInterface
}()

// box returns a string as an interface value. The Go compiler would allocate each of them alone.
func (b *builder) box(text string) (value any) {
	if len(b.texts) == 0 {
		b.texts = make([]string, textsTogether)
	}
	place := &b.texts[0]
	b.texts = b.texts[1:]
	*place = text
	*(*emptyInterface)(unsafe.Pointer(&value)) = emptyInterface{stringType, unsafe.Pointer(place)} //nolint:gosec // see emptyInterface
	return value
}
