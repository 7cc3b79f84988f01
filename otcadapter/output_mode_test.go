package otcadapter

import (
	"net/http"
	"slices"
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

// TestCall_answers_in_a_listed_mode checks that a call never answers in an output mode
// that the definition of its tool does not list, whatever the API sends.
func TestCall_answers_in_a_listed_mode(t *testing.T) {
	responses := map[string]*tools.Result{
		"JSON":          jsonResult(`{"a":1}`),
		"text":          {Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("done")},
		"null":          jsonResult(` null`),
		"no body":       {Status: 200, Header: http.Header{"Content-Type": {"application/json"}}},
		"no content":    {Status: 204, Header: http.Header{}},
		"no media type": {Status: 200, Header: http.Header{}, Body: []byte("done")},
	}
	declared := map[string]struct {
		answer tools.Output
		modes  []any
	}{
		"nothing":             {tools.Output{}, []any{"value", "error", "null"}},
		"JSON of any type":    {tools.Output{MediaTypes: []string{"application/json"}}, []any{"value", "error", "null"}},
		"object or null":      {tools.Output{MediaTypes: []string{"application/json"}, Types: []string{"object", "null"}}, []any{"value", "error", "null"}},
		"object":              {tools.Output{MediaTypes: []string{"application/json"}, Types: []string{"object"}}, []any{"value", "error"}},
		"text":                {tools.Output{MediaTypes: []string{"text/plain"}}, []any{"value", "error"}},
		"204":                 {tools.Output{Empty: true}, []any{"error", "null"}},
		"200 without content": {tools.Output{Empty: true, Unstated: true}, []any{"value", "error", "null"}},
		"content and 204":     {tools.Output{Empty: true, MediaTypes: []string{"text/plain"}}, []any{"value", "error", "null"}},
	}
	for declares, d := range declared {
		for sends, result := range responses {
			t.Run(declares+", the API sends "+sends, func(t *testing.T) {
				toolset := calculator()
				toolset.Tools()[0].Output = d.answer
				s := New(Options{})
				definition := list(t, s, toolset).json()["tools"].([]any)[0].(map[string]any)
				modes := definition["output"].(map[string]any)["available_modes"].([]any)
				if !slices.Equal(modes, d.modes) {
					t.Errorf("available_modes = %v, want %v", modes, d.modes)
				}
				got := post(t, s, toolset, answering(tools.Outcome{Result: result}), `{"tool_id":"Calculator.Add"}`)
				mode := "null"
				if output, present := got.json()["output"]; present {
					mode = "value"
					if value := output.(map[string]any)["value"]; value == nil {
						t.Errorf("output = %v, want a value that is not null", output)
					}
				}
				undeclared := sends == "null" && mode == "null" // by a document of content that cannot be null
				if got.Code != 200 || !slices.Contains(modes, any(mode)) && !undeclared {
					t.Errorf("mode %s is not listed in %v: %s", mode, modes, got.Body)
				}
				if len(result.Body) > 0 && sends != "null" && slices.Contains(modes, any("value")) && mode != "value" {
					t.Errorf("the value is missing: %s", got.Body)
				}
			})
		}
	}
}
