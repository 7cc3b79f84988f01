package tools

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/build"
)

const searched = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
	"/items":{"get":{"operationId":"search","parameters":[{"name":"q","in":"query","required":true,"schema":{"type":"string"}}],
		"responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"type":"object","required":["a"]}}}}}}},
	"/own":{"get":{"operationId":"own","parameters":[{"name":"fields","in":"query","schema":{"type":"integer"}}]}},
	"/body":{"post":{"operationId":"body","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"a":{"type":"string"}}}}}}}}}}`

func TestFields_argument(t *testing.T) {
	set := buildTools(t, searched, BuildOptions{ResponseSchemas: true, Shapes: []build.Shape{{Tool: build.AllTools, Fields: on()}}})
	search, _ := set.Tool("search")
	if !search.Output.Fields || search.Output.Schema != nil {
		t.Errorf("got fields: %t and the schema of the response %s; want true and none", search.Output.Fields, search.Output.Schema)
	}
	if n, s := len(search.Definition.Arguments), search.Definition.InputSchema; n != 1 || !strictjson.HasMember(strictjson.MemberOf(s, "properties"), FieldsArgument) {
		t.Errorf("got %d arguments, want 1; got the schema %s, want one with %s", n, s, FieldsArgument)
	}
	for arguments, want := range map[string]string{`{"q":"x","fields":"a.b,c"}`: "a.b,c", `{"q":"x"}`: "", `{"q":"x","fields":null}`: ""} {
		call, err := search.Bind([]byte(arguments))
		if err != nil {
			t.Fatalf("%s: %v", arguments, err)
		}
		r, err := call.Request(context.Background())
		if err != nil || r.URL.RawQuery != "q=x" {
			t.Errorf("%s: request %v, %v; want no trace of fields", arguments, r.URL, err)
		}
		if got := call.Fields(); got != want {
			t.Errorf("%s: fields %q, want %q", arguments, got, want)
		}
	}
	for _, arguments := range []string{`{"q":"x","fields":7}`, `{"q":"x","fields":["a"]}`, `{"fields":"a"}`} {
		if _, err := search.Bind([]byte(arguments)); err == nil {
			t.Errorf("%s is accepted", arguments)
		}
	}
	own, _ := set.Tool("own")
	if own.Output.Fields || !slices.ContainsFunc(own.Definition.Arguments, func(a Argument) bool { return a.Name == FieldsArgument && a.In == InQuery }) {
		t.Errorf("a tool with an argument of its own has %v", own.Definition.Arguments)
	}
	body, _ := set.Tool("body")
	call, err := body.Bind([]byte(`{"a":"x","fields":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := call.Request(context.Background())
	if err != nil || r.ContentLength != int64(len(`{"a":"x"}`)) || r.Method != http.MethodPost {
		t.Errorf("request of %d bytes, %v; want fields not to be in the body", r.ContentLength, err)
	}
}

func TestSelect_has_no_response_schema(t *testing.T) {
	set := buildTools(t, searched, BuildOptions{ResponseSchemas: true, Shapes: []build.Shape{{Tool: "search", Select: ".a"}}})
	if search, _ := set.Tool("search"); search.Output.Schema != nil || search.Output.Types != nil || search.Output.Select == nil {
		t.Errorf("got %s, %v", search.Output.Schema, search.Output.Types)
	}
}
