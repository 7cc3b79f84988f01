package otcadapter

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// TestFlat_documents flattens the lists of published documents, and wants each
// tool to have its own schemas in them.
func TestFlat_documents(t *testing.T) {
	for name := range shared.Documents() {
		t.Run(name, func(t *testing.T) {
			tools, err := tool.Build(shared.Read(t, "openapi/"+name+".gz"), tool.BuildOptions{Name: "real", Location: name, ResponseSchemas: true})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			c := newCatalog(Options{}, []Toolkit{{Tools: tools}})
			t.Logf("%d tools in %d KiB, made in %s", len(tools.Tools()), len(c.list)>>10, time.Since(start))
			var list struct {
				Tools []struct {
					ID    string
					Input struct {
						Parameters jsontext.Value
					}
					Output struct {
						Value struct {
							Parameters jsontext.Value
						}
					}
				}
			}
			if err := wire.Unmarshal(c.list, &list); err != nil {
				t.Fatal(err)
			}
			bare := 0
			for i, d := range list.Tools {
				wantFlat(t, d.Input.Parameters)
				answer := &tools.Tools()[i].Answer
				if answer.Schema == nil {
					continue
				}
				wantFlat(t, d.Output.Value.Parameters)
				if len(answer.Schema) > 100 && len(d.Output.Value.Parameters) < 50 {
					bare++
				}
			}
			if bare > len(list.Tools)/20 {
				t.Errorf("%d of %d values are listedTool by their type alone", bare, len(list.Tools))
			}
		})
	}
}

// wantFlat wants a schema that compiles, without $ref, $defs and definitions.
func wantFlat(t *testing.T, schema jsontext.Value) {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	if where := notFlat(parsed); where != "" {
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

// notFlat returns where a schema has one of the keywords that the standards
// exclude, "" if nowhere. Names of properties, and values, are no keywords.
func notFlat(schema any) string {
	members, _ := schema.(map[string]any)
	for name, value := range members {
		switch name {
		case "$ref", "$defs", "definitions":
			return name
		case "const", "enum", "default", "examples", "example":
			continue
		case "properties", "patternProperties", "dependentSchemas":
			for property, schema := range value.(map[string]any) {
				if where := notFlat(schema); where != "" {
					return name + "/" + property + "/" + where
				}
			}
			continue
		}
		if list, is := value.([]any); is {
			for i, schema := range list {
				if where := notFlat(schema); where != "" {
					return fmt.Sprintf("%s/%d/%s", name, i, where)
				}
			}
		}
		if where := notFlat(value); where != "" {
			return name + "/" + where
		}
	}
	return ""
}
