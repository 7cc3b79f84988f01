package schema_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// document reads a document with the given components, as JSON.
func document(t testing.TB, version, components string) openapi.Place {
	t.Helper()
	d, err := openapi.Read([]byte(`{"openapi":"`+version+`","info":{"title":"t","version":"1"},"paths":{},"components":{"schemas":`+components+`}}`), openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Root().At("components").At("schemas")
}

// translate returns the component S on its own, with what it needs.
func translate(t testing.TB, mode schema.Mode, direction schema.Direction, version, components string) string {
	t.Helper()
	translator := schema.NewTranslator(mode, direction)
	s := translator.Translate(document(t, version, components).At("S"))
	text := translator.AppendWhole(nil, s)
	compile(t, text)
	return string(text)
}

type denied struct{}

func (denied) Load(url string) (any, error) {
	return nil, errors.New("the schema is not on its own: it needs " + url)
}

func compiled(text []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(denied{})
	if err := c.AddResource("mem:tool", doc); err != nil {
		return nil, err
	}
	return c.Compile("mem:tool")
}

func compile(t testing.TB, text []byte) *jsonschema.Schema {
	t.Helper()
	s, err := compiled(text)
	if err != nil {
		t.Fatalf("%v\nin %.2000s", err, text)
	}
	return s
}

// compiler compiles equal texts once: compiling takes most of the time of the tests, and the modes
// often give the same text.
type compiler map[string]*jsonschema.Schema

func (c compiler) compile(t testing.TB, text []byte) *jsonschema.Schema {
	t.Helper()
	s, has := c[string(text)]
	if !has {
		s = compile(t, text)
		c[string(text)] = s
	}
	return s
}

// TestSharedDocuments translates every component of real documents, in both
// directions, and compiles the result.
func TestSharedDocuments(t *testing.T) {
	t.Parallel()
	for name := range testkit.Documents() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := openapi.Read(testkit.ReadDocument(t, "openapi/"+name+".gz"), openapi.Options{Location: name})
			if err != nil {
				t.Fatal(err)
			}
			c := make(compiler)
			for _, direction := range []schema.Direction{schema.Input, schema.Output} {
				for _, mode := range []schema.Mode{schema.Auto, schema.Inline, schema.Defs} {
					testComponents(t, c, d, mode, direction)
				}
			}
		})
	}
}

// compileEvery keeps the test short: compiling takes a time that is quadratic
// in the schema.
const compileEvery = 40

func testComponents(t *testing.T, c compiler, d *openapi.Document, mode schema.Mode, direction schema.Direction) {
	schemas := d.Root().At("components").At("schemas")
	if schemas.Node == nil {
		schemas = d.Root().At("definitions")
	}
	translator := schema.NewTranslator(mode, direction)
	total, largest := 0, 0
	var text, bounded []byte
	for i, m := range schemas.Members() {
		place := schemas.Item(m.Value)
		text = translator.AppendWhole(text[:0], translator.Translate(place))
		total, largest = total+len(text), max(largest, len(text))
		if len(text) < 20_000 && i%10 == 0 || i%compileEvery == 0 && len(text) < 200_000 {
			c.compile(t, text)
		}
		const limit = 10_000
		bounded = translator.AppendBounded(bounded[:0], place, limit)
		if len(bounded) > limit {
			t.Errorf("%s: %d bytes for a bound of %d", m.Name, len(bounded), limit)
		}
		if i%10 == 0 {
			c.compile(t, bounded)
		}
	}
	t.Logf("%s %d: %d components, %d bytes, the largest %d; warnings %.300q", mode, direction, len(schemas.Members()), total, largest, translator.Warnings())
}
