package schema_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
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
