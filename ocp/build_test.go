package ocp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/ocp/schema"
)

// exponential returns a document of n schemas, each of which refers twice to
// the next: inlined, it would have 2ⁿ of them.
func exponential(n int) string {
	var document strings.Builder
	document.WriteString(`{"openapi":"3.1.0","info":{"title":"Deep","version":"1"},"paths":{"/deep":{"post":{"operationId":"deep",` +
		`"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","properties":{"top":{"$ref":"#/components/schemas/S0"}}}}}},` +
		`"responses":{"200":{"description":"OK"}}}}},"components":{"schemas":{`)
	for i := range n {
		fmt.Fprintf(&document, `"S%d":{"type":"object","properties":{"left":{"$ref":"#/components/schemas/S%d"},"right":{"$ref":"#/components/schemas/S%d"}}},`, i, i+1, i+1)
	}
	fmt.Fprintf(&document, `"S%d":{"type":"string"}}}}`, n)
	return document.String()
}

// TestExponentialReferences holds the size of a tool to grow with the document
// and no faster, in every mode.
func TestExponentialReferences(t *testing.T) {
	for _, mode := range []schema.Mode{schema.Auto, schema.Inline, schema.Defs} {
		size := func(n int) int {
			return len(buildTools(t, exponential(n), BuildOptions{Schemas: mode}).Tools()[0].InputSchema)
		}
		small, large := size(500), size(1000)
		if large > 5*small/2 {
			t.Errorf("%s: twice the document gives %d bytes in place of %d", mode, large, small)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, name := range []string{"github-api.github.com.json", "kubernetes-1.33-swagger-2.0.json", "stripe.json"} {
		data := shared.Read(b, "openapi/"+name+".gz")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Build(data, BuildOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
