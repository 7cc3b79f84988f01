package schema_test

import (
	"testing"

	"github.com/fairwayhq/fairway/tools/schema"
)

func TestDescription_and_default(t *testing.T) {
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
