package tools

import (
	"bytes"
	"crypto/sha256"
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
	c := newToolChecker(t)
	for name, operations := range testkit.Documents() {
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
					c.check(t, tool)
				}
			})
		}
	}
}

// toolChecker checks tools. It checks input schemas and OCP definitions that are equal in several modes or
// tools once.
type toolChecker struct {
	definition *jsonschema.Schema
	checked    map[[sha256.Size]byte]bool
}

// newToolChecker compiles the protocol's own schema of a tool.
func newToolChecker(t *testing.T) toolChecker {
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
	return toolChecker{compiled, make(map[[sha256.Size]byte]bool)}
}

// first reports whether the checker gets the value for the first time.
func (c toolChecker) first(value []byte) bool {
	key := sha256.Sum256(value)
	first := !c.checked[key]
	c.checked[key] = true
	return first
}

func (c toolChecker) check(t *testing.T, tool *Tool) {
	t.Helper()
	if !build.IsName(tool.Name) || len(tool.Name) > build.MaxName || tool.Definition.Description == "" {
		t.Errorf("%s %s: name %q, description %q", tool.Plan.Method, tool.Plan.Path, tool.Name, tool.Definition.Description)
	}
	for _, a := range tool.Definition.Arguments {
		if !build.IsName(a.Name) || len(a.Name) > build.MaxName {
			t.Errorf("%s: argument %q", tool.Name, a.Name)
		}
	}
	if c.first(tool.Definition.InputSchema) {
		checkInputSchema(t, tool)
	}
	ocp := tool.AppendOCP(nil)
	if !c.first(ocp) {
		return
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(ocp))
	if err != nil {
		t.Fatalf("%s: OCP definition: %v", tool.Name, err)
	}
	if err := c.definition.Validate(document); err != nil {
		t.Errorf("%s: OCP definition: %v", tool.Name, err)
	}
}

func checkInputSchema(t *testing.T, tool *Tool) {
	t.Helper()
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
	if _, broken := schema.Conform(tool.Definition.InputSchema); broken != nil {
		t.Errorf("%s: the input schema breaks rules of model APIs and clients: %q", tool.Name, broken)
	}
	if _, err := schema.Compile(tool.Definition.InputSchema); err != nil {
		t.Errorf("%s: input schema: %v", tool.Name, err)
	}
}

// TestSameDocument holds Build to giving the same bytes each time.
func TestSameDocument(t *testing.T) {
	first := realTools(t, "stripe.json")
	second := buildTools(t, string(testkit.ReadDocument(t, "openapi/stripe.json.gz")), BuildOptions{})
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
