package tool

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/naming"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

// TestRealDocuments holds every real document to what a client will meet: each
// operation is a tool or a warning that names it, and each tool is well formed.
func TestRealDocuments(t *testing.T) {
	definition := definitionSchema(t)
	for name, operations := range shared.Documents() {
		checked := make(map[[sha256.Size]byte]bool) // tools that are equal in several modes are checked once
		for _, mode := range []SchemaMode{SchemasAuto, SchemasInline, SchemasDefs} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				tools := buildTools(t, string(shared.Read(t, "openapi/"+name+".gz")), BuildOptions{
					Name: "real", Location: name, Schemas: mode, ResponseSchemas: mode == SchemasAuto,
				})
				lost := 0
				for _, w := range tools.Warnings {
					if w.Reason == "" || w.Lost && w.Operation == "" {
						t.Errorf("a warning says nothing: %+v", w)
					}
					if w.Lost {
						lost++
						t.Logf("lost: %s: %s", w.Operation, w.Reason)
					}
				}
				if got := len(tools.Tools()) + lost; got != operations || tools.Operations != operations {
					t.Errorf("%d tools and %d lost of %d operations, want %d", len(tools.Tools()), lost, tools.Operations, operations)
				}
				for _, tool := range tools.Tools() {
					key := sha256.Sum256(slices.Concat(tool.AppendOCP(nil), tool.InputSchema))
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
	if !naming.IsName(tool.Name) || len(tool.Name) > naming.MaxLength || tool.Description == "" {
		t.Errorf("%s %s: name %q, description %q", tool.Method, tool.Path, tool.Name, tool.Description)
	}
	root, err := wire.Members(nil, tool.InputSchema)
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
	if _, err := validate.Compile(tool.InputSchema); err != nil {
		t.Errorf("%s: input schema: %v", tool.Name, err)
	}
	for _, a := range tool.Arguments {
		if !naming.IsName(a.Name) || len(a.Name) > naming.MaxLength {
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
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(shared.Read(t, "schemas/ocp/ocp-tool.json")))
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
	data := string(shared.Read(t, "openapi/stripe.json.gz"))
	first, second := buildTools(t, data, BuildOptions{}), buildTools(t, data, BuildOptions{})
	if first.Hash != second.Hash {
		t.Error("the hash differs")
	}
	for i, tool := range first.Tools() {
		if other := second.Tools()[i]; !bytes.Equal(tool.AppendOCP(nil), other.AppendOCP(nil)) ||
			!bytes.Equal(tool.InputSchema, other.InputSchema) {
			t.Errorf("tool %s differs", tool.Name)
		}
	}
}
