package tool

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
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
	schema := append(wire.AppendString([]byte(fieldsSchema), fieldsDescription), '}')
	t := s.to
	t.all = append(t.all, Argument{
		Name: FieldsArgument, In: InGateway, Description: fieldsDescription, Schema: jsontext.Value(schema), types: []string{"string"},
	})
	t.plans = append(t.plans, plan.Argument{})
	s.names = append(s.names, FieldsArgument)
	s.edit.Add = append(s.edit.Add, wire.Member{Name: FieldsArgument, Value: schema})
	t.Fields = true
}

// Fields returns the value of FieldsArgument if the tool takes it (Tool.Fields). It returns "" if the
// call does not have it.
func (c *Call) Fields() string {
	return wire.Text(c.argument(FieldsArgument))
}
