package library

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

func TestText_becomes_the_type_of_its_argument(t *testing.T) {
	called := &tools.Tool{Definition: tools.Definition{InputSchema: []byte(`{"$defs":{"n":{"type":"number"},"loop":{"$ref":"#/$defs/loop"}}}`)}}
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"string"}`, `7`, `"7"`},
		{`{}`, `7`, `"7"`},
		{`true`, `7`, `"7"`},
		{`{"type":"integer"}`, `7`, `7`},
		{`{"type":"integer"}`, `07`, `"07"`},
		{`{"type":"integer"}`, `seven`, `"seven"`},
		{`{"type":"integer"}`, `7,"x":1`, `"7,\"x\":1"`},
		{`{"type":"boolean"}`, `true`, `true`},
		{`{"type":["boolean","null"]}`, `null`, `null`},
		{`{"type":["integer","string"]}`, `7`, `"7"`},
		{`{"$ref":"#/$defs/n"}`, `1.5`, `1.5`},
		{`{"$ref":"#/$defs/loop"}`, `1.5`, `"1.5"`},
		{`{"type":"array","items":{"type":"integer"}}`, `1,2`, `[1,2]`},
		{`{"type":"array","items":{"type":"string"}}`, `a,b`, `["a","b"]`},
		{`{"type":"array"}`, `["a"]`, `["a"]`},
		{`{"type":"object"}`, `{"a":1}`, `{"a":1}`},
		{`{"type":"object"}`, `{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`},
	} {
		got := string(appendArgument(nil, &tools.Argument{Schema: []byte(c.schema)}, called, c.value))
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s as %s is %s, want %s", c.value, c.schema, got, c.want)
		}
	}
}

func TestChosen_operations_are_resources(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: T, version: '1'}
paths:
  /a: {get: {operationId: a, tags: [x], description: d, responses: {'200': {description: ok}}}}
  /b: {get: {operationId: b, description: d, responses: {'200': {description: ok}}}, post: {operationId: c, tags: [x], description: d, responses: {'200': {description: ok}}}}
  /h: {get: {operationId: h, tags: [x], description: d, parameters: [{name: H, in: header, required: true, schema: {type: string}}], responses: {'200': {description: ok}}}}
  /w/{path=**}: {get: {operationId: w, tags: [z], description: d, responses: {'200': {description: ok}}}}
  /q: {get: {operationId: q, tags: [y], description: d, parameters: [{name: q, in: query, required: true, schema: {type: string}}], responses: {'200': {description: ok}}}}
`
	toolset, err := tools.Build([]byte(document), tools.BuildOptions{Name: "3 things.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	for rule, c := range map[string]struct {
		options LibraryOptions
		want    string
	}{
		"none":      {LibraryOptions{}, ""},
		"tag":       {LibraryOptions{Operations: []build.Selector{{By: "tag", Value: "x"}}}, "api:///a"},
		"segments":  {LibraryOptions{Operations: []build.Selector{{By: "tag", Value: "z"}}}, "api:///w/{+path}"},
		"operation": {LibraryOptions{Operations: []build.Selector{{By: "operation", Value: "q"}}}, "api:///q{?q}"},
		"path":      {LibraryOptions{Operations: []build.Selector{{By: "path", Value: "/b"}}}, "api:///b"},
		"all":       {LibraryOptions{Operations: []build.Selector{{By: "path", Value: "**"}}}, "api:///a api:///b api:///w/{+path} api:///q{?q}"},
	} {
		t.Run(rule, func(t *testing.T) {
			lib, err := NewLibrary(c.options)
			if err != nil {
				t.Fatal(err)
			}
			s := NewIndex(lib, toolset, nil)
			var uris []string
			for _, r := range append(s.Resources, s.Templates...) {
				uri := r.uri
				if r.template != nil {
					uri = r.template.text
				}
				uris = append(uris, uri)
			}
			if got := strings.Join(uris, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
