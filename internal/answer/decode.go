package answer

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// decode decodes the needed parts of valid JSON into the types of gojq. Elements and members that are
// counted but not needed become null.
func decode(body []byte, n *need) any {
	d := decoder{data: body, text: string(body)}
	return d.value(n)
}

// A decoder reads JSON that is known to be valid, in one pass.
type decoder struct {
	data []byte
	text string // data, so that strings can be parts of it
	at   int
}

// complete is the need of everything.
var complete = &need{all: true}

// value decodes the next value.
func (d *decoder) value(n *need) any {
	switch d.next() {
	case '{':
		return d.object(n)
	case '[':
		return d.array(n)
	case '"':
		return d.string()
	case 't':
		d.at += len("true")
		return true
	case 'f':
		d.at += len("false")
		return false
	case 'n':
		d.at += len("null")
		return nil
	}
	return d.number()
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
	d.at += wire.ValueLen(d.data[d.at:])
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

// array decodes an array.
func (d *decoder) array(n *need) any {
	items := []any{}
	each := n.items
	if n.all {
		each = complete
	}
	if each == nil && !n.names {
		d.skip()
		return items
	}
	d.at++
	for d.more() {
		if each == nil {
			d.skip()
			items = append(items, nil)
			continue
		}
		items = append(items, d.value(each))
	}
	return items
}

// object decodes an object.
func (d *decoder) object(n *need) any {
	if !n.all && !n.names && n.items == nil && len(n.fields) == 0 {
		d.skip()
		return map[string]any{}
	}
	members := make(map[string]any, len(n.fields))
	d.members(func(name string, _ []byte) {
		of := complete
		if !n.all {
			if of = n.fields[name]; of == nil {
				of = n.items
			}
		}
		switch {
		case of != nil:
			members[name] = d.value(of)
		case n.names:
			members[name] = nil
			fallthrough
		default:
			d.skip()
		}
	})
	return members
}

// string decodes a string.
func (d *decoder) string() string {
	start := d.at
	d.at += wire.ValueLen(d.data[start:])
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

// maxIntDigits is the number of characters of a number that certainly fits an int.
const maxIntDigits = 18

// number decodes a number. Integers become int. Other numbers are kept as they are written, so that
// they lose no digits.
func (d *decoder) number() any {
	start := d.at
	d.at += wire.ValueLen(d.data[start:])
	literal := d.text[start:d.at]
	if len(literal) <= maxIntDigits && literal != "-0" && !strings.ContainsAny(literal, ".eE") {
		if integer, err := strconv.Atoi(literal); err == nil {
			return integer
		}
	}
	return json.Number(literal)
}
