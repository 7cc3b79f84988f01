package tools

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/schema"
)

// TestMaxSchema_accepts_all_that_the_full_schema_accepts builds documents of random
// schemas with smaller and smaller limits, and holds random arguments to them.
func TestMaxSchema_accepts_all_that_the_full_schema_accepts(t *testing.T) {
	accepted, simplified := 0, 0
	for seed := range uint64(150) {
		g := &schemaGenerator{rand.New(rand.NewPCG(seed, 3))}
		document := g.document()
		full := buildTools(t, document, BuildOptions{MaxSchema: -1}).Tools()[0]
		judge, err := schema.Compile(full.Definition.InputSchema)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var values []any
		for range 30 {
			value := g.object(3)
			if judge.Validate(value) == nil {
				values = append(values, value)
			}
		}
		accepted += len(values)
		for _, limit := range []int{len(full.Definition.InputSchema) - 1, len(full.Definition.InputSchema) / 2, 1 << 10, 500, 300, 200, 100, 20} {
			tool := buildTools(t, document, BuildOptions{MaxSchema: limit}).Tools()[0]
			if tool.Definition.Simplified {
				simplified++
			}
			if len(tool.Definition.InputSchema) > max(limit, len(`{"type":"object"}`)) {
				t.Errorf("seed %d: %d bytes with a limit of %d", seed, len(tool.Definition.InputSchema), limit)
			}
			if !bytes.Equal(tool.FullSchema(), full.Definition.InputSchema) && tool.Definition.full != nil {
				checked, err := schema.Compile(tool.FullSchema())
				for _, value := range values {
					if err != nil || checked.Validate(value) != nil {
						t.Errorf("seed %d: arguments are not checked by the full schema: %v", seed, err)
					}
				}
			}
			if err := strictjson.Check(tool.Definition.InputSchema); err != nil || bytes.Contains(tool.Definition.InputSchema, []byte("$stub")) {
				t.Errorf("seed %d: %v in %s", seed, err, tool.Definition.InputSchema)
			}
			listed, err := schema.Compile(tool.Definition.InputSchema)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, tool.Definition.InputSchema)
			}
			for _, value := range values {
				if err := listed.Validate(value); err != nil {
					t.Errorf("seed %d, limit %d: %v is refused: %v\nby   %s\nfrom %s", seed, limit, value, err, tool.Definition.InputSchema, full.Definition.InputSchema)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	if accepted < 500 || simplified < 500 {
		t.Errorf("%d values accepted, %d schemas simplified", accepted, simplified)
	}
}

// schemaGenerator makes documents with one tool, whose schemas refer to each other.
type schemaGenerator struct{ *rand.Rand }

const generatedSchemas = 5

func (g *schemaGenerator) document() string {
	var schemas []string
	for i := range generatedSchemas {
		schemas = append(schemas, fmt.Sprintf(`"S%d":%s`, i, g.schema(3)))
	}
	return `{"openapi":"3.1.0","info":{"title":"R","version":"1"},"paths":{"/a":{"post":{"operationId":"a","requestBody":{"required":true,"content":{
		"application/json":{"schema":{"type":"object","description":"The body.","properties":{"a":` + g.schema(3) + `,"b":` + g.schema(3) + `,"c":{"$ref":"#/components/schemas/S0"}}}}}}}}},
		"components":{"schemas":{` + strings.Join(schemas, ",") + `}}}`
}

func (g *schemaGenerator) schema(depth int) string {
	if depth == 0 || g.IntN(5) == 0 {
		return fmt.Sprintf(`{"$ref":"#/components/schemas/S%d"}`, g.IntN(generatedSchemas))
	}
	sub := func() string { return g.schema(depth - 1) }
	text := `"description":"` + strings.Repeat("what it is for ", g.IntN(8)) + `"`
	switch g.IntN(11) {
	case 0:
		return `{` + text + `,"type":"string","enum":["x","y"]}`
	case 1:
		return `{` + text + `,"type":["integer","null"]}`
	case 2:
		return `{` + text + `,"type":"array","items":` + sub() + `}`
	case 3:
		return `{` + text + `,"oneOf":[` + sub() + `,` + sub() + `]}`
	case 4:
		return `{` + text + `,"anyOf":[` + sub() + `,` + sub() + `]}`
	case 5:
		return `{` + text + `,"not":` + sub() + `}`
	case 6:
		return `{` + text + `,"if":` + sub() + `,"then":` + sub() + `,"else":` + sub() + `}`
	case 7:
		return `{` + text + `,"allOf":[` + sub() + `],"unevaluatedProperties":false}`
	case 8:
		return `{` + text + `,"type":"array","contains":` + sub() + `,"maxContains":2}`
	case 9:
		return `{` + text + `,"type":"object","properties":{"a":` + sub() + `},"additionalProperties":` + sub() + `}`
	}
	return `{` + text + `,"type":"object","properties":{"a":` + sub() + `,"b":` + sub() + `},"additionalProperties":false}`
}

// object returns an object of arguments, some of which fit.
func (g *schemaGenerator) object(depth int) any {
	object := make(map[string]any)
	for _, name := range []string{"a", "b", "c"} {
		if g.IntN(2) == 0 {
			object[name] = g.value(depth)
		}
	}
	return object
}

func (g *schemaGenerator) value(depth int) any {
	switch n := g.IntN(8); {
	case n == 0:
		return "x"
	case n == 1:
		return "z"
	case n == 2:
		return nil
	case n == 3 || depth == 0:
		return float64(g.IntN(3))
	case n < 6:
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.value(depth-1))
		}
		return list
	}
	object := make(map[string]any)
	for _, name := range []string{"a", "b"} {
		if g.IntN(2) == 0 {
			object[name] = g.value(depth - 1)
		}
	}
	return object
}

// TestMaxSchema_leaves_smaller_schemas_as_they_are, in the real documents whose list
// is not too large.
func TestMaxSchema_leaves_smaller_schemas_as_they_are(t *testing.T) {
	for name := range testkit.Documents() {
		if strings.HasPrefix(name, "kubernetes") {
			continue
		}
		data := string(testkit.ReadDocument(t, "openapi/"+name+".gz"))
		bounded, full := realTools(t, name).Tools(), buildTools(t, data, BuildOptions{MaxSchema: -1}).Tools()
		for i, tool := range bounded {
			if len(full[i].Definition.InputSchema) <= DefaultMaxSchema && !bytes.Equal(tool.Definition.InputSchema, full[i].Definition.InputSchema) {
				t.Errorf("%s %s has %d bytes of %d", name, tool.Name, len(tool.Definition.InputSchema), len(full[i].Definition.InputSchema))
			}
		}
	}
}
