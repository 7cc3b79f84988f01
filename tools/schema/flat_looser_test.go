package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
)

// TestFlat_stubs_accept_more checks that a flat schema accepts each value that its source accepts, wherever a stub
// replaces a definition.
func TestFlat_stubs_accept_more(t *testing.T) {
	for rule, c := range map[string]struct{ schema, value string }{
		"unevaluated beside a recursive reference": {
			`{"properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"v":{"type":"string"},"child":{"$ref":"#/$defs/N","unevaluatedProperties":false}}}}}`,
			`{"n":{"child":{"v":"x"}}}`,
		},
		"additional beside properties that refer": {
			`{"properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"child":{"$ref":"#/$defs/N","properties":{"child":{"$ref":"#/$defs/N"}},"additionalProperties":false}}}}}`,
			`{"n":{"child":{"child":{}}}}`,
		},
		"items after others that refer": {
			`{"$ref":"#/$defs/N","$defs":{"N":{"type":"array","items":{"$ref":"#/$defs/N","prefixItems":[{"$ref":"#/$defs/N"}],"items":false}}}}`,
			`[[[]]]`,
		},
		"then without its if": {
			`{"$ref":"#/$defs/N","$defs":{"N":{"items":{"$ref":"#/$defs/N","if":{"not":{"$ref":"#/$defs/N"}},"then":false,"else":true}}}}`,
			`[[]]`,
		},
	} {
		t.Run(rule, func(t *testing.T) {
			original := compiledSchema(t, jsontext.Value(c.schema))
			if err := original.Validate(valueOf(t, c.value)); err != nil {
				t.Fatalf("the case is wrong: %v", err)
			}
			wantLooser(t, jsontext.Value(c.schema), original, []any{valueOf(t, c.value)})
		})
	}
}

func TestFlat_random_schemas_accept_more(t *testing.T) {
	seeds := uint64(30)
	if testkit.Night() {
		seeds = 10_000
	}
	accepted := 0
	for seed := range seeds {
		g := &instances{Rand: rand.New(rand.NewPCG(seed, 7))}
		rawSchema := g.recursive()
		original := compiledSchema(t, rawSchema)
		values := g.several(t, rawSchema, 12)
		for _, text := range []string{`null`, `"a"`, `1`, `[]`, `{}`, `[[1],"a"]`, `{"a":{"b":{"a":1}}}`, `{"a":{},"b":"a"}`, `[{"a":[]},{"b":1}]`} {
			values = append(values, valueOf(t, text))
		}
		accepted += wantLooser(t, rawSchema, original, values)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if accepted < int(seeds) {
		t.Errorf("only %d values for %d schemas", accepted, seeds)
	}
}

func TestFlat_documents_accept_more(t *testing.T) {
	const sample = 40 // tools of each document
	for name := range testkit.Documents() {
		t.Run(name, func(t *testing.T) {
			toolset, err := tools.Build(testkit.ReadDocument(t, "openapi/"+name+".gz"), tools.BuildOptions{Name: "real", Location: name, ResponseSchemas: true})
			if err != nil {
				t.Fatal(err)
			}
			all := toolset.Tools()
			g := &instances{Rand: rand.New(rand.NewPCG(1, 7))}
			accepted, tried := 0, 0
			for i := 0; i < len(all); i += max(len(all)/sample, 1) {
				for _, rawSchema := range []jsontext.Value{all[i].Definition.InputSchema, all[i].Output.Schema} {
					if !bytes.Contains(rawSchema, []byte(schema.RefKey)) {
						continue
					}
					values := g.several(t, rawSchema, 4)
					tried += len(values)
					accepted += wantLooser(t, rawSchema, compiledSchema(t, rawSchema), values)
				}
			}
			if accepted < tried/3 {
				t.Errorf("only %d of %d values fit the schemas they were made for", accepted, tried)
			}
		})
	}
}

// wantLooser wants the schema to accept, flat and in any room, those of the values
// that it accepts as it is. It returns how many these are.
func wantLooser(t *testing.T, rawSchema jsontext.Value, original *jsonschema.Schema, values []any) int {
	t.Helper()
	values = slices.DeleteFunc(values, func(v any) bool { return original.Validate(v) != nil })
	if len(values) == 0 {
		return 0
	}
	var seen []string
	for _, room := range []int{maxInputSchema, maxValueSchema, 1 << 10, 300, 100, 30} {
		for _, flat := range []jsontext.Value{schema.Flatten(rawSchema, room), schema.FlattenWithin(rawSchema, room)} {
			if flat == nil || slices.Contains(seen, string(flat)) {
				continue
			}
			seen = append(seen, string(flat))
			judge := compiledSchema(t, flat)
			for _, v := range values {
				if err := judge.Validate(v); err != nil {
					t.Errorf("in room for %d, %v is refused: %v\nby   %.2000s\nfrom %.2000s", room, v, err, flat, rawSchema)
				}
			}
		}
	}
	return len(values)
}

func compiledSchema(t *testing.T, rawSchema jsontext.Value) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("case:", valueOf(t, string(rawSchema))); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("case:")
	if err != nil {
		t.Fatalf("%v in %.2000s", err, rawSchema)
	}
	return s
}

func valueOf(t *testing.T, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %.2000s", err, text)
	}
	return v
}

// instances makes schemas, and values that are likely to fit a schema.
type instances struct {
	*rand.Rand
	defs map[string]any
}

// recursive returns a schema of three definitions that refer to each other.
func (g *instances) recursive() jsontext.Value {
	b := fmt.Appendf(nil, `{"properties":{"a":%s,"b":%s},"items":%s,"$defs":{`, g.schema(2), g.schema(2), g.schema(2))
	for i := range 3 {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `"D%d":%s`, i, g.schema(3))
	}
	return append(b, "}}"...)
}

func (g *instances) schema(depth int) string {
	if depth == 0 {
		return []string{`true`, `{"type":"string"}`, `{"$ref":"#/$defs/D0"}`, `{"$ref":"#/$defs/D1"}`, `{"$ref":"#/$defs/D2"}`, `{"$ref":"#/$defs/D0"}`}[g.IntN(6)]
	}
	keywords := map[string]string{}
	if g.IntN(3) == 0 {
		keywords["$ref"] = fmt.Sprintf(`"#/$defs/D%d"`, g.IntN(3))
	}
	for range 1 + g.IntN(4) {
		switch name := randomFlatKeywords[g.IntN(len(randomFlatKeywords))]; name {
		case "type":
			keywords[name] = []string{`"object"`, `"array"`, `["object","string"]`, `["array","object","null"]`}[g.IntN(4)]
		case "const":
			keywords[name] = `{"a":{}}`
		case "description":
			keywords[name] = `"Words."`
		case "required":
			keywords[name] = `["a"]`
		case "maxContains":
			keywords[name] = `1`
		case "properties", "patternProperties", "dependentSchemas":
			keywords[name] = fmt.Sprintf(`{"a":%s,"b":%s}`, g.schema(depth-1), g.schema(depth-1))
		case "allOf", "anyOf", "oneOf", "prefixItems":
			keywords[name] = fmt.Sprintf(`[%s,%s]`, g.schema(depth-1), g.schema(depth-1))
		case "additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems":
			if keywords[name] = "false"; g.IntN(3) == 0 {
				keywords[name] = g.schema(depth - 1)
			}
		default:
			keywords[name] = g.schema(depth - 1)
		}
	}
	var members []string
	for _, name := range append(randomFlatKeywords, "$ref") {
		if value, is := keywords[name]; is {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
			delete(keywords, name)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

var randomFlatKeywords = []string{
	"type", "const", "description", "required", "properties", "properties", "patternProperties", "additionalProperties", "unevaluatedProperties",
	"dependentSchemas", "items", "prefixItems", "contains", "maxContains", "unevaluatedItems", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
	"propertyNames",
}

// several returns so many values for the schema.
func (g *instances) several(t *testing.T, rawSchema jsontext.Value, n int) (values []any) {
	t.Helper()
	parsed := valueOf(t, string(rawSchema))
	if object, is := parsed.(map[string]any); is {
		g.defs, _ = object["$defs"].(map[string]any)
	}
	for range n {
		values = append(values, g.value(parsed, 6))
	}
	return values
}

// value returns a value for the schema, in which so many more may be inside each
// other.
func (g *instances) value(rawSchema any, depth int) any {
	s, _ := rawSchema.(map[string]any)
	if depth < -20 {
		return nil
	}
	if name, is := s["$ref"].(string); is {
		return g.value(g.defs[strings.TrimPrefix(name, schema.DefsPrefix)], depth-1)
	}
	if v, is := s["const"]; is {
		return v
	}
	if list, is := s["enum"].([]any); is && len(list) > 0 {
		return list[g.IntN(len(list))]
	}
	for _, name := range []string{"oneOf", "anyOf"} {
		if list, is := s[name].([]any); is {
			return g.value(list[g.IntN(len(list))], depth-1)
		}
	}
	types, _ := s["type"].(string)
	if list, is := s["type"].([]any); is {
		types, _ = list[g.IntN(len(list))].(string)
	}
	switch {
	case types == "object" || types == "" && (s["properties"] != nil || s["allOf"] != nil):
		return g.object(s, depth)
	case types == "array":
		if s["items"] == nil || depth < 0 && s["minItems"] == nil {
			return []any{}
		}
		return []any{g.value(s["items"], depth-1)}
	case types == "integer" || types == "number":
		if s["minimum"] != nil {
			return s["minimum"]
		}
		return 1
	case types == "boolean":
		return true
	case types == "null":
		return nil
	}
	least, _ := s["minLength"].(json.Number)
	n, _ := least.Int64()
	return strings.Repeat("1", int(min(max(n, 1), 100)))
}

func (g *instances) object(s map[string]any, depth int) any {
	object := map[string]any{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || depth > 0 && g.IntN(max(len(properties)/3, 2)) == 0 {
			object[name] = g.value(properties[name], depth-1)
		}
	}
	parts, _ := s["allOf"].([]any)
	for _, part := range parts {
		inherited, _ := g.value(part, depth-1).(map[string]any)
		maps.Copy(object, inherited)
	}
	return object
}

// TestFlat_work wants flattening to end soon where all that is written is taken
// back again, so that the room never fills.
func TestFlat_work(t *testing.T) {
	const definitions = 12
	rawSchema := []byte(`{"type":"object","properties":{"first":{"$ref":"#/$defs/D0"}},"$defs":{`)
	for i := range definitions {
		if i > 0 {
			rawSchema = append(rawSchema, ',')
		}
		rawSchema = fmt.Appendf(rawSchema, `"D%d":{"type":"object"`, i)
		for _, keyword := range []string{"not", "if", "contains", "oneOf"} {
			rawSchema = fmt.Appendf(rawSchema, `,%q:`, keyword)
			if keyword == "oneOf" {
				rawSchema = append(rawSchema, '[')
			}
			rawSchema = append(rawSchema, `{"properties":{`...)
			for j := range 4 {
				if j > 0 {
					rawSchema = append(rawSchema, ',')
				}
				rawSchema = fmt.Appendf(rawSchema, `"p%d":{"$ref":"#/$defs/D%d"}`, j, (i+1)%definitions)
			}
			rawSchema = append(rawSchema, "}}"...)
			if keyword == "oneOf" {
				rawSchema = append(rawSchema, `],"anyOf":[{}]`...)
			}
		}
		rawSchema = append(rawSchema, '}')
	}
	rawSchema = append(rawSchema, "}}"...)
	if !strictjson.Valid(rawSchema) {
		t.Fatal("the schema of the test is no JSON")
	}
	done := make(chan int, 1)
	go func() {
		schema.Flatten(rawSchema, maxInputSchema)
		schema.FlattenWithin(rawSchema, maxValueSchema)
		done <- schema.Work(rawSchema, maxInputSchema)
	}()
	select {
	case total := <-done:
		// What is begun when there has been enough is reported too: twice.
		if most := 2 * 2 * len(schema.FlatLevels) * schema.WorkPerByte * (maxInputSchema + len(rawSchema)); total > most {
			t.Errorf("%d bytes were read for a schema of %d, want at most %d", total, len(rawSchema), most)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("flattening does not end")
	}
}

// TestFlat_brief_definitions checks that no stub is longer than the definition that it replaces.
func TestFlat_brief_definitions(t *testing.T) {
	rawSchema := `{"type":"object","properties":{"id":{"$ref":"#/$defs/Id"},"key":{"description":"Mine.","$ref":"#/$defs/Id"},"large":{"$ref":"#/$defs/Large"}},` +
		`"$defs":{"Id":{"type":"string","format":"uuid"},"Large":{"type":"string","description":"` + strings.Repeat("x", 100) + `"}}}`
	want := `{"type":"object","properties":{"id":{"type":"string","format":"uuid"},"key":{"description":"Mine.","type":"string","format":"uuid"},` +
		`"large":{"type":"string","description":"Large (details left out)"}}}`
	if got := schema.Flatten(jsontext.Value(rawSchema), 10); string(got) != want {
		t.Errorf("got %s", got)
	}
}
