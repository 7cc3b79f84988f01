package result

import (
	"cmp"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// An encoder appends values as compact JSON. Because values may share parts, a small value can have a very
// large encoding.
type encoder struct {
	dst     []byte
	limit   int // largest length of dst
	members []member
}

// A member is a member of an object that is being encoded.
type member struct {
	name  string
	value any
}

// value appends a value. It returns false if the encoding exceeds the limit, or if it is nested too deeply.
func (e *encoder) value(value any, nesting int) bool {
	if len(e.dst) > e.limit || nesting == 0 {
		return false
	}
	switch v := value.(type) {
	case nil:
		e.dst = append(e.dst, "null"...)
	case bool:
		e.dst = strconv.AppendBool(e.dst, v)
	case int:
		e.dst = strconv.AppendInt(e.dst, int64(v), 10)
	case string:
		e.dst = strictjson.AppendString(e.dst, v)
	case json.Number:
		e.dst = append(e.dst, v...)
	case []any:
		return e.array(v, nesting-1)
	case map[string]any:
		return e.object(v, nesting-1)
	case *big.Int:
		return sizeOf(v, 1) <= maxCallWork && e.rare(v)
	default:
		return e.rare(v)
	}
	return len(e.dst) <= e.limit
}

func (e *encoder) array(items []any, nesting int) bool {
	e.dst = append(e.dst, '[')
	for _, item := range items {
		e.dst = strictjson.Comma(e.dst)
		if !e.value(item, nesting) {
			return false
		}
	}
	e.dst = append(e.dst, ']')
	return true
}

// object appends an object. Its members are in the order of their names.
func (e *encoder) object(object map[string]any, nesting int) bool {
	start := len(e.members)
	for name, value := range object {
		e.members = append(e.members, member{name, value})
	}
	end := len(e.members)
	slices.SortFunc(e.members[start:end], func(a, b member) int { return cmp.Compare(a.name, b.name) })
	e.dst = append(e.dst, '{')
	for i := start; i < end; i++ {
		e.dst = strictjson.Comma(e.dst)
		m := e.members[i]
		e.dst = append(strictjson.AppendString(e.dst, m.name), ':')
		if !e.value(m.value, nesting) {
			return false
		}
	}
	e.members = e.members[:start]
	e.dst = append(e.dst, '}')
	return true
}

// rare appends a number that is not common, as jq writes it.
func (e *encoder) rare(value any) bool {
	encoded, err := gojq.Marshal(value)
	if err != nil {
		encoded = []byte("null")
	}
	e.dst = append(e.dst, encoded...)
	return len(e.dst) <= e.limit
}
