package tools

import (
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestValidationEffort: what a caller sends is judged in bounded time and memory,
// whatever the document's schemas make of it.
func TestValidationEffort(t *testing.T) {
	const document = `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"post":{"operationId":"a","requestBody":{"content":{"application/json":{"schema":{
		"type":"object","properties":{"filter":{"$ref":"#/components/schemas/Filter"},"count":{"type":"number","multipleOf":0.5},"list":{"type":"array","items":{"$ref":"#/components/schemas/Filter"}}}}}}}}}},
		"components":{"schemas":{"Filter":{"anyOf":[
			{"type":"object","properties":{"not":{"$ref":"#/components/schemas/Filter"}},"required":["x"]},
			{"type":"object","properties":{"not":{"$ref":"#/components/schemas/Filter"}},"required":["y"]},
			{"type":"object","properties":{"not":{"$ref":"#/components/schemas/Filter"}},"additionalProperties":false},
			{"type":"integer"}]}}}}`
	tool, _ := buildTools(t, document, BuildOptions{}).Tool("a")
	nested := func(levels int, leaf string) string {
		return strings.Repeat(`{"not":`, levels) + leaf + strings.Repeat("}", levels)
	}
	for name, test := range map[string]struct{ arguments, problem string }{
		"shallow and good":      {`{"filter":` + nested(3, "1") + `}`, ""},
		"shallow and bad":       {`{"filter":` + nested(3, `"x"`) + `}`, "/filter"},
		"deep":                  {`{"filter":` + nested(50, `"x"`) + `}`, "many"},
		"many and good":         {`{"list":[` + strings.Repeat("1,", 50_000) + `1]}`, ""},
		"number":                {`{"count":1.5e300}`, ""},
		"number too large":      {`{"count":1e999999999}`, "number large small"},
		"number too small":      {`{"count":1e-999999}`, "number large small"},
		"number with an extent": {`{"count":1` + strings.Repeat("0", 100_000) + `}`, "number large small"},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, err := tool.Bind([]byte(test.arguments))
				done <- err
			}()
			select {
			case err := <-done:
				if (err == nil) != (test.problem == "") || err != nil && !testkit.ContainsAll(err.Error(), test.problem) {
					t.Errorf("got %v, want %q", err, test.problem)
				}
			case <-time.After(testkit.Patience):
				t.Fatal("still validating")
			}
		})
	}
}
