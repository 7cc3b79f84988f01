package agents

import (
	"testing"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// TestTokensOfAnswers counts the schemas of answers where the list has them.
func TestTokensOfAnswers(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Trips, version: "1"}
paths:
  /a: {get: {operationId: a, responses: {'200': {description: ok, content: {application/json: {schema: {type: object, properties: {somewhat: {type: string, description: "Words that a model is given, and pays for."}}}}}}}}}
`
	tokens := func(listed bool) int {
		tools, err := tool.Build([]byte(document), tool.BuildOptions{ResponseSchemas: listed})
		if err != nil {
			t.Fatal(err)
		}
		return EstimateTokens(tools)
	}
	if without, with := tokens(false), tokens(true); with < without+20 {
		t.Errorf("%d tokens, and %d with the schema of the answer", without, with)
	}
}
