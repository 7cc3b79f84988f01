package tools

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/ocpextension"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/schema"
)

// An Output describes what a caller gets of a successful response.
type Output struct {
	// What the document declares.
	Description string
	MediaTypes  []string       // of all 2xx responses, lower case, without parameters
	Types       []string       // the JSON types of the body, nil if unknown
	Empty       bool           // some 2xx response has no body
	Unstated    bool           // one of these has a status that permits a body
	Schema      jsontext.Value // full JSON Schema 2020-12; nil unless built with ResponseSchemas

	// Select is the query that is applied to JSON responses before a model gets them. It is nil if there is
	// none. It is for the handlers of this module.
	Select         *result.Query
	SelectDeclared bool // Select is from the document and not from the options

	MaxTokens int  // limits the response for a model, in tokens; 0 means the limit of the endpoint, less than 0 means none
	Fields    bool // the tool takes the argument "fields", with which a model selects members of the response

	// Assured means that all responses are valid for Schema, because this server writes them. So MCP lists it also
	// if the operator does not trust the schemas of APIs.
	Assured bool

	validator *schema.Validator // of Schema
}

// maxResponseSchema limits one tool's Output.Schema, in bytes. Without a limit the schemas
// grow very large: in many documents every response refers to most of the schemas.
const maxResponseSchema = 32 << 10

// describeResponse collects what the document declares for successful responses.
func (t *toolBuilder) describeResponse() {
	answer := &t.tool.Output
	var first openapi.Place
	for i := range t.operation.Responses {
		response := &t.operation.Responses[i]
		if !ocpextension.IsSuccess(response.Status, t.operation.Responses) {
			continue
		}
		answer.Description = cmp.Or(answer.Description, response.Description)
		if len(response.Content) == 0 {
			answer.Empty = true
			answer.Unstated = answer.Unstated || t.plan.Method != http.MethodHead && mayHaveBody(response.Status)
		}
		for _, media := range response.Content {
			if m := httpheader.MediaType(media.Type); httpheader.IsMediaType(m) && !slices.Contains(answer.MediaTypes, m) {
				answer.MediaTypes = append(answer.MediaTypes, m)
			}
			if first.Node == nil && httpheader.Preference(media.Type) < 2 {
				first = media.Schema
			}
		}
	}
	t.plan.Accept = httpheader.Accept(answer.MediaTypes)
	if first.Node == nil {
		return
	}
	answer.Types, t.response = schema.Types(first), first
}

// An outputWriter writes the schemas of responses after all tools are known, because they share one size limit.
type outputWriter struct {
	limit      int // BuildOptions.MaxSchema
	translator *schema.Translator
	outputs    []*Output
	places     []openapi.Place // of the schemas of outputs
}

func (w *outputWriter) add(o *Output, place openapi.Place) {
	w.outputs, w.places = append(w.outputs, o), append(w.places, place)
}

// finish writes the schemas. If together they exceed the limit for all tools, it lowers the limit for
// each schema.
func (w *outputWriter) finish(all []*Tool, collect collector) {
	limit := maxResponseSchema
	if w.limit > 0 {
		limit = min(limit, w.limit)
	}
	if w.limit >= 0 {
		room, listed, writing := maxAllResponseSchemas, maxListed, w.translator.Writings()[0]
		for _, t := range all {
			room -= len(t.Definition.InputSchema)
			listed -= t.Definition.listedTexts(t.Name) + len(t.Definition.InputSchema)
		}
		sizes := make([]int, len(w.places))
		for i, place := range w.places {
			sizes[i] = min(writing.Measure(limit, w.translator.Translate(place)), limit)
		}
		if level := schema.WaterLevel(sizes, max(min(room, listed), minAnswers)); slices.ContainsFunc(sizes, func(size int) bool { return size > level }) {
			limit = min(limit, level)
		}
	}
	for i, place := range w.places {
		collect.run(i)
		w.outputs[i].Schema = w.translator.AppendBounded(nil, place, limit)
	}
}

// mayHaveBody reports whether a successful response with the declared status may have a
// body (RFC 9110, sections 15.3.5 and 15.3.6).
func mayHaveBody(status string) bool {
	return status != "204" && status != "205"
}

// CheckResponse validates the body of a successful response against the schema that the
// document declares. The error says where the body deviates from it. Many APIs deviate
// from their own documents, so the caller decides how to handle the error. CheckResponse
// returns nil if the tool was built without ResponseSchemas.
func (t *Tool) CheckResponse(body jsontext.Value) error {
	if t.Output.Schema == nil {
		return nil
	}
	decoded, err := strictjson.Decode(body)
	if err != nil {
		return fmt.Errorf("the response of %s is not JSON: %w", t.Operation(), err)
	}
	compiled, err := t.Output.validator.Compile(func() jsontext.Value { return t.Output.Schema })
	if err != nil {
		return fmt.Errorf("compiling the response schema of %s: %w", t.Operation(), err)
	}
	err = compiled.Validate(decoded)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	return schemaMismatch(t, schema.Explain(invalid, decoded))
}

func schemaMismatch(t *Tool, problems []Problem) error {
	if len(problems) == 0 {
		return fmt.Errorf("the response of %s does not match its declared schema", t.Operation())
	}
	return fmt.Errorf("the response of %s does not match its declared schema: %s: %s", t.Operation(), cmp.Or(problems[0].Path, "the whole"), problems[0].Message)
}

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
	text := append(strictjson.AppendString([]byte(fieldsSchema), fieldsDescription), '}')
	t := s.to
	t.Plan.Arguments = append(t.Plan.Arguments, Argument{
		Name: FieldsArgument, In: InGateway, Description: fieldsDescription, Schema: jsontext.Value(text), types: []string{"string"},
	})
	t.Plan.Encodings = append(t.Plan.Encodings, request.Argument{})
	s.names = append(s.names, FieldsArgument)
	s.edit.Add = append(s.edit.Add, strictjson.Member{Name: FieldsArgument, Value: text})
	t.Output.Fields = true
}

// Fields returns the value of FieldsArgument if the tool takes it (Output.Fields). It returns "" if the
// call does not have it.
func (c *Call) Fields() string {
	return strictjson.Text(c.argument(FieldsArgument))
}
