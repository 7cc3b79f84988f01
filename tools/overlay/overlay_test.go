package overlay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/overlay"
)

func TestMain(m *testing.M) {
	testkit.CollectRarely()
	os.Exit(m.Run())
}

const document = `{
  "openapi": "3.1.0",
  "info": {"title": "Trips", "version": "1"},
  "tags": [{"name": "a"}],
  "paths": {
    "/trips": {
      "get": {"summary": "List", "tags": ["x", "y"], "parameters": [{"name": "q", "in": "query"}]},
      "delete": {"summary": "Delete all"}
    },
    "/big": {"get": {"x-number": 12345678901234567890.10, "type": "string"}}
  }
}`

// actions returns an overlay of version 1.1 with these actions, in YAML.
func actions(text string) string {
	return "overlay: 1.1.0\ninfo: {title: T, version: '1'}\nactions:\n" + text
}

// apply applies overlays to a document and returns the result as compact JSON.
func apply(t *testing.T, document string, overlays ...string) (string, *overlay.Result, error) {
	t.Helper()
	list := make([]*overlay.Overlay, len(overlays))
	for i, text := range overlays {
		o, err := overlay.Read([]byte(text), fmt.Sprintf("%d.yaml", i))
		if err != nil {
			t.Fatal(err)
		}
		list[i] = o
	}
	result, err := overlay.Apply([]byte(document), overlay.Options{}, list...)
	if err != nil {
		return "", nil, err
	}
	return string(result.JSON()), result, nil
}

func TestApply(t *testing.T) {
	for name, c := range map[string]struct{ overlay, has, lacks string }{
		"merge-object": {
			"- target: $.paths['/trips'].get\n  update: {summary: New, x-fairway: {title: A}}",
			`"get":{"summary":"New","tags":["x","y"],"parameters":[{"name":"q","in":"query"}],"x-fairway":{"title":"A"}}`, `"List"`,
		},
		"merge-is-recursive": {"- target: $\n  update: {info: {x-a: 1}, x-b: 2}", `"info":{"title":"Trips","version":"1","x-a":1}`, ""},
		"append-object":      {"- target: $..parameters\n  update: {name: z, in: query}", `"parameters":[{"name":"q","in":"query"},{"name":"z","in":"query"}]`, ""},
		"concatenate-array":  {"- target: $.tags\n  update: [{name: b}, {name: c}]", `"tags":[{"name":"a"},{"name":"b"},{"name":"c"}]`, ""},
		"append-primitive":   {"- target: $.paths['/trips'].get.tags\n  update: z", `["x","y","z"]`, ""},
		"replace-primitive":  {"- target: $.paths.*.*.summary\n  update: Same", `"delete":{"summary":"Same"}`, "List"},
		"replace-with-null":  {"- target: $.info.title\n  update: null", `"title":null`, "Trips"},
		"remove-member":      {"- target: $.paths['/trips'].delete\n  remove: true", `"/big"`, "Delete all"},
		"remove-items":       {"- target: $..tags[?@ == 'x']\n  remove: true", `"tags":["y"]`, `"x"`},
		"remove-many":        {"- target: $.paths.*.*\n  remove: true", `"paths":{"/trips":{},"/big":{}}`, "summary"},
		"remove-wins":        {"- target: $.tags\n  update: {name: b}\n  remove: true", `"paths"`, `"name":"a"`},
		"copy": {
			"- target: $.paths\n  update: {/other: {}}\n- target: $.paths['/other']\n  copy: $.paths['/big']",
			`"/other":{"get":{"x-number":12345678901234567890.10,"type":"string"}}`, "",
		},
		"copy-into-itself": {"- target: $.info\n  copy: $.paths['/trips'].delete", `"info":{"title":"Trips","version":"1","summary":"Delete all"}`, ""},
		"copy-root-inside": {"- target: $.info\n  copy: $", `"info":{"title":"Trips","version":"1","openapi":"3.1.0","info":{`, ""},
		"in-order":         {"- target: $.info\n  update: {x-a: 1}\n- target: $.info['x-a']\n  update: 2", `"x-a":2`, ""},
		"numbers-and-order-stay": {
			"- target: $.info\n  update: {x-n: 1.50}",
			`{"openapi":"3.1.0","info":{"title":"Trips","version":"1","x-n":1.50},"tags":[{"name":"a"}],"paths":{"/trips":{"get":`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, result, err := apply(t, document, actions(c.overlay))
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Warnings) > 0 {
				t.Errorf("warnings: %v", result.Warnings)
			}
			if !strings.Contains(got, c.has) || c.lacks != "" && strings.Contains(got, c.lacks) {
				t.Errorf("got %s\nwant %s and not %q", got, c.has, c.lacks)
			}
		})
	}
}

// A filter sees what the actions before it changed, at each depth.
func TestApply_filters_see_earlier_actions(t *testing.T) {
	const all = "- target: $..[?@.x]\n  remove: true\n" // so that everything has been read once
	for name, c := range map[string]struct{ document, overlay, want string }{
		"member":    {`{"a":{"b":{"c":1}}}`, "- target: $.a.b\n  update: {d: {x: 1}}", `{"a":{"b":{"c":1}}}`},
		"nested":    {`{"a":{"b":{"c":{}}}}`, "- target: $\n  update: {a: {b: {c: {x: 1}}}}", `{"a":{"b":{}}}`},
		"item":      {`{"a":[{"b":[]}]}`, "- target: $.a[0].b\n  update: {x: 1}", `{"a":[{"b":[]}]}`},
		"array":     {`{"a":{"b":[]}}`, "- target: $.a\n  update: {b: [{x: 1}, {y: 1}]}", `{"a":{"b":[{"y":1}]}}`},
		"primitive": {`{"a":[1,2]}`, "- target: $.a[0]\n  update: 2\n- target: $.a[?@ == 2]\n  remove: true", `{"a":[]}`},
		"removed":   {`{"a":[{"y":1},{"z":1}]}`, "- target: $.a[0]\n  remove: true\n- target: $.a[?@.y || @.z]\n  update: {w: 1}", `{"a":[{"z":1,"w":1}]}`},
		"copied":    {`{"a":{"y":{"z":1}},"b":{}}`, "- target: $.b\n  copy: $.a\n- target: $.b[?@.z]\n  remove: true", `{"a":{"y":{"z":1}},"b":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := apply(t, c.document, actions(all+c.overlay+"\n"+all))
			if err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestApply_several_overlays_in_order(t *testing.T) {
	got, _, err := apply(t, document,
		"overlay: 1.0.0\ninfo: {title: A, version: '1'}\nactions: [{target: $, update: {x-a: {b: 1}}}]",
		`{"overlay": "1.1.0", "info": {"title": "B", "version": "1"}, "extends": "trips.json", "x-more": true, "actions": [{"target": "$['x-a'].b", "update": 2}]}`)
	if err != nil || !strings.Contains(got, `"x-a":{"b":2}`) {
		t.Errorf("%v: %s", err, got)
	}
}

func TestApply_warns_of_what_selects_nothing(t *testing.T) {
	text := actions("- target: $.info\n  update: {x-a: 1}\n\n- description: gone\n  target: $.paths['/gone']\n  remove: true\n")
	_, result, err := apply(t, document, text)
	if err != nil || len(result.Warnings) != 1 {
		t.Fatalf("%v, %v", err, result)
	}
	if w := result.Warnings[0]; w.Overlay != "0.yaml" || w.Line != 7 || !testkit.ContainsAll(w.String(), "0.yaml:7 $.paths['/gone']") {
		t.Errorf("got %q", w)
	}
}

func TestApply_rejects(t *testing.T) {
	for name, c := range map[string]struct{ overlay, words string }{
		"class":          {"- target: $.info\n  update: [1]", "0.yaml:4 object array"},
		"class-inside":   {"- target: $.paths['/big'].get\n  update:\n    type: [string, 'null']", "0.yaml:4 $['paths']['/big']['get']['type'] remove"},
		"mixed":          {"- target: $.info.*\n  update: x\n- target: $.*\n  update: x", "0.yaml:6 $['openapi'] $['info']"},
		"root-removed":   {"- target: $\n  remove: true", "0.yaml:4 removed"},
		"copy-of-none":   {"- target: $.info\n  copy: $.nothing", "0.yaml:4 $.nothing 0"},
		"copy-of-many":   {"- target: $.info\n  copy: $.paths.*", "0.yaml:4 $.paths.* 2"},
		"recursive-grow": {strings.Repeat("- target: $.info\n  update: {a: {}}\n- target: $.info.a\n  copy: $\n", 40), "1000000 target"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := apply(t, document, actions(c.overlay))
			if err == nil || !testkit.ContainsAll(err.Error(), c.words) {
				t.Errorf("%v, want the words %q", err, c.words)
			}
		})
	}
}

func TestApply_primitive_target_needs_version_1_1(t *testing.T) {
	_, _, err := apply(t, document, "overlay: 1.0.0\ninfo: {title: A, version: '1'}\nactions: [{target: $.info.title, update: B}]")
	if err == nil || !testkit.ContainsAll(err.Error(), "1.1.0") {
		t.Error(err)
	}
}

func TestApply_is_limited(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 90) + "1" + strings.Repeat("}", 90)
	wide := `{"list":[` + strings.Repeat("{},", 250_000) + `{}]}`
	for name, c := range map[string]struct{ document, overlay, words string }{
		"matches": {wide, "- target: $.list.*\n  update: {a: 1}", "200000 path"},
		"added":   {wide, "- target: $.list[0:150000]\n  update: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1}", "1000000 target"},
		"steps":   {`{"a":` + deep + `,"b":` + wide + `}`, "- target: $.b.list[?$.a..z || $.a..y || $.a..x || $.a..w || $.a..v]\n  remove: true", "100000000 path"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := apply(t, c.document, actions(c.overlay))
			if err == nil || !testkit.ContainsAll(err.Error(), c.words) {
				t.Errorf("%v, want the words %q", err, c.words)
			}
		})
	}
}

func TestApply_to_YAML(t *testing.T) {
	yaml := "# comment\nopenapi: 3.1.0\nx-base: &base {a: 1}\nx-one: *base\nx-two: *base\nx-number: 0x10\n"
	got, result, err := apply(t, yaml, actions("- target: $['x-one']\n  update: {b: 2}"))
	if err != nil || got != `{"openapi":"3.1.0","x-base":{"a":1},"x-one":{"a":1,"b":2},"x-two":{"a":1},"x-number":16}` {
		t.Errorf("%v: %s", err, got)
	}
	text, err := result.Text()
	if want := "openapi: \"3.1.0\"\nx-base:\n  a: 1\nx-one:\n  a: 1\n  b: 2\nx-two:\n  a: 1\nx-number: 16\n"; err != nil || string(text) != want {
		t.Errorf("%v:\n%s", err, text)
	}
}

func TestResult_Text_is_indented_JSON(t *testing.T) {
	_, result, err := apply(t, `{"a": 1.0, "b": [{}, "\u0041"]}`, actions("- target: $\n  update: {c: true}"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := result.Text()
	if want := "{\n  \"a\": 1.0,\n  \"b\": [\n    {},\n    \"\\u0041\"\n  ],\n  \"c\": true\n}\n"; err != nil || string(text) != want {
		t.Errorf("%v:\n%s", err, text)
	}
}

func TestRead_rejects(t *testing.T) {
	head := "overlay: 1.1.0\ninfo: {title: T, version: '1'}\n"
	for name, c := range map[string]struct{ text, words string }{
		"empty":            {"", "o.yaml empty"},
		"not-YAML":         {head + "actions: [", "o.yaml:3"},
		"not-JSON":         {"{\n\"overlay\": }", "o.yaml:2"},
		"duplicate":        {head + "actions:\n- target: $\n  update: {}\n  update: {}", "o.yaml:6 update 5"},
		"duplicate-JSON":   {"{\"overlay\": \"1.1.0\",\n\"overlay\": \"1.1.0\"}", "o.yaml duplicate"},
		"deep":             {head + "actions: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "o.yaml:3 100"},
		"list":             {"- a", "o.yaml:1 object"},
		"OpenAPI":          {"openapi: 3.1.0", "o.yaml:1 overlay"},
		"no-version":       {"info: {}", "o.yaml:1 overlay"},
		"version-number":   {"\noverlay: 1.1", "o.yaml:2 1.1.0"},
		"version-short":    {"overlay: '1.1'", "o.yaml:1 1.1.0"},
		"version-later":    {"overlay: 2.0.0", "o.yaml:1 2.0.0 1.1.0"},
		"no-info":          {"overlay: 1.1.0", "o.yaml:1 info"},
		"no-title":         {"overlay: 1.1.0\ninfo: {version: '1'}", "o.yaml:2 title"},
		"version-of-info":  {"overlay: 1.1.0\ninfo:\n  title: T\n  version: 1", "o.yaml:4 info.version"},
		"unknown":          {head + "action: []", "o.yaml:3 action actions"},
		"no-actions":       {head + "extends: a.yaml", "o.yaml:1 actions"},
		"no-action":        {head + "actions: []", "o.yaml:3 actions"},
		"action-text":      {head + "actions: [a]", "o.yaml:3 actions[0] target"},
		"no-target":        {head + "actions:\n- remove: true", "o.yaml:4 actions[0] target"},
		"target-list":      {head + "actions:\n- target: [a]\n  remove: true", "o.yaml:4 actions[0].target"},
		"target-syntax":    {head + "actions:\n- target: $\n  remove: true\n- remove: true\n  target: $.x-a", "o.yaml:7 actions[1].target 4 $.x-a ['name']"},
		"unknown-field":    {head + "actions:\n- target: $\n  updates: {}", "o.yaml:5 actions[0].updates update"},
		"remove-text":      {head + "actions:\n- target: $\n  remove: 'yes'", "o.yaml:5 actions[0].remove"},
		"nothing":          {head + "actions:\n- target: $", "o.yaml:4 actions[0] update"},
		"remove-false":     {head + "actions:\n- target: $\n  remove: false", "o.yaml:4 actions[0] update"},
		"two":              {head + "actions:\n- target: $\n  update: {}\n  copy: $", "o.yaml:4 actions[0] copy"},
		"copy-in-1.0":      {"overlay: 1.0.0\ninfo: {title: T, version: '1'}\nactions:\n- target: $\n  copy: $", "o.yaml:5 actions[0].copy 1.1.0"},
		"copy-syntax":      {head + "actions:\n- target: $\n  copy: a", "o.yaml:5 actions[0].copy"},
		"JSON":             {"{\"overlay\": \"1.1.0\",\n\t\"info\": {\"title\": \"T\", \"version\": \"1\"},\n\"actions\": [{\"target\": \"$\", \"update\": 1},\n{\n\"target\": \"$\",\n\"remove\": 1}]}", "o.yaml:6 actions[1].remove"},
		"too-many-actions": {head + "actions:\n" + strings.Repeat("- {target: $, remove: true}\n", 10_001), "o.yaml:3 10000"},
		"too-large":        {head + strings.Repeat("#", overlay.MaxSize), "o.yaml 4194304"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := overlay.Read([]byte(c.text), "o.yaml")
			if err == nil || !testkit.ContainsAll(err.Error(), c.words) {
				t.Errorf("%v, want the words %q", err, c.words)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.overlay.yaml")
	if err := os.WriteFile(path, []byte(actions("- target: $\n  update: {}\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := overlay.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := [...]string{o.Name, o.Title, o.Version}, [...]string{path, "T", "1"}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, overlay.MaxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, large, filepath.Join(dir, "none")} {
		if _, err := overlay.ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(actions("- target: $.paths.*\n  update: {a: [1]}\n- target: $.a\n  copy: $\n- target: $..b\n  remove: true")))
	f.Add([]byte(`{"overlay":"1.0.0","info":{"title":"T","version":"1"},"actions":[{"target":"$","update":{"info":{"a":null}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := overlay.Read(data, "o")
		if err != nil {
			return
		}
		if result, err := overlay.Apply([]byte(document), overlay.Options{}, o); err == nil {
			if _, err := result.Text(); err != nil {
				t.Error(err)
			}
		}
	})
}

// What only the operator may say is removed from the document before its overlays are applied.
func TestApply_removes_what_only_the_operator_may_say(t *testing.T) {
	const document = `{"openapi":"3.1.0","paths":{"/a":{"post":{"x-fairway":{"annotations":{"readOnlyHint":true,"idempotentHint":true},"select":".a"},
		"requestBody":{"schema":{"properties":{"x-fairway":{},"properties":{"x-fairway":{"hide":true}}}}}}},"/b":{"post":{}}}}`
	o, err := overlay.Read([]byte("overlay: 1.0.0\ninfo: {title: T, version: '1'}\nactions: [{target: \"$.paths['/b'].post\", update: {x-fairway: {annotations: {readOnlyHint: true}}}}]"), "o.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for ignore, want := range map[bool]string{
		false: `{"openapi":"3.1.0","paths":{"/a":{"post":{"x-fairway":{"annotations":{"idempotentHint":true},"select":".a"},` +
			`"requestBody":{"schema":{"properties":{"x-fairway":{},"properties":{"x-fairway":{"hide":true}}}}}}},"/b":{"post":{"x-fairway":{"annotations":{"readOnlyHint":true}}}}}}`,
		true: `{"openapi":"3.1.0","paths":{"/a":{"post":{` +
			`"requestBody":{"schema":{"properties":{"x-fairway":{},"properties":{}}}}}},"/b":{"post":{"x-fairway":{"annotations":{"readOnlyHint":true}}}}}}`,
	} {
		result, err := overlay.Apply([]byte(document), overlay.Options{IgnoreExtensions: ignore}, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(result.JSON()); got != want {
			t.Errorf("ignore %t: got\n%s\nwant\n%s", ignore, got, want)
		}
	}
}
