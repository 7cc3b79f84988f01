package app

import (
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

// TestTokens_of_answers checks that a tool has one size, whether its toolset has response schemas or not.
func TestTokens_of_answers(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Trips, version: "1"}
paths:
  /a: {get: {operationId: a, responses: {'200': {description: ok, content: {application/json: {schema: {type: object, properties: {somewhat: {type: string, description: "Words that a model is given, and pays for."}}}}}}}}}
`
	tokens := func(listed bool) (estimate, responses int) {
		toolset, err := tools.Build([]byte(document), tools.BuildOptions{ResponseSchemas: listed})
		if err != nil {
			t.Fatal(err)
		}
		return EstimateTokens(toolset), ResponseTokens(toolset)
	}
	without, _ := tokens(false)
	if with, responses := tokens(true); with != without || responses < 20 {
		t.Errorf("%d tokens, and %d with response schemas, which have %d; want the same, and at least 20", without, with, responses)
	}
}
