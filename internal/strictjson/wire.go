// Package strictjson reads and writes the JSON of messages.
//
// Reading is strict: names of members are case-sensitive, an object must not have a name twice,
// and text must be valid UTF-8. A gateway that makes decisions based on a message must not
// interpret it differently from the next reader.
//
// A message takes this path: Check or Split validates it in one pass and limits its nesting. A
// Walk (walk.go) then steps through its values without decoding them. Decode and Unmarshal
// convert the parts that the program needs as Go values. Writing (append.go) appends to a byte
// slice. JSON that is already encoded is passed on unchanged.
package strictjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth limits the nesting of arrays and objects in a message.
const MaxDepth = 64

// ErrTooDeep reports a message that nests deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("JSON nests deeper than %d levels", MaxDepth)

// ErrNotObject reports a message that is not a JSON object.
var ErrNotObject = errors.New("not a JSON object")

// Member is a member of a JSON object.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Unmarshal strictly decodes one JSON value into v. v points to a struct; its fields of type
// jsontext.Value receive the original bytes.
func Unmarshal(data []byte, v any) error {
	if err := CheckDepth(data, MaxDepth); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Members splits a strict JSON object into its members and appends them to dst. The values
// point into data.
func Members(dst []Member, data []byte) ([]Member, error) {
	if walk := Into(data); walk.closing == '}' && isStrict(data, MaxDepth, true) {
		for walk.Next() {
			dst = append(dst, Member{Name: string(walk.Key()), Value: walk.Value})
		}
		return dst, nil
	}
	// The reader is slower, and says what is wrong.
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

// Split calls member for each member of a JSON object. In the same pass it makes the checks of
// Valid, except for the nesting. The name is quoted as in data, and both arguments point into
// data. If data is JSON but not an object, the error is ErrNotObject. Split may have called
// member before it returns an error.
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

// Decode strictly decodes one JSON value into nil, bool, string, json.Number, []any and
// map[string]any, the types that the JSON Schema and CEL libraries use.
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

// Unambiguous reports whether data is Valid and no object in it has a name twice. Readers
// differ in which of two equal names they use. Unambiguous is as fast as Valid.
func Unambiguous(data []byte) bool {
	return isStrict(data, maxPassedDepth, true)
}

// maxPassedDepth limits the nesting of JSON that is passed on without being read.
const maxPassedDepth = 1000

// CheckDepth returns an error if data nests deeper than limit. It only counts brackets outside
// strings, so data need not be valid JSON.
func CheckDepth(data []byte, limit int) error {
	// Most messages have so few brackets that the limit cannot be exceeded, and counting them
	// is many times faster than matching them.
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= limit {
		return nil
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			n := stringLen(data[i:])
			if n == 0 {
				return nil // the rest is an unterminated string
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

// KindName returns the kind of a JSON value for a message, such as "an object".
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
