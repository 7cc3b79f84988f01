package strictjson

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Text returns the value of a JSON string, or "" for any other JSON value.
func Text(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(unquoted)
}

// MemberOf returns a member of a JSON object that Check has accepted. It returns nil if the member
// is absent or if the value is not an object.
func MemberOf(object jsontext.Value, name string) jsontext.Value {
	if object.Kind() != '{' {
		return nil
	}
	for walk := Into(object); walk.Next(); {
		if walk.Is(name) {
			return walk.Value
		}
	}
	return nil
}

// HasMember reports whether a JSON object has a member other than null.
func HasMember(object jsontext.Value, name string) bool {
	for walk := Into(object); walk.Next(); {
		if walk.Is(name) {
			return walk.Value.Kind() != 'n'
		}
	}
	return false
}

// AllStrings reports whether a value is an array of strings.
func AllStrings(list jsontext.Value) bool {
	if list.Kind() != '[' {
		return false
	}
	for walk := Into(list); walk.Next(); {
		if walk.Value.Kind() != '"' {
			return false
		}
	}
	return true
}

// AppendWithout appends the elements of an array, or the members of an object, for which out
// returns false. The caller writes the brackets.
func AppendWithout(dst []byte, value jsontext.Value, out func(*Walk) bool) []byte {
	first := true
	for walk := Into(value); walk.Next(); {
		if out(&walk) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if walk.Name != nil {
			dst = append(append(dst, walk.Name...), ':')
		}
		dst = append(dst, walk.Value...)
	}
	return dst
}

// Boolean returns a boolean as JSON.
func Boolean(value bool) []byte {
	if value {
		return []byte("true")
	}
	return []byte("false")
}

// ObjectBuilder builds a JSON object one member at a time. Close adds the closing brace.
type ObjectBuilder []byte

// Add adds a member. The caller must not add a name twice.
func (o *ObjectBuilder) Add(name string, value []byte) {
	separator := byte(',')
	if len(*o) == 0 {
		separator = '{'
	}
	*o = append(append(AppendString(append(*o, separator), name), ':'), value...)
}

// Close returns the object, {} if it has no members. It does not change o.
func (o ObjectBuilder) Close() []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	return append(slices.Clone(o), '}')
}
