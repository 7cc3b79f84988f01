package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestValidator_leaves_out_what_cannot_be_compiled checks that what is left refuses what it can, and nothing that the whole
// schema accepts.
func TestValidator_leaves_out_what_cannot_be_compiled(t *testing.T) {
	const lookahead = `{"type":"string","pattern":"^(?!x)"}`
	for name, c := range map[string]struct {
		schema             string
		unusable           string // separated by spaces
		accepted, rejected []string
	}{
		"pattern":                {`{"properties":{"a":` + lookahead + `,"b":{"type":"integer"}},"required":["a"]}`, "/properties/a/pattern", []string{`{"a":"y"}`}, []string{`{}`, `{"a":1}`, `{"a":"y","b":"1"}`}},
		"pattern of names":       {`{"patternProperties":{"^(?=x)":{"type":"string"},"^n":{"type":"integer"}},"additionalProperties":false}`, "/patternProperties/^(?=x)", []string{`{"x1":"a"}`, `{"n":1}`}, []string{`{"n":"1"}`}},
		"reference elsewhere":    {`{"properties":{"a":{"$ref":"https://example.com/a.json"},"b":{"$ref":"#/$defs/B"}},"$defs":{"B":{"type":"string"}}}`, "/properties/a/$ref", []string{`{"a":1,"b":"x"}`}, []string{`{"b":1}`}},
		"reference to nothing":   {`{"properties":{"a":{"$ref":"#/$defs/A"},"b":{"type":"null"}}}`, "/properties/a/$ref", []string{`{"a":1}`}, []string{`{"b":1}`}},
		"unknown type":           {`{"properties":{"a":{"type":"strin","maxLength":2}}}`, "/properties/a/type", []string{`{"a":1}`, `{"a":"xx"}`}, []string{`{"a":"xxx"}`}},
		"one type unknown":       {`{"properties":{"a":{"type":["string","strin"]}}}`, "/properties/a/type", []string{`{"a":1}`}, nil},
		"null":                   {`{"properties":null,"required":null,"additionalProperties":false}`, "/properties /required", []string{`{"a":1}`}, nil},
		"null in the list":       {`{"required":["a",null],"properties":{"a":{"enum":[1]}}}`, "/required", []string{`{}`}, []string{`{"a":2}`}},
		"no schema":              {`{"properties":{"a":5,"b":{"type":"integer"}},"additionalProperties":false}`, "/properties/a", []string{`{"a":1}`}, []string{`{"b":"x"}`, `{"c":1}`}},
		"old exclusiveMinimum":   {`{"properties":{"a":{"minimum":3,"exclusiveMinimum":true}}}`, "/properties/a/exclusiveMinimum", []string{`{"a":3}`}, []string{`{"a":2}`}},
		"unknown dialect":        {`{"$schema":"https://example.com/dialect","properties":{"a":{"type":"string"}}}`, "/$schema", []string{`{"a":"x"}`}, []string{`{"a":1}`}},
		"draft 7":                {`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"A":` + lookahead + `},"properties":{"a":{"$ref":"#/definitions/A"}}}`, "/definitions/A/pattern", []string{`{"a":"x"}`}, []string{`{"a":1}`}},
		"in not":                 {`{"properties":{"a":{"not":` + lookahead + `,"maxLength":3}}}`, "/properties/a/not/pattern", []string{`{"a":"x"}`, `{"a":"y"}`}, []string{`{"a":"xxxx"}`}},
		"in not by a reference":  {`{"properties":{"a":{"not":{"$ref":"#/$defs/A"}}},"$defs":{"A":` + lookahead + `}}`, "/$defs/A/pattern", []string{`{"a":"x"}`}, nil},
		"in if":                  {`{"properties":{"a":{"if":` + lookahead + `,"then":{"maxLength":1},"else":{"minLength":2}}}}`, "/properties/a/if/pattern", []string{`{"a":"xx"}`, `{"a":"y"}`}, nil},
		"in oneOf":               {`{"properties":{"a":{"oneOf":[` + lookahead + `,{"const":"x"}]}}}`, "/properties/a/oneOf/0/pattern", []string{`{"a":"x"}`, `{"a":"y"}`}, []string{`{"a":1}`}},
		"in contains":            {`{"properties":{"a":{"contains":` + lookahead + `,"maxContains":1}}}`, "/properties/a/contains/pattern", []string{`{"a":["x","x","y"]}`}, nil},
		"unevaluated":            {`{"allOf":[{"$ref":"https://example.com/a.json"}],"unevaluatedProperties":false}`, "/allOf/0/$ref", []string{`{"a":1}`}, nil},
		"a property of the name": {`{"properties":{"pattern":{"type":"string"},"$ref":{"type":"string"},"a":` + lookahead + `}}`, "/properties/a/pattern", []string{`{"pattern":"("}`}, []string{`{"pattern":1}`, `{"$ref":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			source := jsontext.Value(c.schema)
			got := Unusable(source)
			slices.Sort(got)
			if joined := strings.Join(got, " "); joined != c.unusable {
				t.Errorf("unusable: %s, want %s", joined, c.unusable)
			}
			compiled, err := new(Validator).Compile(func() jsontext.Value { return source })
			if err != nil {
				t.Fatal(err)
			}
			for _, value := range slices.Concat(c.accepted, c.rejected) {
				decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
				if err != nil {
					t.Fatal(err)
				}
				if err := compiled.Validate(decoded); (err == nil) != slices.Contains(c.accepted, value) {
					t.Errorf("%s: %v", value, err)
				}
			}
		})
	}
	if got := Unusable(jsontext.Value(`{"type":"object","properties":{"a":{"pattern":"^x"}}}`)); got != nil {
		t.Errorf("a schema without faults: %q", got)
	}
}
