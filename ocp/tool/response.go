package tool

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/extension"
	"github.com/fairwayhq/fairway/ocp/internal/inputschema"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
)

// maxResponseSchema limits one tool's DeclaredResponse.Schema, in bytes. Without a limit the schemas
// grow very large: in many documents every response refers to most of the schemas.
const maxResponseSchema = 32 << 10

// describeResponse collects what the document declares for successful responses.
func (t *toolBuilder) describeResponse() {
	answer := &t.tool.Response
	var first openapi.Place
	for i := range t.operation.Responses {
		response := &t.operation.Responses[i]
		if !extension.IsSuccess(response.Status, t.operation.Responses) {
			continue
		}
		if answer.Description == "" {
			answer.Description = response.Description
		}
		if len(response.Content) == 0 {
			answer.Empty = true
			answer.Unstated = answer.Unstated || t.tool.Method != http.MethodHead && mayHaveBody(response.Status)
		}
		for _, media := range response.Content {
			if m := mediatype.Base(media.Type); mediatype.IsValid(m) && !slices.Contains(answer.MediaTypes, m) {
				answer.MediaTypes = append(answer.MediaTypes, m)
			}
			if first.Node == nil && mediatype.Preference(media.Type) < 2 {
				first = media.Schema
			}
		}
	}
	t.tool.accept = mediatype.Accept(answer.MediaTypes)
	if first.Node == nil {
		return
	}
	answer.Types = schema.Types(first)
	if t.options.ResponseSchemas {
		t.pendingResponses = append(t.pendingResponses, pendingResponse{answer, first})
	}
}

// A pendingResponse is a response whose schema is written after all tools are known, because
// all response schemas share one size limit.
type pendingResponse struct {
	*DeclaredResponse
	place openapi.Place
}

// finishResponses writes the schemas of the responses. If together they exceed the limit for
// all tools, it lowers the limit for each schema.
func (b *builder) finishResponses() {
	limit := maxResponseSchema
	if b.options.MaxSchema > 0 {
		limit = min(limit, b.options.MaxSchema)
	}
	if b.options.MaxSchema >= 0 {
		room, listed, writing := maxAllResponseSchemas, maxListed, b.output.Writings()[0]
		for _, tool := range b.set.tools {
			room -= len(tool.InputSchema)
			listed -= listedFrame + len(tool.Name) + len(tool.Title) + len(tool.Description) + len(tool.InputSchema)
		}
		room = min(room, listed)
		sizes := make([]int, len(b.pendingResponses))
		for i, a := range b.pendingResponses {
			sizes[i] = min(writing.Measure(limit, b.output.Translate(a.place)), limit)
		}
		if level := inputschema.WaterLevel(sizes, max(room, minAnswers)); slices.ContainsFunc(sizes, func(size int) bool { return size > level }) {
			limit = min(limit, level)
		}
	}
	for i, a := range b.pendingResponses {
		b.collect(i)
		a.Schema = b.output.AppendBounded(nil, a.place, limit)
	}
	b.pendingResponses = nil
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
	if t.Response.Schema == nil {
		return nil
	}
	decoded, err := wire.Decode(body)
	if err != nil {
		return fmt.Errorf("the response of %s is not JSON: %w", t.Operation(), err)
	}
	compiled, err := t.responseValidator.Compile(func() jsontext.Value { return t.Response.Schema })
	if err != nil {
		return fmt.Errorf("compiling the response schema of %s: %w", t.Operation(), err)
	}
	err = compiled.Validate(decoded)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	return schemaMismatch(t, problemsOf(invalid))
}

func schemaMismatch(t *Tool, problems []Problem) error {
	if len(problems) == 0 {
		return fmt.Errorf("the response of %s does not match its declared schema", t.Operation())
	}
	return fmt.Errorf("the response of %s does not match its declared schema: %s: %s", t.Operation(), cmp.Or(problems[0].Path, "the whole"), problems[0].Message)
}
