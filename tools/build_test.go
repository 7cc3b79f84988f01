package tools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/schema"
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
			return len(buildTools(t, exponential(n), BuildOptions{Schemas: mode}).Tools()[0].Definition.InputSchema)
		}
		small, large := size(500), size(1000)
		if large > 5*small/2 {
			t.Errorf("%s: twice the document gives %d bytes in place of %d", mode, large, small)
		}
	}
}

// TestMany_operations_on_many_schemas holds what all tools list together to a limit,
// though each of them reaches most of the document, and loses none.
func TestMany_operations_on_many_schemas(t *testing.T) {
	const operations, schemas = 700, 4000 // of about 1 MB together, and 400 KB for each tool
	var document strings.Builder
	document.WriteString(`{"openapi":"3.1.0","info":{"title":"Wide","version":"1"},"components":{"schemas":{`)
	for i := range schemas {
		fmt.Fprintf(&document, `"S%d":{"type":"object","properties":{"next":{"$ref":"#/components/schemas/S%d"},"other":{"$ref":"#/components/schemas/S%d"}}},`, i, (i+1)%schemas, (i+7)%schemas)
	}
	document.WriteString(`"Last":{}}},"paths":{`)
	for i := range operations {
		fmt.Fprintf(&document, `"/p%d":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"array","items":{"$ref":"#/components/schemas/S%d"}}}}}}},`, i, i)
	}
	document.WriteString(`"/last":{"get":{}}}}`)
	set := buildTools(t, document.String(), BuildOptions{})
	size := 0
	for _, tool := range set.Tools() {
		if size += len(tool.Definition.InputSchema); len(tool.Definition.InputSchema) > DefaultMaxSchema {
			t.Errorf("%s lists %d bytes", tool.Name, len(tool.Definition.InputSchema))
		}
	}
	if size > maxListed || size < maxListed/4 {
		t.Errorf("the schemas take %d bytes, and may take %d", size, maxListed)
	}
	if len(set.Tools()) != set.Report.Operations {
		t.Errorf("%d tools of %d operations: %+v", len(set.Tools()), set.Report.Operations, set.Report.Warnings)
	}
}

func TestInput_schema_too_large(t *testing.T) {
	var document strings.Builder
	document.WriteString(`{"openapi":"3.1.0","info":{"title":"Large","version":"1"},"paths":{"/large":{"get":{"parameters":[{"name":"q","in":"query","schema":{"enum":["`)
	document.WriteString(strings.Repeat("x", maxInputSchema))
	document.WriteString(`"]}}]}},"/small":{"get":{"operationId":"small"}}}}`)
	set := buildTools(t, document.String(), BuildOptions{})
	warnings := set.Report.Warnings
	if len(set.Tools()) != 1 || len(warnings) != 1 {
		t.Fatalf("got %d tools and the warnings %+v, want one each", len(set.Tools()), warnings)
	}
	if w := warnings[0]; !w.Lost || !testkit.ContainsAll(w.Reason, "4096 KiB") {
		t.Errorf("got %+v, want the operation lost for its 4096 KiB", w)
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, name := range []string{"github-api.github.com.json", "kubernetes-1.33-swagger-2.0.json", "stripe.json"} {
		data := testkit.ReadDocument(b, "openapi/"+name+".gz")
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

func TestBuild_deprecated_operations_say_so_once(t *testing.T) {
	set := buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{
		"/a":{"get":{"operationId":"a","deprecated":true,"summary":"Old list"},"put":{"operationId":"b","deprecated":true,"summary":"DEPRECATED: use c"}},
		"/c":{"get":{"operationId":"c","summary":"List"},"put":{"operationId":"d","deprecated":true}}}}`, BuildOptions{})
	for name, want := range map[string]string{"a": "Deprecated. Old list", "b": "DEPRECATED: use c", "c": "List", "d": "Deprecated. PUT /c"} {
		if tool, _ := set.Tool(name); tool.Definition.Description != want {
			t.Errorf("%s: %q, want %q", name, tool.Definition.Description, want)
		}
	}
}

// A text for readers is listed as people see it; a value keeps all characters.
func TestBuild_texts_have_no_hidden_characters(t *testing.T) {
	const hidden = `\u0000\u001b\u202e\u200b\ufeff\u2066`
	for _, yaml := range []bool{false, true} {
		document := strings.ReplaceAll(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/a":{"post":{"operationId":"a","summary":"Sum~mary","description":"De~scription",
			"parameters":[{"name":"q","in":"query","description":"Par~ameter","schema":{"type":"string","title":"Ti~tle","enum":["x~y"]}}],
			"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"p":{"type":"string","description":"Prop~erty"},"description":{"type":"string"}}}}}}}}}}`, "~", hidden)
		if yaml {
			document = "# YAML\n" + document
		}
		tool, _ := buildTools(t, document, BuildOptions{}).Tool("a")
		listed := tool.Definition.Title + tool.Definition.Description + string(tool.Definition.InputSchema)
		for _, want := range []string{"Summary", "Description", "Parameter", "Title", "Property", `"description":{"type":"string"}`} {
			if !strings.Contains(listed, want) {
				t.Errorf("YAML %t: %s is missing in %q", yaml, want, listed)
			}
		}
		if enum := tool.Plan.Arguments[0].Schema; strings.Contains(string(enum), `"xy"`) {
			t.Errorf("YAML %t: the value is changed: %s", yaml, enum)
		}
	}
}
