package testkit

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// WantFlat reports an error unless the schema compiles and has no $ref, $defs or definitions.
func WantFlat(t testing.TB, schema jsontext.Value) {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	if where := NotFlat(parsed); where != "" {
		t.Errorf("%s in %.300s", where, schema)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("flat:", parsed); err != nil {
		t.Fatal(err)
	}
	if _, err := compiler.Compile("flat:"); err != nil {
		t.Errorf("%v: %.300s", err, schema)
	}
}

// NotFlat returns where a schema has one of these keywords, or "". Names of properties, and
// values, are not keywords.
func NotFlat(schema any) string {
	members, _ := schema.(map[string]any)
	for name, value := range members {
		switch name {
		case "$ref", "$defs", "definitions":
			return name
		case "const", "enum", "default", "examples", "example":
			continue
		case "properties", "patternProperties", "dependentSchemas":
			for property, schema := range value.(map[string]any) {
				if where := NotFlat(schema); where != "" {
					return name + "/" + property + "/" + where
				}
			}
			continue
		}
		if list, is := value.([]any); is {
			for i, schema := range list {
				if where := NotFlat(schema); where != "" {
					return fmt.Sprintf("%s/%d/%s", name, i, where)
				}
			}
		}
		if where := NotFlat(value); where != "" {
			return name + "/" + where
		}
	}
	return ""
}
