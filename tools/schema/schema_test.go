package schema_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

func TestMain(m *testing.M) {
	testkit.CollectRarely()
	os.Exit(m.Run())
}

func TestKeywords(t *testing.T) {
	const v30, v31 = "3.0.3", "3.1.0"
	tests := []struct {
		rule, version string
		in, want      string
	}{
		{"type comes first", v30, `{"description":"d","type":"string"}`, `{"type":"string","description":"d"}`},
		{"order of keywords and properties is kept", v31, `{"type":"object","properties":{"b":{"type":"string"},"a":{}},"required":["b"]}`, `{"type":"object","properties":{"b":{"type":"string"},"a":{}},"required":["b"]}`},
		{"numbers keep their text", v30, `{"type":"number","minimum":1.50,"multipleOf":1e-2}`, `{"type":"number","minimum":1.50,"multipleOf":1e-2}`},
		{"annotations are kept", v31, `{"title":"T","deprecated":true,"default":null,"format":"date"}`, `{"title":"T","deprecated":true,"default":null,"format":"date"}`},
		{"keywords of OpenAPI are dropped", v30, `{"type":"object","xml":{"name":"x"},"externalDocs":{"url":"u"},"discriminator":{"propertyName":"p"},"x-y":1}`, `{"type":"object"}`},
		{"identifiers are dropped", v31, `{"$schema":"http://example.com/s","$id":"http://example.com/i","$anchor":"a","$dynamicAnchor":"b","$dynamicRef":"#b","type":"object"}`, `{"type":"object"}`},

		{"nullable type", v30, `{"type":"string","nullable":true}`, `{"type":["string","null"]}`},
		{"nullable enum", v30, `{"type":"string","nullable":true,"enum":["a"]}`, `{"type":["string","null"],"enum":["a",null]}`},
		{"nullable enum that has null", v30, `{"type":"string","nullable":true,"enum":["a",null]}`, `{"type":["string","null"],"enum":["a",null]}`},
		{"nullable enum without type", v30, `{"nullable":true,"enum":["a"]}`, `{"enum":["a",null]}`},
		{"nullable without type", v30, `{"nullable":true}`, `{}`},
		{"nullable false", v30, `{"type":"string","nullable":false}`, `{"type":"string"}`},
		{"nullable allOf", v30, `{"description":"d","nullable":true,"allOf":[{"$ref":"#/components/schemas/A"}]}`, `{"anyOf":[{"allOf":[{"type":"string"}]},{"type":"null"}],"description":"d"}`},
		{"nullable oneOf with type", v30, `{"type":"string","nullable":true,"oneOf":[{"maxLength":2}]}`, `{"anyOf":[{"type":"string","anyOf":[{"maxLength":2}]},{"type":"null"}]}`},
		{"nullable $ref", v30, `{"nullable":true,"$ref":"#/components/schemas/A"}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`},
		{"nullable $ref with description", v30, `{"nullable":true,"description":"d","$ref":"#/components/schemas/A"}`, `{"anyOf":[{"type":"string"},{"type":"null"}],"description":"d"}`},
		{"x-nullable", v30, `{"type":"string","x-nullable":true}`, `{"type":["string","null"]}`},

		{"exclusiveMinimum true", v30, `{"type":"integer","minimum":1,"exclusiveMinimum":true}`, `{"type":"integer","exclusiveMinimum":1}`},
		{"exclusiveMaximum true comes first", v30, `{"exclusiveMaximum":true,"maximum":1}`, `{"exclusiveMaximum":1}`},
		{"exclusiveMinimum false", v30, `{"minimum":1,"exclusiveMinimum":false}`, `{"minimum":1}`},
		{"exclusiveMinimum without minimum", v30, `{"exclusiveMinimum":true}`, `{}`},
		{"exclusiveMinimum as a number", v31, `{"exclusiveMinimum":1}`, `{"exclusiveMinimum":1}`},

		{"example", v30, `{"type":"string","example":"a"}`, `{"type":"string","examples":["a"]}`},
		{"example beside examples", v31, `{"examples":["b"],"example":"a"}`, `{"examples":["b"]}`},
		{"examples as an object", v30, `{"type":"string","examples":{"a":{"value":"b"}}}`, `{"type":"string"}`},

		{"format binary", v30, `{"type":"string","format":"binary"}`, `{"type":"string","contentEncoding":"base64"}`},
		{"format byte", v30, `{"type":"string","format":"byte"}`, `{"type":"string","contentEncoding":"base64"}`},
		{"format byte beside contentEncoding", v31, `{"type":"string","format":"byte","contentEncoding":"base64url"}`, `{"type":"string","contentEncoding":"base64url"}`},
		{"type file", v30, `{"type":"file"}`, `{"type":"string","contentEncoding":"base64"}`},

		{"type array", v31, `{"type":["string","null"]}`, `{"type":["string","null"]}`},
		{"const null", v31, `{"const":null}`, `{"const":null}`},
		{"boolean schemas", v31, `{"properties":{"a":true,"b":false},"items":false,"additionalProperties":true}`, `{"properties":{"a":{},"b":{"not":{}}},"items":false,"additionalProperties":true}`},
		{"local $defs", v31, `{"$defs":{"x":{"type":"integer"}},"properties":{"a":{"$ref":"#/components/schemas/S/$defs/x"}}}`, `{"properties":{"a":{"type":"integer"}}}`},
		{"keywords beside $ref in 3.1", v31, `{"$ref":"#/components/schemas/A","maxLength":3}`, `{"maxLength":3,"allOf":[{"type":"string"}]}`},
		{"allOf beside $ref in 3.1", v31, `{"$ref":"#/components/schemas/A","allOf":[{"maxLength":3}]}`, `{"allOf":[{"type":"string"},{"maxLength":3}]}`},
		{"mistyped keyword beside $ref in 3.1", v31, `{"$ref":"#/components/schemas/A","maxLength":"3"}`, `{"allOf":[{"type":"string"}]}`},
		{"keywords beside $ref in 3.0", v30, `{"$ref":"#/components/schemas/A","maxLength":3,"default":"x"}`, `{"type":"string"}`},
		{"description beside $ref", v30, `{"$ref":"#/components/schemas/A","description":"d"}`, `{"description":"d","type":"string"}`},
		{"description beside $ref replaces that of the target", v30, `{"$ref":"#/components/schemas/D","description":"mine"}`, `{"description":"mine","type":"string","maxLength":3}`},
		{"description beside $ref to an alias", v31, `{"$ref":"#/components/schemas/Alias","description":"mine"}`, `{"description":"mine","type":"string","maxLength":3}`},
		{"description beside $ref to a $ref with one", v31, `{"$ref":"#/components/schemas/Described","description":"mine"}`, `{"description":"mine","type":"string","maxLength":3}`},

		{"items as an array", v30, `{"items":[{"type":"string"},{}],"additionalItems":false}`, `{"prefixItems":[{"type":"string"},{}],"items":false}`},
		{"items as an empty array", v30, `{"type":"array","items":[]}`, `{"type":"array","items":{}}`},
		{"definitions", v30, `{"definitions":{"a":{}},"type":"object"}`, `{"type":"object"}`},
		{"dependencies", v30, `{"dependencies":{"a":["b","b"],"c":{"required":["d"]},"e":3}}`, `{"dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"required":["d"]}}}`},

		{"type any", v30, `{"type":"any","description":"d"}`, `{"description":"d"}`},
		{"unknown type", v30, `{"type":"datetime"}`, `{}`},
		{"some types unknown", v31, `{"type":["string",3,"string","text"]}`, `{"type":"string"}`},
		{"required as a boolean", v30, `{"properties":{"a":{"type":"string","required":true}}}`, `{"properties":{"a":{"type":"string"}}}`},
		{"required with doubles and other values", v30, `{"required":["a","a",1]}`, `{"required":["a"]}`},
		{"required empty", v30, `{"type":"object","required":[]}`, `{"type":"object"}`},
		{"enum not an array", v30, `{"type":"string","enum":"a"}`, `{"type":"string"}`},
		{"enum empty", v30, `{"type":"string","enum":[]}`, `{"type":"string"}`},
		{"enum of another scalar type", v30, `{"type":"string","enum":[1,true,"x"]}`, `{"type":"string","enum":["1","true","x"]}`},
		{"enum of numbers as text", v30, `{"type":"integer","enum":["1","-2",3]}`, `{"type":"integer","enum":[1,-2,3]}`},
		{"pattern that Go cannot read", v30, `{"type":"string","pattern":"^(?!x)a"}`, `{"type":"string"}`},
		{"pattern", v30, `{"type":"string","pattern":"^a\\d$"}`, `{"type":"string","pattern":"^a\\d$"}`},
		{"pattern of too many instructions", v30, `{"type":"string","pattern":"((x{1,100}){1,10}y{1,1000}){10}"}`, `{"type":"string"}`},
		{"patternProperties", v31, `{"patternProperties":{"^a":{"type":"string"},"(?=b)":{}}}`, `{"patternProperties":{"^a":{"type":"string"}}}`},
		{"pattern that JavaScript cannot read", v30, `{"type":"string","pattern":"^\\p{L}"}`, `{"type":"string","$check":{"pattern":"^\\p{L}"}}`},
		{"patternProperties that JavaScript cannot read", v31, `{"patternProperties":{"^\\:":{"type":"string"}},"additionalProperties":false,"properties":{"a":{}}}`, `{"properties":{"a":{}},"$check":{"patternProperties":{"^\\:":{"type":"string"}},"additionalProperties":false}}`},
		{"patternProperties that Go cannot read beside additionalProperties", v31, `{"patternProperties":{"(?=b)":{}},"additionalProperties":false}`, `{"patternProperties":{}}`},
		{"array without items", v30, `{"type":"array","items":{"type":"array"}}`, `{"type":"array","items":{"type":"array","items":{}}}`},
		{"array or null without items", v31, `{"type":["array","null"],"minItems":1}`, `{"type":["array","null"],"minItems":1,"items":{}}`},
		{"array with items that are no schema", v30, `{"type":"array","items":"string"}`, `{"type":"array","items":{}}`},
		{"keywords of other types", v30, `{"type":"string","properties":{"x":{}},"required":["x"],"minimum":1,"items":{},"maxLength":2}`, `{"type":"string","maxLength":2}`},
		{"keywords of one of the types", v31, `{"type":["string","object"],"properties":{"x":{}},"minimum":1}`, `{"type":["string","object"],"properties":{"x":{}}}`},
		{"enum with a value twice", v30, `{"enum":["a",1,1.0,"1",{"a":1,"b":2},{"b":2,"a":1},"\u0061",null,null]}`, `{"enum":["a",1,"1",{"a":1,"b":2},null]}`},
		{"enum with a value of another type", v30, `{"type":"string","enum":["a",null,["b"]]}`, `{"type":"string","enum":["a"]}`},
		{"enum with null", v31, `{"type":["string","null"],"enum":["a",null,1]}`, `{"type":["string","null"],"enum":["a",null,"1"]}`},
		{"enum of which no value is left", v30, `{"type":"string","enum":[["a"]]}`, `{"type":"string"}`},
		{"null without quotes", v31, `{"type":["string",null]}`, `{"type":["string","null"]}`},
		{"null without quotes as an alternative", v31, `{"anyOf":[{"type":"string"},{"type":null}]}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`},
		{"type without a value", v30, `{"type":null,"maxLength":2}`, `{"maxLength":2}`},
		{"default of another scalar type", v30, `{"type":"string","default":1.10}`, `{"type":"string","default":"1.10"}`},
		{"default of another scalar type, nullable", v31, `{"type":["integer","null"],"default":"10"}`, `{"type":["integer","null"],"default":10}`},
		{"default of a list", v30, `{"type":"array","items":{"type":"string"},"default":[1.10]}`, `{"type":"array","items":{"type":"string"},"default":["1.10"]}`},
		{"default outside the enum", v30, `{"type":"string","enum":["a"],"default":"r"}`, `{"type":"string","enum":["a"]}`},
		{"default in the enum, as a number", v30, `{"type":"string","enum":[1.10],"default":"1.10"}`, `{"type":"string","enum":["1.10"],"default":"1.10"}`},
		{"const of another scalar type", v31, `{"type":"string","const":1.10}`, `{"type":"string","const":"1.10"}`},
		{"example of another scalar type", v30, `{"type":"object","properties":{"v":{"type":"string"}},"example":{"v":1.10}}`, `{"type":"object","properties":{"v":{"type":"string"}},"examples":[{"v":"1.10"}]}`},
		{"required without a property", v30, `{"type":"object","required":["x","y"],"properties":{"x":{}}}`, `{"type":"object","required":["x","y"],"properties":{"x":{},"y":{}}}`},
		{"required without any property", v30, `{"type":"object","required":["y"]}`, `{"type":"object","required":["y"],"properties":{"y":{}}}`},
		{"required of another part", v30, `{"allOf":[{"type":"object","required":["y"],"properties":{"x":{}}},{"properties":{"y":{}}}]}`, `{"allOf":[{"type":"object","required":["y"],"properties":{"x":{}}},{"properties":{"y":{}}}]}`},
		{"required of an alternative", v30, `{"properties":{"x":{}},"anyOf":[{"required":["x"]},{"type":"object","required":["y"]}]}`, `{"properties":{"x":{}},"anyOf":[{"required":["x"]},{"type":"object","required":["y"]}]}`},
		{"required with additionalProperties", v30, `{"type":"object","required":["y"],"additionalProperties":{"type":"string"}}`, `{"type":"object","required":["y"],"additionalProperties":{"type":"string"}}`},
		{"minimum as text", v30, `{"type":"integer","minimum":"1"}`, `{"type":"integer"}`},
		{"minimum beyond reason", v30, `{"minimum":1e99999999}`, `{}`},
		{"multipleOf zero", v30, `{"multipleOf":0}`, `{}`},
		{"counts", v30, `{"minLength":-1,"maxLength":2.5,"minItems":"3","maxItems":4.0,"minProperties":5}`, `{"maxItems":4,"minProperties":5}`},
		{"properties not an object", v30, `{"type":"object","properties":["a"]}`, `{"type":"object"}`},
		{"a property that is no schema", v30, `{"properties":{"a":"string","b":null}}`, `{"properties":{"a":{},"b":{}}}`},
		{"allOf empty or not an array", v30, `{"allOf":[],"anyOf":{"a":1}}`, `{}`},
		{"text that is none", v30, `{"title":1,"description":["d"],"format":{}}`, `{}`},
		{"a schema that is none", v30, `"string"`, `{}`},

		{"additionalProperties false beside allOf", v30, `{"allOf":[{"properties":{"a":{}}}],"additionalProperties":false}`, `{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`},
		{"additionalProperties false in allOf", v30, `{"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]}`, `{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`},
		{"oneOf", v30, `{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `{"anyOf":[{"type":"string"},{"type":"integer"}]}`},
		{"oneOf beside anyOf", v30, `{"anyOf":[{"minimum":1}],"oneOf":[{"maximum":9}]}`, `{"anyOf":[{"minimum":1}],"allOf":[{"anyOf":[{"maximum":9}]}]}`},
		{"not with a oneOf, which would refuse more", v30, `{"not":{"oneOf":[{"minimum":1},{"maximum":9}]}}`, `{}`},
		{"not with a format, which is not checked", v30, `{"not":{"format":"date"}}`, `{}`},
		{"not with a dropped pattern", v30, `{"type":"string","not":{"pattern":"(?!a)"}}`, `{"type":"string"}`},
		{"if with a dropped pattern", v31, `{"if":{"pattern":"(?!a)"},"then":{"maxLength":1}}`, `{}`},
		{"if", v31, `{"if":{"type":"string"},"then":{"maxLength":1},"else":{}}`, `{"if":{"type":"string"},"then":{"maxLength":1},"else":{}}`},

		{"$ref that leads nowhere", v30, `{"properties":{"a":{"$ref":"#/components/schemas/Nope"}}}`, `{"properties":{"a":{"description":"The document does not say more: #/components/schemas/Nope leads nowhere."}}}`},
		{"description beside $ref to a $ref that leads nowhere", v30, `{"$ref":"#/components/schemas/Nowhere","description":"d"}`, `{"description":"d"}`},
		{"$ref that is no text", v30, `{"$ref":3,"type":"string"}`, `{"type":"string"}`},
		{"$ref to itself", v30, `{"$ref":"#/components/schemas/S"}`, `{"$ref":"#/$defs/S","$defs":{"S":{}}}`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			components := `{"S":` + test.in + `,"A":{"type":"string"},"D":{"type":"string","description":"its own","maxLength":3},
				"Alias":{"$ref":"#/components/schemas/D"},"Described":{"$ref":"#/components/schemas/D","description":"between"},
				"Nowhere":{"$ref":"#/components/schemas/Nope"},"Loose":{"type":"string","pattern":"(?!a)"}}`
			got := translate(t, schema.Auto, schema.Input, test.version, components)
			if got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestDirection(t *testing.T) {
	tests := []struct {
		rule          string
		in            string
		input, output string
	}{
		{
			"properties and their names in required",
			`{"properties":{"r":{"readOnly":true},"w":{"writeOnly":true},"x":{}},"required":["r","w","x"]}`,
			`{"properties":{"w":{"writeOnly":true},"x":{}},"required":["w","x"]}`,
			`{"properties":{"r":{"readOnly":true},"x":{}},"required":["r","x"]}`,
		},
		{
			"at every depth",
			`{"items":{"properties":{"r":{"readOnly":true}},"required":["r"]}}`,
			`{"items":{"properties":{}}}`,
			`{"items":{"properties":{"r":{"readOnly":true}},"required":["r"]}}`,
		},
		{
			"through $ref",
			`{"properties":{"r":{"$ref":"#/components/schemas/R"}}}`,
			`{"properties":{}}`,
			`{"properties":{"r":{"type":"string","readOnly":true}}}`,
		},
		{
			"required in another part of allOf",
			`{"allOf":[{"properties":{"r":{"readOnly":true}}},{"required":["r","x"]}],"required":["r"]}`,
			`{"allOf":[{"properties":{}},{"required":["x"]}]}`,
			`{"allOf":[{"properties":{"r":{"readOnly":true}}},{"required":["r","x"]}],"required":["r"]}`,
		},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			components := `{"S":` + test.in + `,"R":{"type":"string","readOnly":true}}`
			if got := translate(t, schema.Auto, schema.Input, "3.0.0", components); got != test.input {
				t.Errorf("input:\n got %s\nwant %s", got, test.input)
			}
			if got := translate(t, schema.Auto, schema.Output, "3.0.0", components); got != test.output {
				t.Errorf("output:\n got %s\nwant %s", got, test.output)
			}
		})
	}
}

func TestModes(t *testing.T) {
	components := `{
		"S":{"properties":{"a":{"$ref":"#/components/schemas/A"},"n":{"$ref":"#/components/schemas/Node"},"b":{"$ref":"#/components/schemas/Big","description":"b"}}},
		"A":{"type":"string"},
		"Node":{"properties":{"next":{"$ref":"#/components/schemas/Node"}}},
		"Big":{"description":"big","enum":["` + long + `"]}}`
	const node = `"Node":{"properties":{"next":{"$ref":"#/$defs/Node"}}}`
	tests := []struct {
		mode schema.Mode
		want string
	}{
		{schema.Auto, `{"properties":{"a":{"type":"string"},"n":{"$ref":"#/$defs/Node"},"b":{"description":"b","$ref":"#/$defs/Big"}},"$defs":{` + node + `,"Big":{"description":"big","enum":["` + long + `"]}}}`},
		{schema.Inline, `{"properties":{"a":{"type":"string"},"n":{"$ref":"#/$defs/Node"},"b":{"description":"b","enum":["` + long + `"]}},"$defs":{` + node + `}}`},
		{schema.Defs, `{"properties":{"a":{"$ref":"#/$defs/A"},"n":{"$ref":"#/$defs/Node"},"b":{"description":"b","$ref":"#/$defs/Big"}},"$defs":{"A":{"type":"string"},` + node + `,"Big":{"description":"big","enum":["` + long + `"]}}}`},
	}
	for _, test := range tests {
		t.Run(string(test.mode), func(t *testing.T) {
			if got := translate(t, test.mode, schema.Input, "3.1.0", components); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

// long is more than Auto writes in place.
var long = strings.Repeat("x", 700)

func TestNames(t *testing.T) {
	in := `{"S":{"properties":{"a":{"$ref":"#/components/schemas/a b"},"b":{"$ref":"#/components/schemas/a%20b/properties/a_b"},"c":{"$ref":"#/components/schemas/a~1b"}}},
		"a b":{"properties":{"a_b":{"type":"string"}}},"a/b":{"type":"null"}}`
	want := `{"properties":{"a":{"$ref":"#/$defs/a_b"},"b":{"$ref":"#/$defs/a_b_2"},"c":{"$ref":"#/$defs/a_b_3"}},` +
		`"$defs":{"a_b":{"properties":{"a_b":{"type":"string"}}},"a_b_2":{"type":"string"},"a_b_3":{"type":"null"}}}`
	if got := translate(t, schema.Defs, schema.Input, "3.1.0", in); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestDefs_of_several(t *testing.T) {
	root := document(t, "3.1.0", `{"A":{"$ref":"#/components/schemas/C"},"B":{"items":{"$ref":"#/components/schemas/C"}},"C":{"type":"string"},"D":{"type":"null"}}`)
	translator := schema.NewTranslator(schema.Defs, schema.Input)
	a, b, d := translator.Translate(root.At("A")), translator.Translate(root.At("B")), translator.Translate(root.At("D"))
	if got, want := string(translator.Writings()[0].AppendDefs(nil, a, b)), `"$defs":{"C":{"type":"string"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := translator.Writings()[0].AppendDefs(nil, d); len(got) > 0 {
		t.Errorf("got %s, want nothing", got)
	}
	if got := string(translator.Translate(openapi.Place{}).Text()); got != `{}` {
		t.Errorf("an absent schema is %s, want {}", got)
	}
}

func TestWarnings(t *testing.T) {
	root := document(t, "3.0.0", `{"S":{"items":{"$ref":"#/components/schemas/Nope"},"not":{"$ref":"#/components/schemas/Nope"}}}`)
	translator := schema.NewTranslator(schema.Auto, schema.Input)
	translator.Translate(root.At("S"))
	if got := translator.Warnings(); len(got) != 1 {
		t.Errorf("got %q, want one warning", got)
	}
}
