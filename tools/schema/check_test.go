package schema_test

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/schema"
)

func TestCheck_is_applied_and_not_listed(t *testing.T) {
	tests := []struct {
		rule, schema, listed string
		valid, invalid       string
	}{
		{"keyword", `{"type":"string","$check":{"pattern":"^a"}}`, `{"type":"string"}`, `"ab"`, `"b"`},
		{"keyword that the schema has", `{"properties":{"k":{"type":"string"}},"$check":{"properties":{"k":{"not":{"enum":["a"]}}}}}`, `{"properties":{"k":{"type":"string"}}}`, `{"k":"b"}`, `{"k":"a"}`},
		{"keyword that the schema has, beside allOf", `{"maxLength":3,"allOf":[{"minLength":1}],"$check":{"maxLength":2,"pattern":"^a"}}`, `{"maxLength":3,"allOf":[{"minLength":1}]}`, `"ab"`, `"abc"`},
		{"allOf", `{"allOf":[{"minLength":1}],"$check":{"allOf":[{"maxLength":2}]}}`, `{"allOf":[{"minLength":1}]}`, `"ab"`, `"abc"`},
		{"in an alternative", `{"anyOf":[{"type":"string","$check":{"pattern":"^a"}},{"type":"null"}]}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `null`, `"b"`},
		{"in a definition", `{"$ref":"#/$defs/A","$defs":{"A":{"items":{"$check":{"minimum":2}}}}}`, `{"$ref":"#/$defs/A","$defs":{"A":{"items":{}}}}`, `[2]`, `[1]`},
		{"keywords that depend on each other", `{"properties":{"a":{}},"$check":{"patternProperties":{"^x":{}},"additionalProperties":false}}`, `{"properties":{"a":{}}}`, `{"a":1,"xy":1}`, `{"y":1}`},
		{"property of that name", `{"properties":{"$check":{"type":"string"}}}`, `{"properties":{"$check":{"type":"string"}}}`, `{"$check":"a"}`, `{"$check":1}`},
		{"value of that name", `{"enum":[{"$check":{"const":1}}]}`, `{"enum":[{"$check":{"const":1}}]}`, `{"$check":{"const":1}}`, `1`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			if got := string(schema.Listed([]byte(test.schema))); got != test.listed {
				t.Errorf("lists %s, want %s", got, test.listed)
			}
			compiled, err := schema.Compile([]byte(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			for text, isValid := range map[string]bool{test.valid: true, test.invalid: false} {
				value, _ := strictjson.Decode([]byte(text))
				if err := compiled.Validate(value); (err == nil) != isValid {
					t.Errorf("%s: %v, want valid = %v", text, err, isValid)
				}
			}
		})
	}
}

func TestFast_reads_what_is_only_checked(t *testing.T) {
	plain := make(schema.FastSet).Read([]byte(`{"type":"string","$check":{"pattern":"^a"}}`))
	if plain == nil || !plain.Accepts([]byte(`"ab"`)) || plain.Accepts([]byte(`"b"`)) {
		t.Errorf("the pattern of $check does not count: %+v", plain)
	}
	for _, text := range []string{`{"type":"string","pattern":"^b","$check":{"pattern":"^a"}}`, `{"type":"string","$check":{"not":{"enum":["a"]}}}`, `{"type":"array","items":{"type":"string","$check":{"not":{}}}}`} {
		if fast := make(schema.FastSet).Read([]byte(text)); fast != nil {
			t.Errorf("%s is read as plain", text)
		}
	}
}
