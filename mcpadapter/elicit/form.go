package elicit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
)

// An argumentForm is an elicitation form that asks the user for arguments of a tool (MCP,
// Elicitation).
type argumentForm struct {
	tool   *tools.Tool
	fields []formField
	params jsontext.Value // params of the elicitation
}

// A formField is the field for one argument.
type formField struct {
	argument *tools.Argument
	needed   bool // whether the call needs the argument
}

// newForm returns the form for the wanted arguments. Forms can only have fields for single values. An
// optional argument of another type is left out; a needed one is an error.
func newForm(tool *tools.Tool, wanted tools.UserArguments, v protocol.Revision) (*argumentForm, error) {
	form := &argumentForm{tool: tool}
	var fields strictjson.ObjectBuilder
	for i := range tool.Definition.Arguments {
		a := &tool.Definition.Arguments[i]
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
	b = strictjson.AppendString(append(b, `"message":`...), fmt.Sprintf("%s needs values that only you can give.", cmp.Or(tool.Definition.Title, tool.Name)))
	b = append(append(b, `,"requestedSchema":{"type":"object","properties":`...), fields.Close()...)
	b = append(strictjson.AppendStrings(append(b, `,"required":`...), form.needed()), "}}"...)
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
func (form *argumentForm) readResponse(now *round, response jsontext.Value) (r Reply, again bool) {
	now.responses = nil
	if response.Kind() != '{' {
		return Reply{}, true
	}
	switch action := strictjson.Text(strictjson.MemberOf(response, "action")); action {
	case "accept":
	case "decline", "cancel":
		return failed(form.tool, tools.InvalidArguments, fmt.Sprintf("%s was not called: the user did not give %s (%s)",
			form.tool.Name, form.requiredNames(), action)), false
	default:
		return Reply{}, true
	}
	blocks := strictjson.MemberOf(response, "content")
	var answers strictjson.ObjectBuilder
	for _, field := range form.fields {
		value := strictjson.MemberOf(blocks, field.argument.Name)
		if kind := value.Kind(); kind == 0 || kind == 'n' || !field.needed && string(value) == `""` {
			if field.needed {
				return Reply{}, true
			}
			continue
		}
		answers.Add(field.argument.Name, value)
	}
	now.Asked, now.Answers = false, answers.Close()
	return Reply{}, false
}

// fieldOf returns the form field for an argument, or nil if its schema does not describe a single
// value.
func fieldOf(tool *tools.Tool, a *tools.Argument, v protocol.Revision) []byte {
	of := plainSchema(tool, a)
	types := slices.DeleteFunc(of.Types(), func(name string) bool { return name == "null" })
	if len(types) != 1 {
		return nil
	}
	kind := types[0]
	switch kind {
	case "string", "number", "integer", "boolean":
	default:
		return nil
	}
	b := append(append([]byte(`{"type":"`), kind...), '"')
	b = strictjson.AppendString(append(b, `,"title":`...), cmp.Or(strictjson.Text(of.Value("title")), a.Name))
	if description := cmp.Or(a.Description, strictjson.Text(strictjson.MemberOf(a.Schema, "description")), strictjson.Text(of.Value("description"))); description != "" {
		b = strictjson.AppendString(append(b, `,"description":`...), description)
	}
	for _, k := range of.Keywords {
		if fieldTakes(kind, k, v) {
			b = append(append(strictjson.AppendString(append(b, ','), k.Name), ':'), k.Value...)
		}
	}
	return append(b, '}')
}

// fieldTakes reports whether a form field of that type may have the schema keyword (MCP,
// Elicitation, PrimitiveSchemaDefinition).
func fieldTakes(kind string, keyword schema.Keyword, v protocol.Revision) bool {
	value := keyword.Value.Kind()
	switch keyword.Name {
	case "default":
		switch kind {
		case "boolean":
			return value == 't' || value == 'f'
		case "string":
			return value == '"' && v.SupportsRichElicitation()
		}
		return value == '0' && v.SupportsRichElicitation()
	case "enum":
		return kind == "string" && strictjson.AllStrings(keyword.Value)
	case "minLength", "maxLength":
		return kind == "string" && content.IsInteger(keyword.Value) == nil
	case "minimum", "maximum":
		return kind != "string" && kind != "boolean" && value == '0'
	case "format":
		switch strictjson.Text(keyword.Value) {
		case "date", "date-time", "email", "uri":
			return kind == "string"
		}
	}
	return false
}

// plainSchema resolves the references of an argument's schema, and unwraps combinations that only add null.
func plainSchema(tool *tools.Tool, a *tools.Argument) *schema.Tree {
	root, of := schema.Open(tool.Definition.InputSchema, a.Schema)
	for range schema.MaxReferences {
		of = root.Resolve(of)
		if of.Value("type") != nil {
			return of
		}
		var parts []schema.Part
		for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
			for _, part := range of.Parts(keyword) {
				if strictjson.Text(part.Value("type")) != "null" {
					parts = append(parts, part)
				}
			}
		}
		if len(parts) != 1 {
			return of
		}
		of = parts[0].Tree
	}
	return nil
}
