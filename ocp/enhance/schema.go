package enhance

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"github.com/go-json-experiment/json/jsontext"
)

// Schema returns a JSON Schema for the result of the property's expression, as far as
// the expression's type determines it: {"type":"string"}, or {} if the type is
// unknown. It returns nil if there is no such property.
func (e *Enhancer) Schema(name string) jsontext.Value {
	for i := range e.properties {
		if e.properties[i].Name == name {
			return e.properties[i].program.schema
		}
	}
	return nil
}

// optionalType is the CEL name of the type of optional values.
const optionalType = "optional_type"

// maxSchemaDepth bounds the nesting of a schema.
const maxSchemaDepth = 8

// appendSchema appends the JSON Schema of a CEL type.
func appendSchema(dst []byte, t *cel.Type, depth int) []byte {
	switch t.Kind() {
	case types.BoolKind:
		return append(dst, `{"type":"boolean"}`...)
	case types.IntKind, types.UintKind:
		return append(dst, `{"type":"integer"}`...)
	case types.DoubleKind:
		return append(dst, `{"type":"number"}`...)
	case types.StringKind, types.BytesKind, types.DurationKind:
		return append(dst, `{"type":"string"}`...)
	case types.TimestampKind:
		return append(dst, `{"type":"string","format":"date-time"}`...)
	case types.ListKind:
		dst = append(dst, `{"type":"array","items":`...)
		return append(appendElement(dst, t, 0, depth), '}')
	case types.MapKind:
		dst = append(dst, `{"type":"object","additionalProperties":`...)
		return append(appendElement(dst, t, 1, depth), '}')
	}
	if t.TypeName() == optionalType {
		return appendElement(dst, t, 0, depth)
	}
	return append(dst, "{}"...)
}

// appendElement appends the schema of a type parameter, such as a list's element type.
func appendElement(dst []byte, t *cel.Type, parameter, depth int) []byte {
	if parameter >= len(t.Parameters()) || depth == maxSchemaDepth {
		return append(dst, "{}"...)
	}
	return appendSchema(dst, t.Parameters()[parameter], depth+1)
}
