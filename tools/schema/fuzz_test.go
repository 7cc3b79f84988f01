package schema_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// FuzzTranslate takes any JSON for the schemas of a document: what comes out
// must be JSON that compiles, in every mode and direction.
func FuzzTranslate(f *testing.F) {
	for _, seed := range []string{
		`{"S":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/S"}},"required":["a"]}}`,
		`{"S":{"oneOf":[{"$ref":"#/components/schemas/A"},{"type":"string","format":"date"}]},"A":{"allOf":[{"$ref":"#/components/schemas/S","description":"x"}],"nullable":true}}`,
		`{"S":{"type":["string",3],"enum":[],"pattern":"(?!a)","minimum":"1","exclusiveMinimum":true,"items":[{}],"dependencies":{"a":["b"],"c":{}}}}`,
		`{"S":{"$ref":"#/components/schemas/A","description":"d","title":"t","allOf":[{}]},"A":{"$ref":"#/components/schemas/S"}}`,
		`{"S":{"if":{"not":false},"then":true,"unevaluatedItems":false,"$id":"x","$defs":{"a":{"const":null}},"example":{"$ref":"x"}}}`,
		`{"S":{"description":"d","properties":{"a":{"$ref":"#/components/schemas/S/properties/b","description":"e"},"b":{"description":"x","readOnly":true,"maxLength":1e3}}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, components string) {
		if !jsontext.Value(components).IsValid() {
			return
		}
		for _, version := range []string{"3.0.0", "3.1.0"} {
			d, err := openapi.Read([]byte(`{"openapi":"`+version+`","info":{"title":"t","version":"1"},"paths":{},"components":{"schemas":`+components+`}}`), openapi.Options{})
			if err != nil {
				return
			}
			schemas := d.Root().At("components").At("schemas")
			c := make(compiler)
			for _, mode := range modes {
				fuzzOne(t, c, schemas, schema.NewTranslator(mode, schema.Input))
				fuzzOne(t, c, schemas, schema.NewTranslator(mode, schema.Output))
			}
		}
	})
}

func fuzzOne(t *testing.T, c compiler, schemas openapi.Place, translator *schema.Translator) {
	const bound = 300
	for _, m := range schemas.Members() {
		place := schemas.Item(m.Value)
		if n := len(translator.AppendBounded(nil, place, bound)); n > bound {
			t.Fatalf("%d bytes for a bound of %d", n, bound)
		}
		for _, text := range [][]byte{
			translator.AppendWhole(nil, translator.Translate(place)),
			translator.AppendBounded(nil, place, bound),
		} {
			if !jsontext.Value(text).IsValid() {
				t.Fatalf("not JSON: %s", text)
			}
			c.compile(t, text)
		}
		schema.Types(place)
		schema.ObjectOf(place)
		schema.Description(place)
		schema.Default(place)
		schema.IsFile(place)
	}
}
