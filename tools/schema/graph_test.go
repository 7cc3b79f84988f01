package schema_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

var modes = []schema.Mode{schema.Auto, schema.Inline, schema.Defs}

// TestCycles translates schemas that refer to themselves, and checks that the
// result can be used: a validator comes to an end and says what is meant.
func TestCycles(t *testing.T) {
	const ref = `{"$ref":"#/components/schemas/`
	tests := []struct {
		rule       string
		components string
		valid      []string
		invalid    []string
	}{
		{
			"by a property",
			`{"S":{"type":"object","properties":{"next":` + ref + `S"}}}}`,
			[]string{`{"next":{"next":{}}}`},
			[]string{`{"next":3}`},
		},
		{
			"by two components",
			`{"S":{"type":"object","properties":{"b":` + ref + `B"}}},"B":{"type":"array","items":` + ref + `S"}}}`,
			[]string{`{"b":[{"b":[]}]}`},
			[]string{`{"b":[3]}`},
		},
		{
			"of nothing but references",
			`{"S":` + ref + `B"},"B":` + ref + `S"}}`,
			[]string{`3`},
			nil,
		},
		{
			"by allOf",
			`{"S":{"allOf":[` + ref + `S"},{"type":"object"}]}}`,
			[]string{`{}`},
			[]string{`3`},
		},
		{
			"by anyOf",
			`{"S":{"anyOf":[` + ref + `S"},{"type":"object"}]}}`,
			[]string{`{}`},
			[]string{`3`},
		},
		{
			"of a base and its subtypes, from the base",
			`{"S":{"type":"object","required":["kind"],"oneOf":[` + ref + `Cat"},` + ref + `Dog"}]},
			"Cat":{"allOf":[` + ref + `S"},{"properties":{"kind":{"const":"cat"}},"required":["claws"]}]},
			"Dog":{"allOf":[` + ref + `S"},{"properties":{"kind":{"const":"dog"}}}]}}`,
			[]string{`{"kind":"cat","claws":4}`, `{"kind":"dog"}`},
			[]string{`{"kind":"cat"}`, `{"claws":4}`, `{"kind":"cow"}`},
		},
		{
			"of a base and its subtypes, from a subtype",
			`{"Pet":{"type":"object","required":["kind"],"oneOf":[` + ref + `S"},` + ref + `Dog"}]},
			"S":{"allOf":[` + ref + `Pet"},{"properties":{"kind":{"const":"cat"}},"required":["claws"]}]},
			"Dog":{"allOf":[` + ref + `Pet"},{"properties":{"kind":{"const":"dog"},"friend":` + ref + `Pet"}}}]}}`,
			[]string{`{"kind":"cat","claws":4}`},
			[]string{`{"kind":"cat"}`, `{"claws":4}`, `{"kind":"dog"}`},
		},
		{
			"by not, which means nothing",
			`{"S":{"type":"object","not":` + ref + `S"}}}`,
			nil,
			[]string{`3`},
		},
	}
	for _, test := range tests {
		for _, mode := range modes {
			t.Run(test.rule+"/"+string(mode), func(t *testing.T) {
				text := translate(t, mode, schema.Input, "3.1.0", test.components)
				check(t, text, test.valid, test.invalid)
			})
		}
	}
}

func check(t *testing.T, text string, valid, invalid []string) {
	t.Helper()
	s := compile(t, []byte(text))
	for _, value := range valid {
		if err := s.Validate(parsed(t, value)); err != nil {
			t.Errorf("%s is refused: %v\nby %s", value, err, text)
		}
	}
	for _, value := range invalid {
		if s.Validate(parsed(t, value)) == nil {
			t.Errorf("%s is accepted by %s", value, text)
		}
	}
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// doubling returns a document whose references multiply: each level refers to
// the one below twice.
func doubling(levels int, keyword string) string {
	var b strings.Builder
	b.WriteString(`{`)
	for i := levels; i > 0; i-- {
		ref := fmt.Sprintf(`{"$ref":"#/components/schemas/L%d"}`, i-1)
		if keyword == "properties" {
			fmt.Fprintf(&b, `"L%d":{"type":"object","properties":{"a":%s,"b":%s}},`, i, ref, ref)
		} else {
			fmt.Fprintf(&b, `"L%d":{%q:[%s,%s]},`, i, keyword, ref, ref)
		}
	}
	b.WriteString(`"L0":{"type":"object"}}`)
	return b.String()
}

func TestDoubling(t *testing.T) {
	const levels = 40
	for _, keyword := range []string{"properties", "allOf", "anyOf", "oneOf"} {
		root := document(t, "3.0.0", doubling(levels, keyword))
		for _, mode := range modes {
			t.Run(keyword+"/"+string(mode), func(t *testing.T) {
				translator := schema.NewTranslator(mode, schema.Input)
				var total int
				for i := levels; i > 0; i-- {
					text := translator.AppendWhole(nil, translator.Translate(root.At(fmt.Sprint("L", i))))
					total += len(text)
					if i == levels {
						compile(t, text)
					}
				}
				if limit := levels * 300 << 10; total > limit {
					t.Errorf("%d levels give %d bytes, over %d", levels, total, limit)
				}
				schema.Types(root.At(fmt.Sprint("L", levels)))
				schema.ObjectOf(root.At(fmt.Sprint("L", levels)))
				if bounded := translator.AppendBounded(nil, root.At(fmt.Sprint("L", levels)), 2000); len(bounded) > 2000 {
					t.Errorf("%d bytes for a bound of 2000", len(bounded))
				}
			})
		}
	}
}

// TestDoublingValidates checks that a value is judged in a bounded time though
// the document would judge it 2^40 times.
func TestDoublingValidates(t *testing.T) {
	root := document(t, "3.0.0", doubling(40, "allOf"))
	translator := schema.NewTranslator(schema.Auto, schema.Input)
	s := compile(t, translator.AppendWhole(nil, translator.Translate(root.At("L40"))))
	if err := s.Validate(map[string]any{}); err != nil {
		t.Error(err)
	}
	if len(translator.Warnings()) == 0 {
		t.Error("there is no warning")
	}
}

// chain returns n components of which each refers to the next.
func chain(n int, link string) string {
	var b strings.Builder
	b.WriteString(`{`)
	for i := range n - 1 {
		fmt.Fprintf(&b, `"C%d":`+link+`,`, i, i+1)
	}
	fmt.Fprintf(&b, `"C%d":{"type":"string"}}`, n-1)
	return b.String()
}

func TestChain(t *testing.T) {
	links := map[string]string{
		"alias":    `{"$ref":"#/components/schemas/C%d"}`,
		"property": `{"type":"object","properties":{"next":{"$ref":"#/components/schemas/C%d"}}}`,
		"allOf":    `{"allOf":[{"$ref":"#/components/schemas/C%d"},{"maxLength":9}]}`,
	}
	const n = 20_000
	for name, link := range links {
		small, large := document(t, "3.1.0", chain(n/4, link)), document(t, "3.1.0", chain(n, link))
		for _, mode := range modes {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				quarter, whole := time.Hour, time.Hour
				// The shortest of some times, in turns: the machine may have other work.
				for round := 0; round < 2 || round < 8 && !inProportion(whole, quarter); round++ {
					took, quarterSize := chainCost(small, mode)
					quarter = min(quarter, took)
					took, size := chainCost(large, mode)
					whole = min(whole, took)
					if size > 5*quarterSize {
						t.Errorf("four times the components give %d bytes instead of %d", size, quarterSize)
					}
				}
				if !inProportion(whole, quarter) {
					t.Errorf("four times the components take %v instead of %v", whole, quarter)
				}
			})
		}
	}
}

// inProportion reports whether four times the components take no more than four
// times as long, or little more. In a time that is quadratic it would be 16 times.
func inProportion(whole, quarter time.Duration) bool {
	return whole <= 12*quarter+200*time.Millisecond
}

// chainCost returns how long a chain takes, and the size of the result.
func chainCost(root openapi.Place, mode schema.Mode) (time.Duration, int) {
	start := time.Now()
	translator := schema.NewTranslator(mode, schema.Input)
	text := translator.AppendWhole(nil, translator.Translate(root.At("C0")))
	translator.AppendBounded(nil, root.At("C0"), 4000)
	schema.Types(root.At("C0"))
	schema.ObjectOf(root.At("C0"))
	return time.Since(start), len(text)
}

func TestSame_bytes_twice(t *testing.T) {
	d, err := openapi.Read(testkit.ReadDocument(t, "openapi/stripe.json.gz"), openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	schemas := d.Root().At("components").At("schemas")
	write := func() []byte {
		translator := schema.NewTranslator(schema.Auto, schema.Output)
		var text []byte
		for _, m := range schemas.Members()[:100] {
			text = translator.AppendWhole(text, translator.Translate(schemas.Item(m.Value)))
			text = translator.AppendBounded(text, schemas.Item(m.Value), 5000)
		}
		return text
	}
	if !bytes.Equal(write(), write()) {
		t.Error("the same document gives different schemas")
	}
}
