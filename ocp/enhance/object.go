package enhance

import (
	"bytes"
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// indexFrom is how many members an object has at most without an index.
const indexFrom = 16

// An object is a JSON object as a CEL map, a traits.Mapper. It remembers its
// bytes, and decodes the members that an expression looks at.
type object struct {
	raw     jsontext.Value
	members []member
	index   map[string]*node // of many members, made for the first look
}

// member is one name, still quoted, and its value.
type member struct {
	name  jsontext.Value
	value node
}

func decodeObject(raw jsontext.Value) ref.Val {
	const few = 8
	o := &object{raw: raw, members: make([]member, 0, few)}
	for walk := wire.Into(raw); walk.Next(); {
		if len(o.members) == maxList {
			return types.WrapErr(errListTooLong)
		}
		o.members = append(o.members, member{walk.Name, node{raw: walk.Value}})
	}
	return o
}

// find returns the value of that name, nil if there is none.
func (o *object) find(name string) *node {
	if len(o.members) <= indexFrom {
		for i := range o.members {
			if o.members[i].is(name) {
				return &o.members[i].value
			}
		}
		return nil
	}
	if o.index == nil {
		o.index = make(map[string]*node, len(o.members))
		for i := range o.members {
			o.index[o.members[i].text()] = &o.members[i].value
		}
	}
	return o.index[name]
}

func (m *member) is(name string) bool {
	inner := m.name[1 : len(m.name)-1]
	if len(inner) <= len(name) { // an escape is longer than what it stands for
		return string(inner) == name
	}
	return bytes.IndexByte(inner, '\\') >= 0 && m.text() == name
}

// text returns the name, which has been checked.
func (m *member) text() string {
	text, _ := jsontext.AppendUnquote(nil, m.name)
	return string(text)
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	value := o.find(string(name))
	if value == nil {
		return nil, false
	}
	return value.look(), true
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	if value, ok := o.Find(key); ok {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	_, ok := o.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (o *object) Size() ref.Val {
	return types.Int(len(o.members))
}

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool {
	return len(o.members) == 0
}

// Iterator implements traits.Iterable: over the names, in the order of the text.
func (o *object) Iterator() traits.Iterator {
	names := make([]ref.Val, len(o.members))
	for i := range o.members {
		names[i] = types.String(o.members[i].text())
	}
	return types.NewRefValList(adapter{}, names).Iterator()
}

// Type implements ref.Val.
func (o *object) Type() ref.Type {
	return types.MapType
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	return o.full().Equal(other)
}

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	return o.full().ConvertToNative(t)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	return o.full().ConvertToType(t)
}

// Value implements ref.Val.
func (o *object) Value() any {
	return o.full().Value()
}

// full returns the object as one of CEL's own maps, for what is seldom asked.
func (o *object) full() traits.Mapper {
	values := make(map[string]any, len(o.members))
	for i := range o.members {
		values[o.members[i].text()] = &o.members[i].value
	}
	return types.NewStringInterfaceMap(adapter{}, values)
}
