// Package wire reads and writes JSON as it crosses the network.
//
// Reading is strict: names match exactly, an object has each name once, text is
// valid UTF-8. A gateway that decides on what a message says must not read it
// differently from whoever reads it next. Writing appends to a byte slice, and
// JSON that is already encoded is passed on as it came.
package wire

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deeply arrays and objects may nest in a message.
const MaxDepth = 64

// ErrTooDeep reports a message that nests deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("JSON nests deeper than %d levels", MaxDepth)

// ErrNotObject reports a message that should be a JSON object and is not.
var ErrNotObject = errors.New("not a JSON object")

// Member is one name and value of a JSON object, in the order of the object.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Unmarshal decodes one strict JSON value into v, a pointer to a struct whose
// fields are jsontext.Value where the bytes are wanted as they came.
func Unmarshal(data []byte, v any) error {
	if err := CheckDepth(data, MaxDepth); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Check returns an error unless data is one strict JSON value that nests no
// deeper than MaxDepth. What it lets through can be taken apart with a Walk.
func Check(data []byte) error {
	if err := CheckDepth(data, MaxDepth); err != nil {
		return err
	}
	r := newReader(data)
	defer r.free()
	if _, err := r.ReadValue(); err != nil {
		return err
	}
	return r.expectEnd()
}

// Members splits a strict JSON object into its members, appending them to dst.
// The values point into data.
func Members(dst []Member, data []byte) ([]Member, error) {
	if err := CheckDepth(data, MaxDepth); err != nil {
		return dst, err
	}
	r := newReader(data)
	defer r.free()
	opening, err := r.ReadToken()
	if err != nil {
		return dst, err
	}
	if opening.Kind() != '{' {
		return dst, ErrNotObject
	}
	for r.PeekKind() != '}' {
		name, err := r.ReadToken()
		if err != nil {
			return dst, err
		}
		key := name.String()
		value, err := r.ReadValue()
		if err != nil {
			return dst, err
		}
		end := int(r.InputOffset())
		dst = append(dst, Member{Name: key, Value: data[end-len(value) : end : end]})
	}
	if _, err := r.ReadToken(); err != nil {
		return dst, err
	}
	return dst, r.expectEnd()
}

// Split calls member with each member of a JSON object, in one pass that finds
// what Valid finds, but for the nesting. The name is in quotes as it came; both
// point into data. It may have called member before it returns an error, which is
// ErrNotObject if data is JSON of another kind.
func Split(data []byte, member func(name, value jsontext.Value)) error {
	r := newReader(data, jsontext.AllowDuplicateNames(true))
	defer r.free()
	if r.PeekKind() != '{' {
		if _, err := r.ReadValue(); err != nil {
			return err
		}
		if err := r.expectEnd(); err != nil {
			return err
		}
		return ErrNotObject
	}
	if _, err := r.ReadToken(); err != nil {
		return err
	}
	for r.PeekKind() != '}' {
		name, err := r.cut(data)
		if err != nil {
			return err
		}
		value, err := r.cut(data)
		if err != nil {
			return err
		}
		member(name, value)
	}
	if _, err := r.ReadToken(); err != nil {
		return err
	}
	return r.expectEnd()
}

// Decode decodes one strict JSON value into nil, bool, string, json.Number,
// []any and map[string]any: the form in which JSON Schema and CEL read it.
func Decode(value jsontext.Value) (any, error) {
	switch value.Kind() {
	case 'n':
		return nil, nil
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case '0':
		return stdjson.Number(value), nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err
	}
	if err := CheckDepth(value, MaxDepth); err != nil {
		return nil, err
	}
	r := newReader(value)
	defer r.free()
	decoded, err := r.decode()
	if err != nil {
		return nil, err
	}
	return decoded, r.expectEnd()
}

// Valid reports whether data is one JSON value in valid UTF-8. It tolerates a
// name that an object has twice: it is for answers that are passed on, not
// decided on.
func Valid(data []byte) bool {
	return CheckDepth(data, maxPassedDepth) == nil &&
		jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true))
}

// Unambiguous reports whether data is Valid and no object in it has a name twice, of
// which readers take the one or the other. It takes no longer than Valid.
func Unambiguous(data []byte) bool {
	return CheckDepth(data, maxPassedDepth) == nil && jsontext.Value(data).IsValid()
}

// maxPassedDepth bounds the nesting of JSON that is passed on unread.
const maxPassedDepth = 1000

// CheckDepth returns an error if data nests deeper than limit. It looks at
// brackets outside strings only, and so may be asked before data is known to be
// JSON at all.
func CheckDepth(data []byte, limit int) error {
	// Most messages have so few brackets that they need not be matched up, and
	// counting is many times faster.
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= limit {
		return nil
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			n := stringLen(data[i:])
			if n == 0 {
				return nil // the rest is a string without an end
			}
			i += n - 1
		case '{', '[':
			if depth++; depth > limit {
				return fmt.Errorf("%w at byte %d", ErrTooDeep, i)
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// KindName names the kind of a JSON value for a message: "an object".
func KindName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "nothing"
}
