package celenv

import (
	"bytes"
	"math"
	"reflect"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
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
		if len(v) > maxText {
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

// A Node is a JSON value that has passed strictjson.Check. It is decoded when an expression reads it,
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
	if len(raw) > 6*maxText+2 { // each byte may be escaped
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
	return !bytes.ContainsAny(raw, ".eE")
}

// list is a JSON array that keeps its bytes.
type list struct {
	traits.Lister
	raw jsontext.Value
}

// decodeArray returns the array as a CEL value.
func decodeArray(raw jsontext.Value, exact bool) ref.Val {
	var nodes []Node
	for walk := strictjson.Into(raw); walk.Next(); {
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

// indexFrom is the number of members up to which an object is searched without an index.
const indexFrom = 16

// An Object is a JSON object as a CEL map (traits.Mapper). It keeps its bytes, and decodes the
// members that an expression reads.
type Object struct {
	raw     jsontext.Value
	exact   bool
	first   member           // the first member that was read, while it is the only one
	members []member         // nil until further members are read
	index   map[string]*Node // index of the members if there are many, built when first needed
	whole   traits.Mapper    // see full
}

// member is a name, still quoted, and its value.
type member struct {
	name  jsontext.Value
	value Node
}

// smallObject is a size in bytes below which an object cannot have more than MaxList members.
const smallObject = 5 * MaxList // the shortest member is "":0,

// decodeObject returns the object as a CEL value.
func decodeObject(raw jsontext.Value, exact bool) ref.Val {
	o := &Object{raw: raw, exact: exact}
	if len(raw) > smallObject && len(o.all()) > MaxList {
		return types.WrapErr(ErrListTooLong)
	}
	return o
}

// all returns the members, at most one more than MaxList.
func (o *Object) all() []member {
	if o.members == nil {
		const few = 8
		o.members = make([]member, 0, few)
		for walk := strictjson.Into(o.raw); len(o.members) <= MaxList && walk.Next(); {
			o.members = append(o.members, member{walk.Name, Node{Raw: walk.Value, Exact: o.exact}})
		}
	}
	return o.members
}

// Has reports whether the object has a member with that name.
func (o *Object) Has(name string) bool {
	return o.find(name) != nil
}

// find returns the value of a member. It returns nil if there is none.
func (o *Object) find(name string) *Node {
	if o.members == nil {
		if o.first.name == nil {
			return o.findFirst(name)
		}
		if o.first.is(name) {
			return &o.first.value
		}
	}
	if len(o.all()) <= indexFrom {
		for i := range o.members {
			if o.members[i].is(name) {
				return &o.members[i].value
			}
		}
		return nil
	}
	if o.index == nil {
		o.index = make(map[string]*Node, len(o.members))
		for i := range o.members {
			o.index[o.members[i].text()] = &o.members[i].value
		}
	}
	return o.index[name]
}

// findFirst finds a member without decoding all of them, since most expressions read only one.
func (o *Object) findFirst(name string) *Node {
	for walk := strictjson.Into(o.raw); walk.Next(); {
		o.first = member{walk.Name, Node{Raw: walk.Value, Exact: o.exact}}
		if o.first.is(name) {
			return &o.first.value
		}
	}
	o.all()
	return nil
}

// is reports whether the member has that name.
func (m *member) is(name string) bool {
	inner := m.name[1 : len(m.name)-1]
	if len(inner) <= len(name) { // an escape is longer than its character
		return string(inner) == name
	}
	return bytes.IndexByte(inner, '\\') >= 0 && m.text() == name
}

// text returns the unquoted name. The JSON has already been checked.
func (m *member) text() string {
	text, _ := jsontext.AppendUnquote(nil, m.name)
	return string(text)
}

// Find implements traits.Mapper.
func (o *Object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	value := o.find(string(name))
	if value == nil {
		return nil, false
	}
	return value.Force(), true
}

// Get implements traits.Indexer.
func (o *Object) Get(key ref.Val) ref.Val {
	if value, ok := o.Find(key); ok {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (o *Object) Contains(key ref.Val) ref.Val {
	_, ok := o.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (o *Object) Size() ref.Val {
	return types.Int(len(o.all()))
}

// IsZeroValue implements traits.Zeroer.
func (o *Object) IsZeroValue() bool {
	return len(o.all()) == 0
}

// Iterator implements traits.Iterable. It iterates over the names in the order of the JSON.
func (o *Object) Iterator() traits.Iterator {
	names := make([]ref.Val, len(o.all()))
	for i := range o.members {
		names[i] = types.String(o.members[i].text())
	}
	return types.NewRefValList(Adapter{}, names).Iterator()
}

// Type implements ref.Val.
func (o *Object) Type() ref.Type {
	return types.MapType
}

// Equal implements ref.Val. An object may be compared with many others, so it is only decoded
// if the sizes are equal.
func (o *Object) Equal(other ref.Val) ref.Val {
	if m, ok := other.(traits.Mapper); ok && m.Size() != o.Size() {
		return types.False
	}
	return o.full().Equal(other)
}

// ConvertToNative implements ref.Val.
func (o *Object) ConvertToNative(t reflect.Type) (any, error) {
	return o.full().ConvertToNative(t)
}

// ConvertToType implements ref.Val.
func (o *Object) ConvertToType(t ref.Type) ref.Val {
	return o.full().ConvertToType(t)
}

// Value implements ref.Val.
func (o *Object) Value() any {
	return o.full().Value()
}

// full returns the object as a CEL map, for operations that are rarely used.
func (o *Object) full() traits.Mapper {
	if o.whole == nil {
		values := make(map[string]any, len(o.all()))
		for i := range o.members {
			values[o.members[i].text()] = &o.members[i].value
		}
		o.whole = types.NewStringInterfaceMap(Adapter{}, values)
	}
	return o.whole
}
