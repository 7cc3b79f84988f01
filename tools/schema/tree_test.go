package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/schema"
)

// parseTree returns a schema, which must be valid.
func parseTree(t *testing.T, text string) *schema.Root {
	t.Helper()
	root, err := schema.Parse(jsontext.Value(text))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestParse_rejects_invalid_text(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         `{"type":`,
		"a name twice":    `{"type":"string","type":"number"}`,
		"deep nesting":    strings.Repeat(`{"items":`, 2000) + `true` + strings.Repeat(`}`, 2000),
		"a large text":    `"` + strings.Repeat("a", 17<<20) + `"`,
		"nothing":         ``,
		"an invalid text": "{\"title\":\"\xff\"}",
	} {
		root, err := schema.Parse(jsontext.Value(text))
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if string(root.Text) != "true" {
			t.Errorf("%s: got %.50s, want true", name, root.Text)
		}
	}
}

// TestParse_keeps_keywords checks that unknown keywords, the order and the digits of numbers are kept.
func TestParse_keeps_keywords(t *testing.T) {
	root := parseTree(t, `{"x-own":{"properties":{"a":1}},"maximum":1.000000000000000000001,"properties":{"b":{"$ref":"#/$defs/c"},"a":true},"items":[]}`)
	var names []string
	for _, k := range root.Keywords {
		names = append(names, k.Name)
	}
	if got := strings.Join(names, " "); got != "x-own maximum properties items" {
		t.Errorf("keywords: got %s", got)
	}
	if got := string(root.Value("maximum")); got != "1.000000000000000000001" {
		t.Errorf("maximum: got %s", got)
	}
	if got := root.Parts("x-own"); got != nil {
		t.Errorf("x-own has %d schemas, want none", len(got))
	}
	if got := root.Parts("items"); got != nil {
		t.Errorf("items has %d schemas, want none", len(got))
	}
	if got := root.Parts("properties"); len(got) != 2 || got[0].Name != "b" {
		t.Errorf("properties: got %v", got)
	}
}

func TestTree_Ref(t *testing.T) {
	for ref, want := range map[string]string{
		"#/$defs/Trip":       "Trip",
		"#/$defs/a~1b~0c":    "a/b~c",
		"#/$defs/a%20b":      "a b",
		"#/definitions/Trip": "",
		"Trip":               "",
	} {
		name, ok := parseTree(t, `{"$ref":"`+ref+`"}`).Ref()
		if name != want && ok || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", ref, name, ok, want)
		}
	}
}

func TestRoot_Resolve(t *testing.T) {
	root := `{"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"type":"string"},"C":{"$ref":"#/$defs/C"}}}`
	for part, want := range map[string]string{
		`{"$ref":"#/$defs/A"}`: `{"type":"string"}`,
		`{"$ref":"#/$defs/C"}`: `{"$ref":"#/$defs/C"}`,
		`{"type":"number"}`:    `{"type":"number"}`,
		`true`:                 `true`,
	} {
		_, got := schema.Open(jsontext.Value(root), jsontext.Value(part))
		if got == nil || string(got.Text) != want {
			t.Errorf("%s: got %v, want %s", part, got, want)
		}
	}
	if _, got := schema.Open(jsontext.Value(root), jsontext.Value(`{"$ref":"#/$defs/D"}`)); got != nil {
		t.Errorf("a missing target: got %s, want nil", got.Text)
	}
}

func TestTree_Types(t *testing.T) {
	for text, want := range map[string][]string{
		`{"type":"string"}`:          {"string"},
		`{"type":["array","null"]}`:  {"array", "null"},
		`{"type":{}}`:                nil,
		`{"properties":{"type":{}}}`: nil,
		`true`:                       nil,
	} {
		if got := parseTree(t, text).Types(); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestEdit_removes_properties(t *testing.T) {
	edit := schema.Edit{Remove: []string{"a", "b\"c"}}
	for text, want := range map[string]string{
		`{"type":"object","properties":{"a":{},"b":{},"b\"c":{}},"required":["a","b"]}`: `{"type":"object","properties":{"b":{}},"required":["b"]}`,
		`{"required":["a"],"properties":{"a":{}},"$defs":{"a":{}}}`:                     `{"properties":{},"$defs":{"a":{}}}`,
		`{}`:   `{}`,
		`true`: `true`,
		``:     ``,
	} {
		if got := edit.Apply(jsontext.Value(text)); string(got) != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestPrune(t *testing.T) {
	for text, want := range map[string]string{
		`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{},"c":{"$ref":"#/$defs/a"}}}`: `{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{}}}`,
		`{"items":true,"$defs":{"a":{}}}`: `{"items":true}`,
		`{"items":true}`:                  `{"items":true}`,
		`{"items":`:                       `{"items":`,
	} {
		if got := schema.Prune(jsontext.Value(text)); string(got) != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// FuzzParse checks that the keywords and parts of a schema are all of its text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"anyOf":[true,{"not":{}}]}}}`,
		`{"items":[{}],"prefixItems":{},"properties":[],"$ref":1}`, `[]`, `{"enum":[1e400,{"$ref":"x"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		root, err := schema.Parse(text)
		if err != nil {
			return
		}
		var write func(tree *schema.Tree) []byte
		write = func(tree *schema.Tree) []byte {
			if tree.Text.Kind() != '{' {
				return tree.Text
			}
			var object strictjson.ObjectBuilder
			for _, k := range tree.Keywords {
				for _, part := range k.Parts {
					write(part.Tree)
				}
				object.Add(k.Name, k.Value)
			}
			return object.Close()
		}
		again, err := schema.Parse(write(root.Tree))
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Keywords) != len(root.Keywords) {
			t.Errorf("%d keywords became %d", len(root.Keywords), len(again.Keywords))
		}
		root.Find(root.Tree, "a")
		schema.Relax(schema.Prune(root.Text))
	})
}
