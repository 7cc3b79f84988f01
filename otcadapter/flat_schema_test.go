package otcadapter

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/internal/simplify/simplifytest"
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
				simplifytest.WantFlat(t, d.Input.Parameters)
				answer := &tools.Tools()[i].Response
				if answer.Schema == nil {
					continue
				}
				simplifytest.WantFlat(t, d.Output.Value.Parameters)
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
