package schemaview_test

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/schemaview"
)

func TestDefinitionName(t *testing.T) {
	for ref, want := range map[string]string{
		"#/$defs/Trip":       "Trip",
		"#/$defs/a~1b~0c":    "a/b~c",
		"#/$defs/a%20b":      "a b",
		"#/definitions/Trip": "",
		"Trip":               "",
	} {
		name, ok := schemaview.DefinitionName(ref)
		if name != want && ok || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", ref, name, ok, want)
		}
	}
}

func TestResolve(t *testing.T) {
	root := jsontext.Value(`{"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"type":"string"},"C":{"$ref":"#/$defs/C"}}}`)
	for schema, want := range map[string]string{
		`{"$ref":"#/$defs/A"}`: `{"type":"string"}`,
		`{"$ref":"#/$defs/D"}`: ``,
		`{"$ref":"#/$defs/C"}`: `{"$ref":"#/$defs/C"}`,
		`{"type":"number"}`:    `{"type":"number"}`,
		`true`:                 `true`,
	} {
		if got := schemaview.Resolve(root, jsontext.Value(schema)); string(got) != want {
			t.Errorf("%s: got %s, want %s", schema, got, want)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for schema, want := range map[string][]string{
		`{"type":"string"}`:          {"string"},
		`{"type":["array","null"]}`:  {"array", "null"},
		`{"type":{}}`:                nil,
		`{"properties":{"type":{}}}`: nil,
		`true`:                       nil,
	} {
		if got := slices.Collect(schemaview.TypeNames(jsontext.Value(schema))); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", schema, got, want)
		}
	}
}

func TestAppendWithout(t *testing.T) {
	names := []string{"a", "b\"c"}
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{},"b":{},"b\"c":{}},"required":["a","b"]}`: `{"type":"object","properties":{"b":{}},"required":["b"]}`,
		`{"required":["a"],"properties":{"a":{}},"$defs":{"a":{}}}`:                     `{"properties":{},"$defs":{"a":{}}}`,
		`{}`:   `{}`,
		`true`: `true`,
		``:     ``,
	} {
		if got := schemaview.AppendWithout(nil, jsontext.Value(schema), names); string(got) != want {
			t.Errorf("%s: got %s, want %s", schema, got, want)
		}
	}
}
