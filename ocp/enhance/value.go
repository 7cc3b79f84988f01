package enhance

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

// adapter makes CEL values of what the variables hold.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case *node:
		return v.look()
	case *deferred:
		return v.look()
	case string:
		if len(v) > maxText {
			return types.WrapErr(errTextTooLong)
		}
		return types.String(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []string:
		if len(v) > maxList {
			return types.WrapErr(errListTooLong)
		}
		return types.NewDynamicList(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case time.Time:
		return types.Timestamp{Time: v}
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// deferred is a value that is made when an expression looks at it.
type deferred struct {
	build func() any
	value ref.Val
}

func (d *deferred) look() ref.Val {
	if d.value == nil {
		d.value = adapter{}.NativeToValue(d.build())
	}
	return d.value
}

// A node is a checked JSON value. It is taken apart when an expression looks at
// it, one level at a time.
type node struct {
	raw   jsontext.Value
	value ref.Val
}

func (n *node) look() ref.Val {
	if n.value == nil {
		n.value = n.decode()
	}
	return n.value
}

func (n *node) decode() ref.Val {
	switch n.raw.Kind() {
	case 't':
		return types.True
	case 'f':
		return types.False
	case '"':
		return decodeText(n.raw)
	case '0':
		return decodeNumber(n.raw)
	case '{':
		return decodeObject(n.raw)
	case '[':
		return decodeArray(n.raw)
	}
	return types.NullValue
}

func decodeText(raw jsontext.Value) ref.Val {
	if len(raw) > 6*maxText+2 { // each byte may be escaped
		return types.WrapErr(errTextTooLong)
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return types.WrapErr(err)
	}
	return adapter{}.NativeToValue(string(text))
}

// decodeNumber makes whole numbers ints, or uints if they are too large for
// that, and others doubles.
func decodeNumber(raw jsontext.Value) ref.Val {
	if whole, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return types.Int(whole)
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

// list is a JSON array that remembers its bytes.
type list struct {
	traits.Lister
	raw jsontext.Value
}

func decodeArray(raw jsontext.Value) ref.Val {
	var nodes []node
	for walk := wire.Into(raw); walk.Next(); {
		if len(nodes) == maxList {
			return types.WrapErr(errListTooLong)
		}
		nodes = append(nodes, node{raw: walk.Value})
	}
	items := make([]*node, len(nodes))
	for i := range nodes {
		items[i] = &nodes[i]
	}
	return list{types.NewDynamicList(adapter{}, items), raw}
}
