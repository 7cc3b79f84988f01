package schema_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
)

// parts are components that the tests refer to.
const parts = `"Text":{"type":"string","description":"its text","default":"x"},"Object":{"properties":{"a":{}}},
	"Null":{"nullable":true,"type":"object","properties":{"a":{}}},"Choice":{"oneOf":[{"type":"object"},{"type":"string"}]},
	"Loop":{"$ref":"#/components/schemas/Loop"},"Circle":{"allOf":[{"$ref":"#/components/schemas/Circle"}],"properties":{"a":{}}},
	"Bytes":{"type":"string","format":"binary"},"Read":{"type":"string","readOnly":true},
	"Base":{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"x":{"type":"string"}},"additionalProperties":false}`

func component(t *testing.T, version, in string) openapi.Place {
	t.Helper()
	return document(t, version, `{"S":`+in+`,`+parts+`}`).At("S")
}

func TestTypes(t *testing.T) {
	const ref = `{"$ref":"#/components/schemas/`
	tests := []struct{ rule, in, want string }{
		{"type", `{"type":"string"}`, "string"},
		{"type array", `{"type":["null","object"]}`, "object null"},
		{"nullable", `{"type":"object","nullable":true}`, "object null"},
		{"$ref", ref + `Text"}`, "string"},
		{"$ref in circles", ref + `Loop"}`, ""},
		{"$ref to nowhere", ref + `Nope"}`, ""},
		{"enum", `{"enum":["a",1,null]}`, "string integer null"},
		{"const", `{"const":1.5}`, "number"},
		{"properties", `{"properties":{}}`, "object"},
		{"additionalProperties", `{"additionalProperties":true}`, "object"},
		{"required as a boolean", `{"required":true}`, ""},
		{"items", `{"items":{}}`, "array"},
		{"pattern", `{"pattern":"a"}`, "string"},
		{"minimum", `{"minimum":1}`, "number"},
		{"oneOf", `{"oneOf":[` + ref + `Text"},{"type":"array"}]}`, "array string"},
		{"oneOf with an unknown", `{"oneOf":[{},{"type":"array"}]}`, ""},
		{"allOf", `{"allOf":[{"description":"d"},` + ref + `Object"}]}`, "object"},
		{"allOf that narrows", `{"type":["string","null"],"allOf":[{"type":"string"}]}`, "string"},
		{"allOf of number and integer", `{"allOf":[{"type":"number"},{"type":"integer"}]}`, "integer"},
		{"nothing said", `{}`, ""},
		{"unknown type", `{"type":"any"}`, ""},
		{"file", `{"type":"file"}`, "string"},
		{"boolean schema", `true`, ""},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			got := strings.Join(schema.Types(component(t, "3.1.0", test.in)), " ")
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

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

func TestObjectTakesTheRefinedProperty(t *testing.T) {
	object, ok := schema.ObjectOf(component(t, "3.0.0", `{"allOf":[{"$ref":"#/components/schemas/Base"},{"properties":{"x":{"type":"integer"}}}]}`))
	if !ok {
		t.Fatal("it is not seen as an object")
	}
	if got, want := schema.Types(object.Properties[1].Place), []string{"integer"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDescriptionAndDefault(t *testing.T) {
	const ref = `{"$ref":"#/components/schemas/`
	tests := []struct{ rule, in, description, value string }{
		{"its own", `{"description":"d","default":null}`, "d", "null"},
		{"of the target", ref + `Text"}`, "its text", `"x"`},
		{"its own before that of the target", `{"$ref":"#/components/schemas/Text","description":"d"}`, "d", `"x"`},
		{"of the only part", `{"allOf":[` + ref + `Text"}],"default":{"a":[1]}}`, "its text", `{"a":[1]}`},
		{"none", `{"allOf":[{},{}]}`, "", ""},
		{"in circles", ref + `Loop"}`, "", ""},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			place := component(t, "3.0.0", test.in)
			if got := schema.Description(place); got != test.description {
				t.Errorf("description %q, want %q", got, test.description)
			}
			if got := string(schema.Default(place)); got != test.value {
				t.Errorf("default %s, want %s", got, test.value)
			}
		})
	}
}

func TestIsFile(t *testing.T) {
	tests := []struct {
		rule, in string
		want     bool
	}{
		{"format binary", `{"type":"string","format":"binary"}`, true},
		{"format binary without type", `{"format":"binary"}`, true},
		{"format byte is text", `{"type":"string","format":"byte"}`, false},
		{"type file", `{"type":"file"}`, true},
		{"through $ref", `{"$ref":"#/components/schemas/Bytes"}`, true},
		{"through a single allOf", `{"allOf":[{"$ref":"#/components/schemas/Bytes"}]}`, true},
		{"contentMediaType", `{"contentMediaType":"image/png"}`, true},
		{"contentMediaType of encoded text", `{"type":"string","contentMediaType":"image/png","contentEncoding":"base64"}`, false},
		{"nullable bytes", `{"type":["string","null"],"format":"binary"}`, true},
		{"nothing said", `{}`, false},
		{"object", `{"type":"object","format":"binary"}`, false},
		{"in circles", `{"$ref":"#/components/schemas/Loop"}`, false},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			if got := schema.IsFile(component(t, "3.1.0", test.in)); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
