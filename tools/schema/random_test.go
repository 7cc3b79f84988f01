package schema_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// TestRandomSchemas translates documents made of all keywords with values that
// fit and values that do not.
func TestRandomSchemas(t *testing.T) {
	runs := 400
	if testing.Short() {
		runs = 200
	}
	for seed := range uint64(runs) {
		components := randomComponents(rand.New(rand.NewPCG(seed, 1)))
		version := []string{"3.0.0", "3.1.0"}[seed%2]
		d, err := openapi.Read([]byte(`{"openapi":"`+version+`","info":{"title":"t","version":"1"},"paths":{},"components":{"schemas":`+components+`}}`), openapi.Options{})
		if err != nil {
			t.Fatal(err)
		}
		schemas := d.Root().At("components").At("schemas")
		direction := schema.Direction(seed / 2 % 2)
		c := make(compiler)
		for _, mode := range modes {
			fuzzOne(t, c, schemas, schema.NewTranslator(mode, direction))
		}
		sameInAllModes(t, c, schemas, direction)
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, components)
		}
	}
}

// sameInAllModes checks that where targets are written does not change what the
// schemas accept.
func sameInAllModes(t *testing.T, c compiler, schemas openapi.Place, direction schema.Direction) {
	values := []string{`null`, `"a"`, `""`, `"1"`, `1`, `-2.5`, `3`, `true`, `[]`, `["a",1]`, `[{"a":1}]`, `{}`, `{"a":1}`, `{"a":{"a":"a"}}`, `{"(?!b":"a","b":2}`}
	for _, m := range schemas.Members() {
		var verdicts [3]string
		var texts [3]string
		for i, mode := range modes {
			translator := schema.NewTranslator(mode, direction)
			text := translator.AppendWhole(nil, translator.Translate(schemas.Item(m.Value)))
			s := c.compile(t, text)
			texts[i] = string(text)
			for _, value := range values {
				verdicts[i] += fmt.Sprintln(value, s.Validate(parsed(t, value)) == nil)
			}
		}
		for i := range verdicts {
			if verdicts[i] != verdicts[0] {
				t.Errorf("%s and %s differ:\n%s%s%s\n%s", modes[0], modes[i], verdicts[0], verdicts[i], texts[0], texts[i])
			}
		}
	}
}

type generator struct {
	*rand.Rand
	strings.Builder
}

const randomCount = 4

func randomComponents(r *rand.Rand) string {
	g := generator{Rand: r}
	g.WriteString(`{`)
	for i := range randomCount {
		if i > 0 {
			g.WriteString(`,`)
		}
		fmt.Fprintf(&g, `"C%d":`, i)
		g.schema(3)
	}
	g.WriteString(`}`)
	return g.String()
}

var randomKeywords = []string{
	"type", "nullable", "enum", "const", "title", "description", "default", "example", "examples", "format", "deprecated", "readOnly", "writeOnly",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems",
	"uniqueItems", "minProperties", "maxProperties", "required", "contentEncoding", "contentMediaType", "minContains", "maxContains",
	"dependentRequired", "dependencies", "discriminator", "xml", "$id", "$schema", "$anchor", "$dynamicRef", "x-nullable", "unknown",
	"properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "items", "prefixItems", "additionalItems",
	"unevaluatedItems", "contains", "propertyNames", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$defs", "contentSchema",
	"$ref", "$ref", "$ref", "allOf", "oneOf", "anyOf", "properties", "description",
}

func (g *generator) schema(depth int) {
	if depth == 0 || g.IntN(12) == 0 {
		g.value(1)
		return
	}
	g.WriteString(`{`)
	used := map[string]bool{}
	for range g.IntN(6) {
		keyword := randomKeywords[g.IntN(len(randomKeywords))]
		if used[keyword] {
			continue
		}
		if len(used) > 0 {
			g.WriteString(`,`)
		}
		used[keyword] = true
		fmt.Fprintf(g, "%q:", keyword)
		if g.IntN(8) == 0 {
			g.value(2)
			continue
		}
		g.keyword(keyword, depth-1)
	}
	g.WriteString(`}`)
}

func (g *generator) keyword(name string, depth int) {
	switch name {
	case "$ref":
		fmt.Fprintf(g, `"#/components/schemas/C%d"`, g.IntN(randomCount+1))
	case "type":
		g.pick(`"string"`, `"object"`, `"array"`, `"integer"`, `["string","null"]`, `["object",3]`, `"file"`, `"any"`, `[]`)
	case "title", "description", "contentEncoding", "contentMediaType":
		g.pick(`"a"`, `"\u2028\"b"`, `""`)
	case "format":
		g.pick(`"date"`, `"binary"`, `"byte"`, `"regex"`)
	case "pattern":
		g.pick(`"^a$"`, `"(?!a)"`, `"["`, `"\\p{L}"`, `"a{1001}"`, `"(?<n>a)"`)
	case "enum", "examples":
		g.pick(`["a",1,null]`, `[]`, `["1"]`, `[{"$ref":"#/x"}]`)
	case "required", "dependentRequired", "dependencies":
		g.pick(`["a","b","a"]`, `true`, `{"a":["b"],"b":{}}`, `[]`, `{"a":true,"b":[1]}`)
	case "nullable", "readOnly", "writeOnly", "deprecated", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum", "x-nullable":
		g.pick(`true`, `false`, `1`)
	case "properties", "patternProperties", "dependentSchemas", "$defs":
		g.WriteString(`{"a":`)
		g.schema(depth)
		g.WriteString(`,"(?!b":`)
		g.schema(depth)
		g.WriteString(`}`)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		g.WriteString(`[`)
		g.schema(depth)
		g.WriteString(`,`)
		g.schema(depth)
		g.WriteString(`]`)
	case "items", "additionalItems", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames", "not", "if",
		"then", "else", "contentSchema":
		g.schema(depth)
	default:
		g.pick(`1`, `2.50`, `-3`, `1e400`, `0`, `12345678901234567890`, `1e-400`)
	}
}

// value writes any JSON value.
func (g *generator) value(depth int) {
	if depth == 0 {
		g.pick(`null`, `true`, `false`, `0`, `-1.5e3`, `"a"`, `""`, `[]`, `{}`)
		return
	}
	g.pick(`true`, `[`, `{"a":`)
	switch s := g.String(); s[len(s)-1] {
	case '[':
		g.value(depth - 1)
		g.WriteString(`]`)
	case ':':
		g.value(depth - 1)
		g.WriteString(`}`)
	}
}

func (g *generator) pick(texts ...string) {
	g.WriteString(texts[g.IntN(len(texts))])
}
