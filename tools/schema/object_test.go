package schema_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/schema"
)

func TestObject(t *testing.T) {
	const ref = `{"$ref":"#/components/schemas/`
	tests := []struct {
		rule, version, in string
		want              string // names, * required, r read-only, w write-only; "-" if it is no object
		additional        schema.Additional
		nullable          bool
	}{
		{rule: "properties in order", in: `{"type":"object","required":["b"],"properties":{"b":{},"a":{"readOnly":true},"c":{"writeOnly":true}}}`, want: "b* ar cw"},
		{rule: "without type", in: `{"properties":{"a":{}}}`, want: "a"},
		{rule: "$ref", in: ref + `Object"}`, want: "a"},
		{rule: "property that refers to a read-only schema", in: `{"properties":{"a":` + ref + `Read"}}}`, want: "ar"},
		{rule: "allOf", in: `{"allOf":[` + ref + `Base"},{"properties":{"y":{},"x":{"type":"integer"}}}],"required":["y"]}`, want: "id* x y*", additional: schema.AdditionalForbidden},
		{rule: "outer additionalProperties counts", in: `{"allOf":[` + ref + `Base"}],"additionalProperties":true}`, want: "id* x", additional: schema.AdditionalAllowed},
		{rule: "additionalProperties with a schema", in: `{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`, want: "a", additional: schema.AdditionalTyped},
		{rule: "nullable", in: ref + `Null"}`, want: "a", nullable: true},
		{rule: "nullable part of allOf", in: `{"allOf":[` + ref + `Null"}]}`, want: "a"},
		{rule: "type with null", version: "3.1.0", in: `{"type":["object","null"],"properties":{"a":{}}}`, want: "a", nullable: true},
		{rule: "anyOf with null", version: "3.1.0", in: `{"anyOf":[` + ref + `Object"},{"type":"null"}]}`, want: "a", nullable: true},
		{rule: "properties beside $ref in 3.1", version: "3.1.0", in: `{"$ref":"#/components/schemas/Object","properties":{"b":{}}}`, want: "a b"},
		{rule: "properties beside $ref in 3.0", in: `{"$ref":"#/components/schemas/Object","properties":{"b":{}}}`, want: "a"},
		{rule: "no property allowed", in: `{"type":"object","additionalProperties":false}`, additional: schema.AdditionalForbidden},
		{rule: "map", in: `{"type":"object","additionalProperties":{"type":"string"}}`, want: "-"},
		{rule: "free form", in: `{"type":"object"}`, want: "-"},
		{rule: "another type", in: `{"type":"array","properties":{"a":{}}}`, want: "-"},
		{rule: "several types", in: `{"type":["object","string"],"properties":{"a":{}}}`, want: "-"},
		{rule: "oneOf", in: `{"properties":{"a":{}},"oneOf":[{"required":["a"]}]}`, want: "-"},
		{rule: "oneOf in allOf", in: `{"properties":{"a":{}},"allOf":[` + ref + `Choice"}]}`, want: "-"},
		{rule: "not", in: `{"properties":{"a":{}},"not":{}}`, want: "-"},
		{rule: "allOf in circles", in: ref + `Circle"}`, want: "-"},
		{rule: "$ref in circles", in: ref + `Loop"}`, want: "-"},
		{rule: "$ref to nowhere", in: ref + `Nope"}`, want: "-"},
		{rule: "no schema", in: `[]`, want: "-"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			version := test.version
			if version == "" {
				version = "3.0.0"
			}
			object, ok := schema.ObjectOf(component(t, version, test.in))
			if !ok {
				if test.want != "-" {
					t.Error("it is not seen as an object")
				}
				return
			}
			if got := signature(object); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if object.Additional != test.additional || object.Nullable != test.nullable {
				t.Errorf("additional %d, nullable %t, want %d, %t", object.Additional, object.Nullable, test.additional, test.nullable)
			}
		})
	}
}

func signature(object *schema.Object) string {
	var names []string
	for _, p := range object.Properties {
		name := p.Name
		for _, mark := range []struct {
			on   bool
			text string
		}{{p.Required, "*"}, {p.ReadOnly, "r"}, {p.WriteOnly, "w"}} {
			if mark.on {
				name += mark.text
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestObject_takes_the_refined_property(t *testing.T) {
	object, ok := schema.ObjectOf(component(t, "3.0.0", `{"allOf":[{"$ref":"#/components/schemas/Base"},{"properties":{"x":{"type":"integer"}}}]}`))
	if !ok {
		t.Fatal("it is not seen as an object")
	}
	if got, want := schema.Types(object.Properties[1].Place), []string{"integer"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
