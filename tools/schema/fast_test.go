package schema

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// TestPlainSchemas holds the short way to the long one: what a plain schema
// accepts, the schema itself accepts.
func TestPlainSchemas(t *testing.T) {
	schemas := []string{
		`{"type":"string"}`,
		`{"type":"string","description":"a \" b","format":"uuid","default":7}`,
		`{"type":["string","null"],"maxLength":3}`,
		`{"type":"string","minLength":2,"maxLength":4}`,
		`{"type":"string","enum":["a","b\"c","é"]}`,
		`{"type":["string","null"],"enum":["a",null]}`,
		`{"type":"integer","minimum":1,"maximum":10}`,
		`{"type":"number","minimum":1}`,
		`{"type":"number"}`,
		`{"type":"integer","enum":[1,2]}`,
		`{"type":"boolean"}`,
		`{"type":["boolean","integer"]}`,
		`{"type":"array","items":{"type":"string","enum":["x","y"]}}`,
		`{"type":"array","items":{"type":"integer"},"minItems":2}`,
		`{"type":"array"}`,
		`{"type":["string","integer"],"minimum":3,"minLength":1}`,
		`{"type":"integer","minimum":5,"minLength":0}`,
		`{"type":"string","pattern":"^a"}`,
		`{"type":"string","pattern":"^[a-c]{2,3}$","minLength":3}`,
		`{"type":["string","null"],"pattern":"^\\p{L}+$"}`,
		`{"type":"string","pattern":"b\"c"}`,
		`{"type":"string","maximum":1}`,
		`{"minimum":5}`,
		`{"type":"object"}`,
		`{"enum":["a"]}`,
		`{}`,
		`{"type":"string","not":{"const":"a"}}`,
		`{"$ref":"#/$defs/X","type":"string"}`,
	}
	values := []string{
		`null`, `true`, `false`, `""`, `"a"`, `"ab"`, `"abc"`, `"abcde"`, `"b\"c"`, `"\u0061"`, `"é"`, `"éé"`, `"🚆🚆"`,
		`0`, `-0`, `1`, `3`, `5`, `10`, `11`, `1.0`, `1.5`, `1e1`, `-7`, `12345678901234567890`, `1e400`,
		`[]`, `["x"]`, `["x","y"]`, `["z"]`, `[1]`, `[1,2]`, `["x",1]`, ` [ "x" , "y" ] `, `[["x"]]`, `{}`, `{"a":1}`,
	}
	accepted := 0
	for _, schema := range schemas {
		plain := make(FastSet).Read(jsontext.Value(schema))
		if plain == nil {
			continue
		}
		compiled, err := Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range values {
			raw := jsontext.Value(value)
			decoded, err := strictjson.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			if !plain.Accepts(raw) {
				continue
			}
			accepted++
			if err := compiled.Validate(decoded); err != nil {
				t.Errorf("%s is accepted for %s: %v", value, schema, err)
			}
		}
	}
	if accepted < 50 {
		t.Errorf("only %d values are accepted: the short way leads nowhere", accepted)
	}
	for _, schema := range []string{`{"type":"string","pattern":7}`, `{"type":"integer","minimum":5,"minLength":0}`, `{}`, `{"type":"object"}`} {
		if make(FastSet).Read(jsontext.Value(schema)) != nil {
			t.Errorf("%s is taken for plain", schema)
		}
	}
}
