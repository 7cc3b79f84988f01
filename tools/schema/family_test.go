package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Parts of the documents of the tests.
const (
	toCat   = `{"$ref":"#/components/schemas/Cat"}`
	toDog   = `{"$ref":"#/components/schemas/Dog"}`
	mapping = `"discriminator":{"propertyName":"kind","mapping":{"cat":"#/components/schemas/Cat","dog":"Dog"}}`
	pets    = `"Cat":{"type":"object","required":["kind","claws"],"properties":{"kind":{"type":"string"},"claws":{"type":"integer"}}},
		"Dog":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"barks":{"type":"boolean"}}}`
)

func TestFamily_of_alternatives(t *testing.T) {
	tests := []struct {
		rule, components string
		valid            []string
		invalid          map[string]string // value: text in the message
	}{
		{
			rule:       "a value may fit several alternatives",
			components: `{"S":{"oneOf":[{"type":"integer"},{"type":"number"}]}}`,
			valid:      []string{`5`, `5.5`},
			invalid:    map[string]string{`"5"`: "must be integer"},
		},
		{
			rule:       "a mapping of all alternatives",
			components: `{"S":{"oneOf":[` + toCat + `,` + toDog + `],` + mapping + `},` + pets + `}`,
			valid:      []string{`{"kind":"cat","claws":4}`, `{"kind":"dog"}`, `{"kind":"dog","claws":"none"}`},
			invalid: map[string]string{
				`{"kind":"cat"}`:             `kind is "cat": claws is missing`,
				`{"kind":"cat","claws":"4"}`: `kind is "cat": claws must be integer`,
				`{"kind":"cow"}`:             `must be one of "cat", "dog"`,
				`{"claws":4}`:                `kind is missing`,
			},
		},
		{
			rule:       "in an anyOf, in an array, in allOf, with null",
			components: `{"S":{"type":"array","items":{"allOf":[{"nullable":true,"anyOf":[` + toCat + `,` + toDog + `],` + mapping + `}]}},` + pets + `}`,
			valid:      []string{`[{"kind":"dog"},null]`},
			invalid:    map[string]string{`[{"kind":"cat"}]`: `kind is "cat": claws is missing`},
		},
		{
			rule:       "a mapping of some alternatives leaves other values to the API",
			components: `{"S":{"oneOf":[` + toCat + `,` + toDog + `],"discriminator":{"propertyName":"kind","mapping":{"cat":"Cat"}}},` + pets + `}`,
			valid:      []string{`{"kind":"cat","claws":4}`, `{"kind":"wolf"}`, `{"kind":"wolf","claws":1}`},
			invalid:    map[string]string{`{"kind":"cat"}`: `kind is "cat": claws is missing`},
		},
		{
			rule:       "names of schemas select without a mapping",
			components: `{"S":{"oneOf":[` + toCat + `,` + toDog + `],"discriminator":{"propertyName":"kind"}},` + pets + `}`,
			valid:      []string{`{"kind":"Cat","claws":4}`, `{"kind":"dog"}`, `{"kind":"wolf"}`},
			invalid:    map[string]string{`{"kind":"Cat"}`: `claws is missing`},
		},
		{
			rule: "values that the alternatives state themselves",
			components: `{"S":{"oneOf":[{"type":"object","properties":{"kind":{"enum":["cat","lion"]},"claws":{"type":"integer"}},"required":["claws"]},` + toDog + `],
				"discriminator":{"propertyName":"kind"}},"Dog":{"type":"object","required":["kind","barks"],"properties":{"kind":{"const":"dog"}}}}`,
			valid:   []string{`{"kind":"lion","claws":4}`, `{"claws":4}`, `{"kind":"dog","barks":true}`},
			invalid: map[string]string{`{"kind":"dog"}`: `kind is "dog": barks is missing`, `{"kind":"cow"}`: "must be one of"},
		},
		{
			rule:       "a mapping names an alternative that the list lacks",
			components: `{"S":{"oneOf":[` + toCat + `],` + mapping + `},` + pets + `}`,
			valid:      []string{`{"kind":"dog"}`},
			invalid:    map[string]string{`{"kind":"cat"}`: `claws is missing`},
		},
		{
			rule: "the property is a number, or a reference",
			components: `{"S":{"oneOf":[` + toCat + `,` + toDog + `],"discriminator":{"propertyName":"kind","mapping":{"1":"Cat","2":"Dog"}}},
				"Cat":{"type":"object","properties":{"kind":{"type":"integer"},"claws":{"type":"integer"}},"required":["claws"]},
				"Dog":{"type":"object","properties":{"kind":{"$ref":"#/components/schemas/Kind"}}},"Kind":{"type":"integer"}}`,
			valid:   []string{`{"kind":1,"claws":4}`, `{"kind":2}`},
			invalid: map[string]string{`{"kind":1}`: `kind is 1: claws is missing`, `{"kind":3}`: "must be one of 1, 2"},
		},
	}
	for _, test := range tests {
		for _, mode := range modes {
			t.Run(test.rule+"/"+string(mode), func(t *testing.T) {
				checkFamily(t, translate(t, mode, schema.Input, "3.0.3", test.components), test.valid, test.invalid)
			})
		}
	}
}

func TestFamily_by_inheritance(t *testing.T) {
	const (
		base  = `"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"friend":{"$ref":"#/components/schemas/Pet"}},"discriminator":{"propertyName":"kind"%s}%s}`
		toPet = `{"$ref":"#/components/schemas/Pet"}`
		cat   = `"Cat":{"allOf":[` + toPet + `,{"type":"object","required":["claws"],"properties":{"claws":{"type":"integer"}}}]}`
		lion  = `"Lion":{"allOf":[` + toCat + `,{"properties":{"mane":{"type":"boolean"}},"required":["mane"]}]}`
		dog   = `"Dog":{"allOf":[` + toPet + `]}`
	)
	pet := func(mapping, more string) string {
		return strings.Replace(strings.Replace(base, "%s", mapping, 1), "%s", more, 1)
	}
	const all = `,"mapping":{"cat":"#/components/schemas/Cat","lion":"#/components/schemas/Lion","dog":"#/components/schemas/Dog"}`
	tests := []struct {
		rule, components string
		valid            []string
		invalid          map[string]string
		lists            string // a text that the schema has
		input            bool   // the invalid values are refused in arguments only
	}{
		{
			rule:       "a reference to the base means the schemas that extend it",
			components: `{"S":` + toPet + `,` + pet(all, "") + `,` + cat + `,` + lion + `,` + dog + `}`,
			valid:      []string{`{"kind":"cat","claws":4}`, `{"kind":"lion","claws":4,"mane":true}`, `{"kind":"dog","x":1}`, `{"kind":"dog","friend":{"kind":"cat","claws":1}}`},
			invalid: map[string]string{
				`{"kind":"cat"}`:                         `kind is "cat": claws is missing`,
				`{"kind":"lion","claws":4}`:              `kind is "lion": mane is missing`,
				`{"kind":"cow"}`:                         "must be one of",
				`{"kind":"dog","friend":{"kind":"cat"}}`: "claws is missing",
			},
			lists: `"mane"`,
		},
		{
			rule:       "a base without additional properties can be extended",
			components: `{"S":{"type":"array","items":` + toPet + `},` + pet(all, `,"additionalProperties":false`) + `,` + cat + `,` + lion + `,` + dog + `}`,
			valid:      []string{`[{"kind":"cat","claws":4},{"kind":"lion","claws":4,"mane":true}]`},
			invalid:    map[string]string{`[{"kind":"cat"}]`: `claws is missing`},
		},
		{
			rule:       "names of schemas without a mapping, and other values",
			components: `{"S":{"properties":{"pet":` + toPet + `}},` + pet("", "") + `,` + cat + `,` + dog + `}`,
			valid:      []string{`{"pet":{"kind":"Cat","claws":4}}`, `{"pet":{"kind":"Dog"}}`, `{"pet":{"kind":"Cow","milk":1}}`},
			invalid:    map[string]string{`{"pet":{"kind":"Cat"}}`: "claws is missing"},
			lists:      `"claws"`,
			input:      true,
		},
		{
			rule:       "an allOf with nothing but the base is another name for it",
			components: `{"S":{"allOf":[` + toPet + `],"description":"A pet","nullable":true},` + pet(all, "") + `,` + cat + `,` + lion + `,` + dog + `}`,
			valid:      []string{`{"kind":"lion","claws":4,"mane":true}`, `null`},
			invalid:    map[string]string{`{"kind":"cat"}`: `claws is missing`},
			lists:      `"mane"`,
		},
		{
			rule:       "a schema that extends a base and is extended means both",
			components: `{"S":` + toCat + `,` + pet(all, "") + `,` + cat + `,` + lion + `,` + dog + `}`,
			valid:      []string{`{"kind":"cat","claws":4}`, `{"kind":"lion","claws":4,"mane":true}`},
			invalid:    map[string]string{`{"kind":"lion","claws":4}`: "mane is missing", `{"kind":"dog","claws":4}`: "must be one of"},
			lists:      `"mane"`,
		},
		{
			rule:       "a schema that extends a base is not its siblings",
			components: `{"S":{"properties":{"lion":{"$ref":"#/components/schemas/Lion"}}},` + pet(all, "") + `,` + cat + `,` + lion + `,` + dog + `}`,
			valid:      []string{`{"lion":{"kind":"lion","claws":4,"mane":true}}`},
			invalid:    map[string]string{`{"lion":{"kind":"lion"}}`: "claws: missing"},
		},
		{
			rule: "the names of the schemas differ in case from the enum of the base",
			components: `{"S":{"properties":{"pet":` + toPet + `}},"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string","enum":["cat","dog","cow"]}},
				"discriminator":{"propertyName":"kind"}},` + cat + `,` + dog + `}`,
			valid:   []string{`{"pet":{"kind":"cat","claws":4}}`, `{"pet":{"kind":"dog"}}`, `{"pet":{"kind":"cow"}}`},
			invalid: map[string]string{`{"pet":{"kind":"cat"}}`: `kind is "cat": claws is missing`, `{"pet":{"kind":"Cat","claws":4}}`: "must be one of"},
			input:   true,
		},
		{
			rule: "values of Azure's documents",
			components: `{"S":` + toPet + `,` + pet("", "") + `,"Cat":{"x-ms-discriminator-value":"#cat","allOf":[` + toPet + `],"required":["claws"],"properties":{"claws":{}}},
				"Dog":{"x-ms-discriminator-value":"#dog","allOf":[` + toPet + `]}}`,
			valid:   []string{`{"kind":"#cat","claws":4}`, `{"kind":"#dog"}`},
			invalid: map[string]string{`{"kind":"#cat"}`: `kind is "#cat": claws is missing`, `{"kind":"Cat"}`: "must be one of"},
		},
		{
			rule: "a base that has a choice of its subtypes itself",
			components: `{"S":` + toPet + `,"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"}},"oneOf":[` + toCat + `,` + toDog + `],
				"discriminator":{"propertyName":"kind","mapping":{"cat":"Cat","dog":"Dog"}}},` + cat + `,` + dog + `}`,
			valid:   []string{`{"kind":"cat","claws":4}`, `{"kind":"dog"}`},
			invalid: map[string]string{`{"kind":"cat"}`: "claws"},
		},
		{
			rule: "schemas in circles end",
			components: `{"S":` + toCat + `,"Cat":{"allOf":[` + toDog + `],"discriminator":{"propertyName":"kind","mapping":{"dog":"Dog"}}},
				"Dog":{"allOf":[` + toCat + `],"discriminator":{"propertyName":"kind","mapping":{"cat":"Cat"}}}}`,
		},
	}
	for _, test := range tests {
		for _, mode := range modes {
			t.Run(test.rule+"/"+string(mode), func(t *testing.T) {
				for _, direction := range []schema.Direction{schema.Input, schema.Output} {
					text := translate(t, mode, direction, "3.0.3", test.components)
					if !strings.Contains(text, test.lists) {
						t.Errorf("%s is not in %s", test.lists, text)
					}
					if test.input && direction == schema.Output {
						test.invalid = nil
					}
					checkFamily(t, text, test.valid, test.invalid)
				}
			})
		}
	}
}

func checkFamily(t *testing.T, text string, valid []string, invalid map[string]string) {
	t.Helper()
	compiled, err := schema.Compile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range valid {
		if err := compiled.Validate(parsed(t, value)); err != nil {
			t.Errorf("%s is refused: %v\nby %s", value, err, text)
		}
	}
	for value, want := range invalid {
		var err *jsonschema.ValidationError
		if !errors.As(compiled.Validate(parsed(t, value)), &err) {
			t.Errorf("%s is accepted by %s", value, text)
			continue
		}
		var got strings.Builder
		for _, p := range schema.Explain(err, parsed(t, value)) {
			got.WriteString(p.Path + ": " + p.Message + "\n")
		}
		if !strings.Contains(got.String(), want) {
			t.Errorf("%s: got %q, want %q\nby %s", value, got.String(), want, text)
		}
	}
}

func TestCompile_accepts_what_fits_several_alternatives(t *testing.T) {
	tests := []struct{ in, valid, invalid string }{
		{`{"oneOf":[{"type":"integer"},{"type":"number"}]}`, `5`, `"5"`},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}],"oneOf":[{"minimum":1},{"maximum":9}]}`, `5`, `true`},
		{`{"properties":{"a":{"items":{"oneOf":[{},{"type":"string"}]}}}}`, `{"a":["x"]}`, ``},
		{`{"not":{"oneOf":[{"minimum":1},{"maximum":9}]}}`, `5`, `0`},
	}
	for _, test := range tests {
		compiled, err := schema.Compile([]byte(test.in))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(parsed(t, test.valid)); err != nil {
			t.Errorf("%s is refused by %s: %v", test.valid, test.in, err)
		}
		if test.invalid != "" && compiled.Validate(parsed(t, test.invalid)) == nil {
			t.Errorf("%s is accepted by %s", test.invalid, test.in)
		}
	}
}

// A body that is a base stays a flat object: its arguments are the properties of all schemas that extend it.
func TestFamily_is_a_flat_object(t *testing.T) {
	const components = `{
		"S":{"type":"object","required":["kind","name"],"additionalProperties":false,"properties":{"kind":{"type":"string"},"name":{"type":"string"}},
			"discriminator":{"propertyName":"kind","mapping":{"cat":"#/components/schemas/Cat","dog":"#/components/schemas/Dog"}}},
		"Cat":{"allOf":[{"$ref":"#/components/schemas/S"},{"required":["claws"],"properties":{"claws":{"type":"integer"},"size":{"type":"integer"}}}]},
		"Dog":{"allOf":[{"$ref":"#/components/schemas/S"},{"properties":{"size":{"type":"string"}}}]}}`
	object, ok := schema.ObjectOf(document(t, "3.0.3", components).At("S"))
	if !ok {
		t.Fatal("it is no object")
	}
	if got, want := signature(object), "kind* name* claws size"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i, want := range []string{`{"type":"string","enum":["cat","dog"]}`, `{"type":"string"}`, `{"type":"integer","description":"Only if kind is \"cat\"."}`, `{"anyOf":[{"type":"integer"},{"type":"string"}]}`} {
		if got := string(object.Properties[i].Place.AppendJSON(nil)); got != want {
			t.Errorf("%s: got %s, want %s", object.Properties[i].Name, got, want)
		}
	}
}

// A mapping that leads to large or missing schemas does no harm.
func TestFamily_with_a_broken_mapping(t *testing.T) {
	const components = `{"S":{"oneOf":[` + toCat + `,{"$ref":"#/nowhere"}],"discriminator":{"propertyName":"kind","mapping":{"a":"#/nowhere","b":3,"c":"Cat","d":""}}},
		"Cat":{"type":"object","properties":{"kind":{"type":"string"}}}}`
	check(t, translate(t, schema.Auto, schema.Input, "3.0.3", components), []string{`{"kind":"c"}`, `{"kind":"x"}`}, nil)
}

// The schema of a large family grows with the number of its members, not with its square.
func TestFamily_large_is_linear(t *testing.T) {
	size := func(members int) int {
		place := document(t, "3.0.3", largeFamily(members)).At("S")
		return len(schema.NewTranslator(schema.Auto, schema.Input).Translate(place).Text())
	}
	if few, many := size(100), size(400); many > 5*few {
		t.Errorf("400 members take %d bytes, 100 take %d", many, few)
	}
}

// largeFamily returns a base and the schemas that extend it.
func largeFamily(members int) string {
	var components strings.Builder
	components.WriteString(`{"S":{"type":"object","properties":{"kind":{"type":"string"}},"discriminator":{"propertyName":"kind"}}`)
	for i := range members {
		fmt.Fprintf(&components, `,"A%d":`, i)
		components.WriteString(`{"allOf":[{"$ref":"#/components/schemas/S"},{"properties":{"p":{"type":"string"}}}]}`)
	}
	return components.String() + `}`
}

func BenchmarkFamily_large(b *testing.B) {
	var place openapi.Place
	for b.Loop() {
		place = document(b, "3.0.3", largeFamily(300)).At("S")
		schema.NewTranslator(schema.Auto, schema.Input).Translate(place)
	}
}
