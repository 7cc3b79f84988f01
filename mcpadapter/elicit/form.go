package elicit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/schemaview"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// An argumentForm is an elicitation form that asks the user for arguments of a tool (MCP,
// Elicitation).
type argumentForm struct {
	tool   *tool.Tool
	fields []formField
	params jsontext.Value // params of the elicitation
}

// A formField is the field for one argument.
type formField struct {
	argument *tool.Argument
	needed   bool // whether the call needs the argument
}

// newForm returns the form for the wanted arguments. Forms can only have fields for single values. An
// optional argument of another type is left out; a needed one is an error.
func newForm(tool *tool.Tool, wanted tool.UserArguments, v revision.Revision) (*argumentForm, error) {
	form := &argumentForm{tool: tool}
	var fields wire.ObjectBuilder
	for i := range tool.Arguments {
		a := &tool.Arguments[i]
		needed := slices.Contains(wanted.Needed, a)
		if !needed && !slices.Contains(wanted.Optional, a) {
			continue
		}
		field := fieldOf(tool, a, v)
		switch {
		case field == nil && needed:
			return nil, fmt.Errorf("%s needs %s from the user, but a form supports only strings, numbers and booleans", tool.Name, a.Name)
		case field == nil:
			continue
		}
		fields.Add(a.Name, field)
		form.fields = append(form.fields, formField{a, needed})
	}
	b := []byte{'{'}
	if v.SupportsRichElicitation() {
		b = append(b, `"mode":"form",`...)
	}
	b = wire.AppendString(append(b, `"message":`...), fmt.Sprintf("%s needs values that only you can give.", cmp.Or(tool.Title, tool.Name)))
	b = append(append(b, `,"requestedSchema":{"type":"object","properties":`...), fields.Close()...)
	b = append(wire.AppendStrings(append(b, `,"required":`...), form.needed()), "}}"...)
	form.params = b
	return form, nil
}

// needed returns the names of the arguments that the call needs.
func (form *argumentForm) needed() (names []string) {
	for _, field := range form.fields {
		if field.needed {
			names = append(names, field.argument.Name)
		}
	}
	return names
}

// requiredNames lists these names for messages.
func (form *argumentForm) requiredNames() string { return strings.Join(form.needed(), ", ") }

// readResponse reads the user's values from the responses of a round. again is true if there is no usable
// response, or if a needed value is missing. It ignores values that the form does not ask for. An
// empty string for an optional argument counts as absent, because clients send it for fields that
// the user left empty.
func (form *argumentForm) readResponse(now *round) (r Reply, again bool) {
	response := wire.MemberOf(now.responses, argumentsKey[1:len(argumentsKey)-1])
	now.responses = nil
	if response.Kind() != '{' {
		return Reply{}, true
	}
	switch action := wire.Text(wire.MemberOf(response, "action")); action {
	case "accept":
	case "decline", "cancel":
		return failed(form.tool, tool.InvalidArguments, fmt.Sprintf("%s was not called: the user did not give %s (%s)",
			form.tool.Name, form.requiredNames(), action)), false
	default:
		return Reply{}, true
	}
	content := wire.MemberOf(response, "content")
	answers := []byte{'{'}
	for _, field := range form.fields {
		value := wire.MemberOf(content, field.argument.Name)
		if kind := value.Kind(); kind == 0 || kind == 'n' || !field.needed && string(value) == `""` {
			if field.needed {
				return Reply{}, true
			}
			continue
		}
		if len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = append(append(wire.AppendString(answers, field.argument.Name), ':'), value...)
	}
	now.asked, now.answers = false, append(answers, '}')
	return Reply{}, false
}

// fieldOf returns the form field for an argument, or nil if its schema does not describe a single
// value.
func fieldOf(tool *tool.Tool, a *tool.Argument, v revision.Revision) []byte {
	schema := plainSchema(tool, a.Schema)
	kind := singleType(schema)
	switch kind {
	case "string", "number", "integer", "boolean":
	default:
		return nil
	}
	b := append(append([]byte(`{"type":"`), kind...), '"')
	b = wire.AppendString(append(b, `,"title":`...), cmp.Or(wire.Text(wire.MemberOf(schema, "title")), a.Name))
	if description := cmp.Or(a.Description, wire.Text(wire.MemberOf(a.Schema, "description")), wire.Text(wire.MemberOf(schema, "description"))); description != "" {
		b = wire.AppendString(append(b, `,"description":`...), description)
	}
	for walk := wire.Into(schema); walk.Next(); {
		if fieldTakes(kind, &walk, v) {
			b = append(append(append(append(b, ','), walk.Name...), ':'), walk.Value...)
		}
	}
	return append(b, '}')
}

// fieldTakes reports whether a form field of that type may have the schema keyword (MCP,
// Elicitation, PrimitiveSchemaDefinition).
func fieldTakes(kind string, keyword *wire.Walk, v revision.Revision) bool {
	value := keyword.Value.Kind()
	switch {
	case keyword.Is("default"):
		switch kind {
		case "boolean":
			return value == 't' || value == 'f'
		case "string":
			return value == '"' && v.SupportsRichElicitation()
		}
		return value == '0' && v.SupportsRichElicitation()
	case keyword.Is("enum"):
		return kind == "string" && wire.AllStrings(keyword.Value)
	case keyword.Is("minLength"), keyword.Is("maxLength"):
		return kind == "string" && content.IsInteger(keyword.Value) == nil
	case keyword.Is("minimum"), keyword.Is("maximum"):
		return kind != "string" && kind != "boolean" && value == '0'
	case keyword.Is("format"):
		switch wire.Text(keyword.Value) {
		case "date", "date-time", "email", "uri":
			return kind == "string"
		}
	}
	return false
}

// plainSchema resolves references, and unwraps combinations that only add null.
func plainSchema(tool *tool.Tool, schema jsontext.Value) jsontext.Value {
	for range schemaview.MaxReferences {
		if target, ok := schemaview.Follow(tool.InputSchema, schema); ok {
			schema = target
			continue
		}
		if wire.HasMember(schema, "type") {
			return schema
		}
		only := jsontext.Value(nil)
		for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
			for walk := wire.Into(wire.MemberOf(schema, keyword)); walk.Next(); {
				if wire.Text(wire.MemberOf(walk.Value, "type")) == "null" {
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

// singleType returns the type of a schema, ignoring null. It returns "" if the schema has no type or
// several.
func singleType(schema jsontext.Value) string {
	single := ""
	for kind := range schemaview.TypeNames(schema) {
		switch {
		case kind == "null":
		case single != "":
			return ""
		default:
			single = kind
		}
	}
	return single
}
