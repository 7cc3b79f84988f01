package otcadapter

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

func list(t *testing.T, s *Server, toolset *tools.Toolset) answer {
	t.Helper()
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, httptest.NewRequest("GET", "/tools", nil), "/tools", siteOf(toolset, nil))
	return answer{recorder, t}
}

func TestTools_definitions(t *testing.T) {
	members := list(t, New(Options{}), calculator()).json()
	definitions := members["tools"].([]any)
	if len(definitions) != 5 || len(members["items"].([]any)) != 5 {
		t.Fatalf("%d tools and %d items, want 5", len(definitions), len(members["items"].([]any)))
	}
	add := map[string]any{
		"id":          "Calculator.Add@1.0.0",
		"name":        "Add",
		"description": "Add two numbers together",
		"toolkit": map[string]any{
			"name": "Calculator", "description": "A toolkit for performing calculations.", "version": "1.0.0",
		},
		"input": map[string]any{
			"parameters": map[string]any{
				"type":       "object",
				"properties": map[string]any{"a": map[string]any{"type": "number"}, "b": map[string]any{"type": "number"}},
				"required":   []any{"a", "b"},
			},
			"required": []any{"a", "b"},
		},
		"output": map[string]any{
			"available_modes": []any{"value", "error"},
			"description":     "The sum.",
			"value":           map[string]any{"parameters": map[string]any{"type": "number"}},
		},
	}
	if !reflect.DeepEqual(definitions[0], add) {
		t.Errorf("got  %v\nwant %v", definitions[0], add)
	}
	if got := definitions[1].(map[string]any)["description"]; got != "Deprecated. Forget everything." {
		t.Errorf("a deprecated tool is listedTool as %q", got)
	}
	if got := definitions[1].(map[string]any)["input"]; !reflect.DeepEqual(got, map[string]any{
		"parameters": map[string]any{"type": "object"}, "required": []any{},
	}) {
		t.Errorf("a tool without arguments has the input %v", got)
	}
	outputs := []map[string]any{
		{"available_modes": []any{"error", "null"}},
		{"available_modes": []any{"value", "error"}, "value": map[string]any{"parameters": map[string]any{
			"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png",
		}}},
		{"available_modes": []any{"value", "error", "null"}, "value": map[string]any{"parameters": map[string]any{}}},
		{"available_modes": []any{"value", "error", "null"}, "value": map[string]any{"parameters": map[string]any{
			"type": []any{"array", "null"},
		}}},
	}
	for i, want := range outputs {
		if got := definitions[i+1].(map[string]any)["output"]; !reflect.DeepEqual(got, want) {
			t.Errorf("output of tool %d = %v, want %v", i+1, got, want)
		}
	}
	item := members["items"].([]any)[0]
	if want := map[string]any{
		"id": add["id"], "name": "Add", "description": add["description"], "version": "1.0.0",
		"input_schema":  add["input"].(map[string]any)["parameters"],
		"output_schema": map[string]any{"type": "number"},
	}; !reflect.DeepEqual(item, want) {
		t.Errorf("item = %v, want %v", item, want)
	}
}

func TestTools_are_encoded_once(t *testing.T) {
	s, toolset := New(Options{}), calculator()
	first := s.catalog([]Toolkit{{Tools: toolset}})
	if again := s.catalog([]Toolkit{{Tools: toolset}}); again != first {
		t.Error("the catalog was made twice")
	}
	reloaded := tools.NewToolset("calc", toolset.Tools()[:1])
	if n := len(list(t, s, reloaded).json()["tools"].([]any)); n != 1 {
		t.Errorf("%d tools after a reload, want 1", n)
	}
	fresh := calculator()
	var group sync.WaitGroup
	made := make([]*catalog, 8)
	for i := range made {
		group.Go(func() { made[i] = s.catalog([]Toolkit{{Tools: fresh}}) })
	}
	group.Wait()
	for _, c := range made {
		if c != made[0] {
			t.Error("concurrent requests made several catalogs")
		}
	}
}

func TestTools_of_an_empty_toolset(t *testing.T) {
	members := list(t, New(Options{}), tools.NewToolset("none", nil)).json()
	if !reflect.DeepEqual(members["tools"], []any{}) || !reflect.DeepEqual(members["items"], []any{}) {
		t.Errorf("got %v", members)
	}
}

func TestToolkit_name(t *testing.T) {
	cases := []struct{ configured, title, toolset, want string }{
		{"", "Train Travel API", "trains", "TrainTravelAPI"},
		{"", "GitHub v3 REST API", "", "GitHubV3RESTAPI"},
		{"", "Swagger Petstore - OpenAPI 3.0", "", "SwaggerPetstoreOpenAPI30"},
		{"", "already_a_name", "", "already_a_name"},
		{"", "snake_case title", "", "SnakeCaseTitle"},
		{"", "Zugfahrten für alle", "", "ZugfahrtenFrAlle"},
		{"", "铁路", "trains", "trains"},
		{"", "", "", "Toolkit"},
		{"Trains", "Train Travel API", "t", "Trains"},
		{"my trains", "Train Travel API", "t", "MyTrains"},
		{"!!", "Train Travel API", "t", "TrainTravelAPI"},
		{"", strings.Repeat("very long ", 20), "", strings.Repeat("VeryLong", 8)},
	}
	for _, c := range cases {
		toolset := tools.NewToolset(c.toolset, nil)
		toolset.Title = c.title
		if got := newToolkit(Options{Toolkit: c.configured}, 0, Toolkit{Tools: toolset}).name; got != c.want {
			t.Errorf("configured %q, title %q, toolset %q: %q, want %q", c.configured, c.title, c.toolset, got, c.want)
		}
	}
}

func TestToolkit_version(t *testing.T) {
	cases := []struct{ configured, document, want string }{
		{"", "1.2.3", "1.2.3"},
		{"", "1.2", "1.2.0"},
		{"", "v2", "2.0.0"},
		{"", "1.0.0-beta.2", "1.0.0"},
		{"", "1.2.3.4", "1.2.3"},
		{"", "2024-10-01-preview", "2024.10.1"},
		{"", "2026-09-30.dahlia", "2026.9.30"},
		{"", "007", "7.0.0"},
		{"", "1..2", "1.0.0"},
		{"", "release 3", "3.0.0"},
		{"", "latest", "1.0.0"},
		{"", "", "1.0.0"},
		{"", strings.Repeat("9", 100), strings.Repeat("9", 18) + ".0.0"},
		{"4.5.6", "1.2.3", "4.5.6"},
		{"2024-10", "1.2.3", "2024.10.0"},
		{"2.1", "1.2.3", "2.1.0"},
		{"v 4", "1.2.3", "4.0.0"},
		{"latest", "1.2.3", "1.0.0"},
	}
	for _, c := range cases {
		toolset := tools.NewToolset("t", nil)
		toolset.Version = c.document
		if got := newToolkit(Options{Version: c.configured}, 0, Toolkit{Tools: toolset}).version; got != c.want {
			t.Errorf("configured %q, document %q: %q, want %q", c.configured, c.document, got, c.want)
		}
	}
}

func TestToolkit_description_is_short(t *testing.T) {
	toolset := tools.NewToolset("t", nil)
	toolset.Title = "Trains"
	if got := shortDescription(toolset); got != "Trains" {
		t.Errorf("without a description: %q", got)
	}
	toolset.Description = "One\nparagraph.\r\n\r\nAnother."
	if got := shortDescription(toolset); got != "One paragraph." {
		t.Errorf("the first paragraph: %q", got)
	}
	toolset.Description = strings.Repeat("é", 1000)
	if got := shortDescription(toolset); len(got) > maxToolkitDescription || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestTools_value_schema(t *testing.T) {
	cases := []struct {
		rule   string
		answer tools.Output
		want   string
	}{
		{"JSON of one type", tools.Output{MediaTypes: []string{"application/json"}, Types: []string{"object"}}, `{"type":"object"}`},
		{"JSON of unknown type", tools.Output{MediaTypes: []string{"application/hal+json"}}, `{}`},
		{"any media type", tools.Output{MediaTypes: []string{"*/*"}}, `{}`},
		{"text", tools.Output{MediaTypes: []string{"text/csv"}}, `{"type":"string"}`},
		{"text or binary", tools.Output{MediaTypes: []string{"image/png", "text/csv"}}, `{"type":"string"}`},
		{"binary", tools.Output{MediaTypes: []string{"application/pdf"}}, `{"type":"string","contentEncoding":"base64","contentMediaType":"application/pdf"}`},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			if got := string(appendValueSchema(nil, &c.answer, maxValueSchema)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
