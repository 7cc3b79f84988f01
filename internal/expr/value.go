package expr

import (
	"math"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Adapter converts the values of variables to CEL values. It is a types.Adapter.
type Adapter struct{}

// NativeToValue implements types.Adapter.
func (a Adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case ref.Val:
		return v
	case *Node:
		return v.Force()
	case *Deferred:
		return v.Force()
	case string:
		if len(v) > MaxText {
			return types.WrapErr(ErrTextTooLong)
		}
		return types.String(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []string:
		if len(v) > MaxList {
			return types.WrapErr(ErrListTooLong)
		}
		return types.NewDynamicList(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case time.Time:
		return types.Timestamp{Time: v}
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// Deferred is a value that is built when an expression reads it. It must not be used
// concurrently.
type Deferred struct {
	Build func() any
	value ref.Val
}

// Force returns the value. The first call builds it.
func (d *Deferred) Force() ref.Val {
	if d.value == nil {
		d.value = Adapter{}.NativeToValue(d.Build())
	}
	return d.value
}

// A Node is a JSON value that has passed wire.Check. It is decoded when an expression reads it,
// one level at a time. It must not be used concurrently.
//
// Whole numbers become ints, other numbers doubles.
type Node struct {
	Raw jsontext.Value // without surrounding white space

	// Exact converts whole numbers that are too large for an int to texts of their digits.
	// Without it they become uints, or doubles of about the same value.
	Exact bool

	value ref.Val
}

// Force returns the value. The first call decodes it.
func (n *Node) Force() ref.Val {
	if n.value == nil {
		n.value = n.decode()
	}
	return n.value
}

// decode decodes one level of the value.
func (n *Node) decode() ref.Val {
	switch n.Raw.Kind() {
	case 't':
		return types.True
	case 'f':
		return types.False
	case '"':
		return decodeText(n.Raw)
	case '0':
		return decodeNumber(n.Raw, n.Exact)
	case '{':
		return decodeObject(n.Raw, n.Exact)
	case '[':
		return decodeArray(n.Raw, n.Exact)
	}
	return types.NullValue
}

// decodeText decodes a string.
func decodeText(raw jsontext.Value) ref.Val {
	if len(raw) > 6*MaxText+2 { // each byte may be escaped
		return types.WrapErr(ErrTextTooLong)
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return types.WrapErr(err)
	}
	return Adapter{}.NativeToValue(string(text))
}

// decodeNumber decodes a number.
func decodeNumber(raw jsontext.Value, exact bool) ref.Val {
	if whole, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return types.Int(whole)
	}
	if exact && isWhole(raw) {
		return Adapter{}.NativeToValue(string(raw))
	}
	if whole, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
		return types.Uint(whole)
	}
	number, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(number, 0) {
		return types.NewErr("the number is too large")
	}
	return types.Double(number)
}

// isWhole reports whether a number is written without a fraction and an exponent.
func isWhole(raw jsontext.Value) bool {
	for _, c := range raw {
		if c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// list is a JSON array that keeps its bytes.
type list struct {
	traits.Lister
	raw jsontext.Value
}

// decodeArray returns the array as a CEL value.
func decodeArray(raw jsontext.Value, exact bool) ref.Val {
	var nodes []Node
	for walk := wire.Into(raw); walk.Next(); {
		if len(nodes) == MaxList {
			return types.WrapErr(ErrListTooLong)
		}
		nodes = append(nodes, Node{Raw: walk.Value, Exact: exact})
	}
	items := make([]*Node, len(nodes))
	for i := range nodes {
		items[i] = &nodes[i]
	}
	return list{types.NewDynamicList(Adapter{}, items), raw}
}
