package tools

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/request"
)

// FieldsArgument is the name of the argument with which a model selects members of a response.
const FieldsArgument = "fields"

// fieldsSchema is the schema of FieldsArgument.
const (
	fieldsDescription = `Return only these members of the response: names separated by commas, with dots for members of members and of items, such as "items.title,total". Default: everything.`
	fieldsSchema      = `{"type":"string","maxLength":4096,"description":`
)

// addFields adds FieldsArgument to a tool whose shape has fields. A tool that has an argument of this
// name keeps its own.
func (s *toolShaper) addFields() {
	if s.Fields == nil || !*s.Fields || slices.Contains(s.names, FieldsArgument) {
		return
	}
	schema := append(strictjson.AppendString([]byte(fieldsSchema), fieldsDescription), '}')
	t := s.to
	t.Plan.Arguments = append(t.Plan.Arguments, Argument{
		Name: FieldsArgument, In: InGateway, Description: fieldsDescription, Schema: jsontext.Value(schema), types: []string{"string"},
	})
	t.Plan.Encodings = append(t.Plan.Encodings, request.Argument{})
	s.names = append(s.names, FieldsArgument)
	s.edit.Add = append(s.edit.Add, strictjson.Member{Name: FieldsArgument, Value: schema})
	t.Output.Fields = true
}

// Fields returns the value of FieldsArgument if the tool takes it (Output.Fields). It returns "" if the
// call does not have it.
func (c *Call) Fields() string {
	return strictjson.Text(c.argument(FieldsArgument))
}
