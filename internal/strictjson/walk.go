package strictjson

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrMalformed reports that bytes given to a Walk are not valid JSON.
var ErrMalformed = errors.New("malformed JSON")

// A Walk iterates over the elements of an array or the members of an object. The JSON must have
// been checked (see Check). A Walk decodes nothing and allocates nothing:
//
//	for walk := strictjson.Into(value); walk.Next(); {
//		use(walk.Name, walk.Value)
//	}
//
// If the bytes are not JSON, the walk stops early and Err returns ErrMalformed.
type Walk struct {
	Name  jsontext.Value // name of a member, still quoted; nil in an array
	Value jsontext.Value // without surrounding white space

	rest    []byte // after the opening bracket or the last element
	closing byte
	first   bool
	err     error
}

// Into starts a walk through value. If value is neither an array nor an object, the walk has no
// elements.
func Into(value jsontext.Value) Walk {
	w := Walk{rest: skipSpace(value), first: true}
	if len(w.rest) == 0 {
		return w
	}
	switch w.rest[0] {
	case '[':
		w.closing = ']'
	case '{':
		w.closing = '}'
	default:
		return w
	}
	w.rest = w.rest[1:]
	return w
}

// Next advances to the next element. It reports whether there is one.
func (w *Walk) Next() bool {
	if w.closing == 0 || w.err != nil {
		return false
	}
	w.rest = skipSpace(w.rest)
	if len(w.rest) > 0 && w.rest[0] == w.closing {
		w.closing = 0
		return false
	}
	if !w.first && !w.skip(',') {
		return false
	}
	w.first = false
	if w.closing == '}' && (!w.take(&w.Name) || !w.skip(':')) {
		return false
	}
	return w.take(&w.Value)
}

// Is reports whether the current member has that name, even if the name is escaped.
func (w *Walk) Is(name string) bool {
	if len(w.Name) == len(name)+2 {
		return string(w.Name[1:len(w.Name)-1]) == name
	}
	if bytes.IndexByte(w.Name, '\\') < 0 {
		return false
	}
	unquoted, err := jsontext.AppendUnquote(nil, w.Name)
	return err == nil && string(unquoted) == name
}

// Key returns the name of the current member without quotes and escapes. Without escapes, it is a
// part of the JSON.
func (w *Walk) Key() []byte {
	if bytes.IndexByte(w.Name, '\\') < 0 {
		return w.Name[1 : len(w.Name)-1]
	}
	unquoted, err := jsontext.AppendUnquote(nil, w.Name)
	if err != nil {
		return nil
	}
	return unquoted
}

// Err returns ErrMalformed if the walk ended early because the bytes are not JSON.
func (w *Walk) Err() error {
	return w.err
}

// skip skips white space and the delimiter c.
func (w *Walk) skip(c byte) bool {
	w.rest = skipSpace(w.rest)
	if len(w.rest) == 0 || w.rest[0] != c {
		w.err = ErrMalformed
		return false
	}
	w.rest = w.rest[1:]
	return true
}

// take removes the next value from the rest.
func (w *Walk) take(v *jsontext.Value) bool {
	w.rest = skipSpace(w.rest)
	n := ValueLen(w.rest)
	if n == 0 {
		w.err = ErrMalformed
		return false
	}
	*v, w.rest = jsontext.Value(w.rest[:n:n]), w.rest[n:]
	return true
}

// ValueLen returns the length of the JSON value at the beginning of b, which must not begin with
// white space. It returns 0 if there is no complete value. It finds the end of the value and checks
// nothing else.
func ValueLen(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		return stringLen(b)
	case '{', '[':
		return bracketedLen(b)
	}
	for i, c := range b {
		switch c {
		case ',', ':', ']', '}', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return len(b)
}

// stringLen returns the length of the JSON string at the beginning of b, including the quotes.
func stringLen(b []byte) int {
	const short = 16 // bytes to check one by one, which is faster for short strings
	for i := 1; i < min(len(b), short); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			return longStringLen(b)
		}
	}
	return longStringLen(b)
}

// longStringLen is stringLen for strings that are long or have escapes.
func longStringLen(b []byte) int {
	quote := 0 // position of the next quote; searched once, because a string may consist of escapes
	for i := 1; i < len(b); {
		if quote < i {
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				return 0
			}
			quote = i + n
		}
		backslash := bytes.IndexByte(b[i:quote], '\\')
		if backslash < 0 {
			return quote + 1
		}
		i += backslash + 2
	}
	return 0
}

// bracketedLen returns the length of the array or object at the beginning of b.
func bracketedLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringLen(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// skipSpace returns b without leading white space.
func skipSpace(b []byte) []byte {
	if len(b) > 0 && b[0] > ' ' { // the common case, short enough to be inlined
		return b
	}
	return skipSpaces(b)
}

// skipSpaces is skipSpace for a b that may begin with white space.
func skipSpaces(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// Object is Check for a JSON object. It returns a Walk through the members.
func Object(data []byte) (Walk, error) {
	walk := Into(data)
	if walk.closing == '}' && isStrict(data, MaxDepth, true) {
		return walk, nil
	}
	_, err := Members(nil, data)
	if err == nil {
		err = ErrMalformed
	}
	return Walk{}, err
}
