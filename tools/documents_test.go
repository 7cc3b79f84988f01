package tools

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/schema"
)

// TestRealDocuments holds every real document to what a client will meet: each
// operation is a tool or a warning that names it, and each tool is well formed.
func TestRealDocuments(t *testing.T) {
	definition := definitionSchema(t)
	for name, operations := range testkit.Documents() {
		checked := make(map[[sha256.Size]byte]bool) // tools that are equal in several modes are checked once
		for _, mode := range []schema.Mode{schema.Auto, schema.Inline, schema.Defs} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				tools := buildTools(t, string(testkit.ReadDocument(t, "openapi/"+name+".gz")), BuildOptions{
					Name: "real", Location: name, Schemas: mode, ResponseSchemas: mode == schema.Auto,
				})
				lost := 0
				for _, w := range tools.Report.Warnings {
					if w.Reason == "" || w.Lost && w.Operation == "" {
						t.Errorf("a warning says nothing: %+v", w)
					}
					if w.Lost {
						lost++
						t.Logf("lost: %s: %s", w.Operation, w.Reason)
					}
				}
				if got := len(tools.Tools()) + lost; got != operations || tools.Report.Operations != operations {
					t.Errorf("%d tools and %d lost of %d operations, want %d", len(tools.Tools()), lost, tools.Report.Operations, operations)
				}
				for _, tool := range tools.Tools() {
					key := sha256.Sum256(slices.Concat(tool.AppendOCP(nil), tool.Definition.InputSchema))
					if !checked[key] {
						checked[key] = true
						checkTool(t, tool, definition)
					}
				}
			})
		}
	}
}

func checkTool(t *testing.T, tool *Tool, definition *jsonschema.Schema) {
	t.Helper()
	if !build.IsName(tool.Name) || len(tool.Name) > build.MaxName || tool.Definition.Description == "" {
		t.Errorf("%s %s: name %q, description %q", tool.Plan.Method, tool.Plan.Path, tool.Name, tool.Definition.Description)
	}
	root, err := strictjson.Members(nil, tool.Definition.InputSchema)
	if err != nil {
		t.Fatalf("%s: input schema: %v", tool.Name, err)
	}
	if string(root[0].Value) != `"object"` || root[0].Name != "type" {
		t.Errorf("%s: the root of the input schema is no object", tool.Name)
	}
	for _, m := range root {
		if strings.HasSuffix(m.Name, "Of") {
			t.Errorf("%s: %s at the root of the input schema", tool.Name, m.Name)
		}
	}
	if _, err := schema.Compile(tool.Definition.InputSchema); err != nil {
		t.Errorf("%s: input schema: %v", tool.Name, err)
	}
	for _, a := range tool.Definition.Arguments {
		if !build.IsName(a.Name) || len(a.Name) > build.MaxName {
			t.Errorf("%s: argument %q", tool.Name, a.Name)
		}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.AppendOCP(nil)))
	if err != nil {
		t.Fatalf("%s: OCP definition: %v", tool.Name, err)
	}
	if err := definition.Validate(document); err != nil {
		t.Errorf("%s: OCP definition: %v", tool.Name, err)
	}
}

// definitionSchema compiles the protocol's own schema of a tool.
func definitionSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(testkit.ReadDocument(t, "schemas/ocp/ocp-tool.json")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("ocp-tool.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("ocp-tool.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// TestSameDocument holds Build to giving the same bytes each time.
func TestSameDocument(t *testing.T) {
	data := string(testkit.ReadDocument(t, "openapi/stripe.json.gz"))
	first, second := buildTools(t, data, BuildOptions{}), buildTools(t, data, BuildOptions{})
	if first.Hash != second.Hash {
		t.Error("the hash differs")
	}
	for i, tool := range first.Tools() {
		if other := second.Tools()[i]; !bytes.Equal(tool.AppendOCP(nil), other.AppendOCP(nil)) ||
			!bytes.Equal(tool.Definition.InputSchema, other.Definition.InputSchema) {
			t.Errorf("tool %s differs", tool.Name)
		}
	}
}
