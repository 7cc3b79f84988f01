package otcadapter

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// TestFlat_documents flattens the lists of published documents, and wants each
// tool to have its own schemas in them.
func TestFlat_documents(t *testing.T) {
	for name := range testkit.Documents() {
		t.Run(name, func(t *testing.T) {
			toolset, err := tools.Build(testkit.ReadDocument(t, "openapi/"+name+".gz"), tools.BuildOptions{Name: "real", Location: name, ResponseSchemas: true})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			c := newCatalog(Options{Warn: func(text string) { t.Error(text) }}, []Toolkit{{Tools: toolset}})
			t.Logf("%d tools in %d KiB, made in %s", len(toolset.Tools()), len(c.list)>>10, time.Since(start))
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
			if err := strictjson.Unmarshal(c.list, &list); err != nil {
				t.Fatal(err)
			}
			bare := 0
			for i, d := range list.Tools {
				testkit.WantFlat(t, d.Input.Parameters)
				answer := &toolset.Tools()[i].Output
				if answer.Schema == nil {
					continue
				}
				testkit.WantFlat(t, d.Output.Value.Parameters)
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
