package tools

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// maxExamples is the largest number of examples of a parameter that are listed.
const maxExamples = 3

// examplesOf returns the values of example or examples of a parameter or media type object, at most the given number.
// They override those of the schema (OpenAPI 3.1, Parameter Object and Media Type Object).
func examplesOf(holder openapi.Place, most int) (values []*openapi.Node) {
	for _, name := range []string{"example", "x-example"} {
		if value := holder.Get(name); value != nil {
			return []*openapi.Node{value}
		}
	}
	examples := holder.At("examples")
	for _, m := range examples.Members() {
		if example, err := examples.Item(m.Value).Resolve(); err == nil && example.Get("value") != nil && len(values) < most {
			values = append(values, example.Get("value"))
		}
	}
	return values
}

// A bodyExample is the first example of a body whose properties are arguments.
type bodyExample struct {
	value   *openapi.Node // nil if there is none
	ofMedia bool          // of the media type: it overrides those of the properties' schemas
}

func exampleOf(media *openapi.Media) bodyExample {
	if values := examplesOf(media.Object, 1); len(values) > 0 {
		return bodyExample{values[0], true}
	}
	body, err := media.Schema.Resolve()
	if err != nil {
		return bodyExample{}
	}
	value := body.Get("example")
	if examples := body.Get("examples").Items(); value == nil && len(examples) > 0 {
		value = examples[0]
	}
	return bodyExample{value: value}
}

// of returns the examples of a property, or nil if there is none.
func (e bodyExample) of(p *schema.Property) jsontext.Value {
	value := e.value.Get(p.Name)
	if value == nil || !e.ofMedia && cmp.Or(p.Place.Get("example"), p.Place.Get("examples")) != nil {
		return nil
	}
	return schema.Examples(p.Place, value)
}
