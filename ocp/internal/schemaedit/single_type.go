package schemaedit

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// AppendSingleType appends the schema. The type of its root becomes a single string, as the OCP tool schema
// requires: a list of types becomes alternatives.
func AppendSingleType(dst []byte, schema jsontext.Value) []byte {
	members, err := wire.Members(nil, schema)
	if err != nil {
		return append(dst, "{}"...)
	}
	object := []byte{'{'}
	for _, m := range members {
		switch {
		case m.Name != "type" || m.Value.Kind() != '[':
			object = Append(object, m.Name, m.Value)
		case !hasMember(members, "anyOf"):
			object = Append(object, "anyOf", alternativeTypes(m.Value))
		}
	}
	return append(append(dst, object...), '}')
}

func hasMember(members []wire.Member, name string) bool {
	return slices.ContainsFunc(members, func(m wire.Member) bool { return m.Name == name })
}

// alternativeTypes turns ["array","null"] into [{"type":"array"},{"type":"null"}].
func alternativeTypes(types jsontext.Value) []byte {
	list := []byte{'['}
	decoded, _ := wire.Decode(types)
	names, _ := decoded.([]any)
	for i, name := range names {
		if i > 0 {
			list = append(list, ',')
		}
		text, _ := name.(string)
		list = append(list, `{"type":`...)
		list = wire.AppendString(list, text)
		list = append(list, '}')
	}
	return append(list, ']')
}
