package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Rooms for the schema of the arguments and of the answer of one tool, in bytes.
const (
	maxInputSchema = 64 << 10
	maxValueSchema = 8 << 10
)

// node is a definition that refers to itself.
const node = `"$defs":{"Node":{"type":"object","description":"A node.","properties":{"name":{"type":"string"},"next":{"$ref":"#/$defs/Node"}}}}`

func TestFlat(t *testing.T) {
	flatNode := `"type":"object","properties":{"name":{"type":"string"},"next":{"type":"object","description":"Node, as above"}}`
	cases := []struct{ rule, schema, want string }{
		{"without references it stays as it is", `{"type":"object", "properties":{}}`, `{"type":"object", "properties":{}}`},
		{
			"a copy stands for a reference", `{"type":"array","items":{"$ref":"#/$defs/A"},"$defs":{"A":{"type":"string"}}}`,
			`{"type":"array","items":{"type":"string"}}`,
		},
		{
			"a reference alone, to a reference", `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/B"},"B":{"type":"string"}}}`,
			`{"type":"string"}`,
		},
		{"recursion ends with a stub", `{"items":{"$ref":"#/$defs/Node"},` + node + `}`, `{"items":{"type":"object","description":"A node.",` + flatNode[len(`"type":"object",`):] + `}}`},
		{
			"what is said beside a reference comes first", `{"items":{"description":"The first.","$ref":"#/$defs/Node"},` + node + `}`,
			`{"items":{"description":"The first.",` + flatNode + `}}`,
		},
		{
			"what a reference is narrowed by is kept beside it", `{"minLength":2,"$ref":"#/$defs/A","$defs":{"A":{"type":"string","minLength":1}}}`,
			`{"minLength":2,"allOf":[{"type":"string","minLength":1}]}`,
		},
		{
			"and in the allOf that there is", `{"minLength":2,"allOf":[{"maxLength":3}],"$ref":"#/$defs/A","$defs":{"A":{"type":"string"}}}`,
			`{"minLength":2,"allOf":[{"maxLength":3},{"type":"string"}]}`,
		},
		{
			"a oneOf with a stub may be more than one",
			`{"$ref":"#/$defs/A","$defs":{"A":{"oneOf":[{"type":"string"},{"items":{"$ref":"#/$defs/A"}}]}}}`,
			`{"anyOf":[{"type":"string"},{"items":{"description":"A, as above"}}]}`,
		},
		{
			"a not with a stub would refuse too much",
			`{"$ref":"#/$defs/A","$defs":{"A":{"type":"array","not":{"items":{"$ref":"#/$defs/A"}}}}}`, `{"type":"array"}`,
		},
		{
			"a keyword beside a stub is not unevaluated",
			`{"$ref":"#/$defs/A","$defs":{"A":{"unevaluatedProperties":false,"properties":{"a":{"$ref":"#/$defs/A"}}}}}`,
			`{"properties":{"a":{"description":"A, as above"}}}`,
		},
		{
			"names and values are no references",
			`{"properties":{"$ref":{"type":"string"},"a":{"$ref":"#/$defs/A"}},"const":{"$ref":"x"},"$defs":{"A":{"type":"null"}}}`,
			`{"properties":{"$ref":{"type":"string"},"a":{"type":"null"}},"const":{"$ref":"x"}}`,
		},
		{"a reference that leads nowhere", `{"items":{"$ref":"#/$defs/A"}}`, `{"items":{"description":"A (details left out)"}}`},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			got := schema.Flatten(jsontext.Value(c.schema), maxInputSchema)
			if string(got) != c.want {
				t.Errorf("input:\ngot  %s\nwant %s", got, c.want)
			}
			if got = schema.FlattenWithin(jsontext.Value(c.schema), maxValueSchema); string(got) != c.want {
				t.Errorf("output:\ngot  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestFlat_room wants a schema to be shown less deeply where there is no room for
// all of it. Each of 30 definitions has two references to the next.
func TestFlat_room(t *testing.T) {
	rawSchema := []byte(`{"type":"object","properties":{"first":{"$ref":"#/$defs/D0"}},"$defs":{`)
	for i := range 30 {
		rawSchema = fmt.Appendf(rawSchema, `"D%d":{"type":"object","description":"Text %s","properties":{"a":{"$ref":"#/$defs/D%d"},"b":{"$ref":"#/$defs/D%d"}}},`,
			i, strings.Repeat("x", 50), i+1, i+1)
	}
	rawSchema = append(rawSchema, `"D30":{"type":"string"}}}`...)
	if !strictjson.Valid(rawSchema) {
		t.Fatal("the schema of the test is no JSON")
	}
	for _, room := range []int{100 << 10, 10 << 10, 1 << 10, 200, 100, 10} {
		input, output := schema.Flatten(rawSchema, room), schema.FlattenWithin(rawSchema, room)
		if room >= 200 && (len(input) > room || len(output) == 0) || len(output) > room {
			t.Errorf("room for %d: an input of %d and an output of %d", room, len(input), len(output))
		}
		testkit.WantFlat(t, input)
		if output != nil {
			testkit.WantFlat(t, output)
		}
		if room == 100 && string(output) != `{"type":"object","properties":{"first":{"type":"object","description":"D0 (details left out)"}}}` {
			t.Errorf("room for %d: %s", room, output)
		}
	}
}
