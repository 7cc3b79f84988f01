package mcpadapter

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// maxReferences is how many references lead to the schema of one argument.
const maxReferences = 8

// formOfArguments returns the parameters of the elicitation that asks the user for
// arguments. The form has a field for each; one that is optional and has no field,
// because it is no single value, is left out.
func (x *exchange) formOfArguments(tool *ocp.Tool) (jsontext.Value, error) {
	fields, required := []byte{'{'}, []byte{'['}
	for i := range tool.Arguments {
		a := &tool.Arguments[i]
		if !a.NonInferrable {
			continue
		}
		field := x.fieldOf(tool, a)
		switch {
		case field == nil && a.Required:
			return nil, fmt.Errorf("%s needs %s from the user, who can only be asked for a string, a number or a yes or no, and this is neither", tool.Name, a.Name)
		case field == nil:
			continue
		}
		if len(fields) > 1 {
			fields = append(fields, ',')
		}
		fields = append(append(wire.AppendString(fields, a.Name), ':'), field...)
		if a.Required {
			if len(required) > 1 {
				required = append(required, ',')
			}
			required = wire.AppendString(required, a.Name)
		}
	}
	b := []byte{'{'}
	if x.version.elicitsMore() {
		b = append(b, `"mode":"form",`...)
	}
	b = wire.AppendString(append(b, `"message":`...), fmt.Sprintf("%s needs values that only you can give.", first(tool.Title, tool.Name)))
	b = append(append(b, `,"requestedSchema":{"type":"object","properties":`...), fields...)
	b = append(append(b, `},"required":`...), required...)
	return append(b, "]}}"...), nil
}

// fieldOf returns the field of a form that asks for an argument, nil if its schema
// is not that of a single value.
func (x *exchange) fieldOf(tool *ocp.Tool, a *ocp.Argument) []byte {
	schema := plainSchema(tool, a.Schema)
	kind := singleType(schema)
	switch kind {
	case "string", "number", "integer", "boolean":
	default:
		return nil
	}
	b := append(append([]byte(`{"type":"`), kind...), '"')
	b = wire.AppendString(append(b, `,"title":`...), first(text(member(schema, "title")), a.Name))
	if description := first(a.Description, text(member(a.Schema, "description")), text(member(schema, "description"))); description != "" {
		b = wire.AppendString(append(b, `,"description":`...), description)
	}
	for walk := wire.Into(schema); walk.Next(); {
		if x.fieldTakes(kind, &walk) {
			b = append(append(append(append(b, ','), walk.Name...), ':'), walk.Value...)
		}
	}
	return append(b, '}')
}

// fieldTakes reports whether a keyword of a schema can stand in a field of that
// type (MCP, Elicitation, PrimitiveSchemaDefinition).
func (x *exchange) fieldTakes(kind string, keyword *wire.Walk) bool {
	value := keyword.Value.Kind()
	switch {
	case keyword.Is("default"):
		switch kind {
		case "boolean":
			return value == 't' || value == 'f'
		case "string":
			return value == '"' && x.version.elicitsMore()
		}
		return value == '0' && x.version.elicitsMore()
	case keyword.Is("enum"):
		return kind == "string" && allStrings(keyword.Value)
	case keyword.Is("minLength"), keyword.Is("maxLength"):
		return kind == "string" && isInteger(keyword.Value) == nil
	case keyword.Is("minimum"), keyword.Is("maximum"):
		return kind != "string" && kind != "boolean" && value == '0'
	case keyword.Is("format"):
		switch text(keyword.Value) {
		case "date", "date-time", "email", "uri":
			return kind == "string"
		}
	}
	return false
}

func allStrings(list jsontext.Value) bool {
	if list.Kind() != '[' {
		return false
	}
	for walk := wire.Into(list); walk.Next(); {
		if walk.Value.Kind() != '"' {
			return false
		}
	}
	return true
}

// plainSchema follows references, and passes over what only adds that a value may
// be null.
func plainSchema(tool *ocp.Tool, schema jsontext.Value) jsontext.Value {
	for range maxReferences {
		if ref, ok := strings.CutPrefix(text(member(schema, "$ref")), "#/$defs/"); ok {
			ref = strings.NewReplacer("~1", "/", "~0", "~").Replace(ref)
			schema = member(member(tool.InputSchema, "$defs"), ref)
			continue
		}
		if hasMember(schema, "type") {
			return schema
		}
		only := jsontext.Value(nil)
		for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
			for walk := wire.Into(member(schema, keyword)); walk.Next(); {
				if text(member(walk.Value, "type")) == "null" {
					continue
				}
				if only != nil {
					return schema
				}
				only = walk.Value
			}
		}
		if only == nil {
			return schema
		}
		schema = only
	}
	return nil
}

// singleType returns the type that a schema asks for, apart from null; "" if it is
// none or one of several.
func singleType(schema jsontext.Value) string {
	types := member(schema, "type")
	if types.Kind() == '"' {
		return text(types)
	}
	single := ""
	for walk := wire.Into(types); walk.Next(); {
		switch kind := text(walk.Value); {
		case kind == "null":
		case single != "":
			return ""
		default:
			single = kind
		}
	}
	return single
}
