package tools

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Extensions of the documents that are made from the tools of an MCP server (BuildOptions.Foreign).
const (
	// ExtensionForeign is the tool, resource, template or prompt as the server lists it, or true for completions.
	ExtensionForeign = "x-mcp-server"

	// ExtensionForeignKind is the ForeignKind of the operation.
	ExtensionForeignKind = "x-mcp-server-kind"

	// ExtensionForeignReads is true for a tool that only reads, if the operator trusts the server's annotations.
	ExtensionForeignReads = "x-mcp-server-reads"

	// ExtensionForeignWarnings is an array of texts, beside info: what of the server's lists was left out, and why.
	ExtensionForeignWarnings = "x-mcp-server-warnings"
)

// maxForeignSchema limits the schema of the arguments of a Foreign tool, in bytes.
const maxForeignSchema = 256 << 10

// ForeignKind is what a Foreign tool is at its server. All kinds but ForeignTool are requests that clients make without
// a model: they are tools only for policies.
type ForeignKind string

// The kinds of Foreign tools.
const (
	ForeignTool       ForeignKind = "tool"
	ForeignResource   ForeignKind = "resource"
	ForeignTemplate   ForeignKind = "template"
	ForeignPrompt     ForeignKind = "prompt"
	ForeignCompletion ForeignKind = "completion"
)

// Foreign is what an MCP server says of its own tool, resource, template or prompt.
type Foreign struct {
	Kind       ForeignKind
	Name       string         // the server's own name, which may have other characters than Tool.Name; the URI of a resource or template
	Definition jsontext.Value // as in the list of the server (MCP, Data Types)
}

// IsRequest reports whether the tool is a request that clients make without a model, for a resource, a prompt or a
// completion.
func (t *Tool) IsRequest() bool { return t.Foreign != nil && t.Foreign.Kind != ForeignTool }

// Member returns a member of the definition, or nil.
func (f *Foreign) Member(name string) jsontext.Value { return strictjson.MemberOf(f.Definition, name) }

// reads reports whether an operation with another method than GET only reads.
func (o *BuildOptions) reads(operation *openapi.Operation) bool {
	return isSafe(operation.Method) || o.Foreign && operation.Place.Get(ExtensionForeignReads).True()
}

// warnOfForeign reports what of the server's lists was left out.
func (b *builder) warnOfForeign(document *openapi.Document) {
	for walk := strictjson.Into(document.Root().Get(ExtensionForeignWarnings).AppendJSON(nil)); walk.Next(); {
		b.report().warn(Warning{Reason: strictjson.Text(walk.Value)})
	}
}

// readForeign sets what the server says of the tool.
func (t *toolBuilder) readForeign() {
	f := &Foreign{
		Kind:       ForeignKind(t.operation.Place.Get(ExtensionForeignKind).Text()),
		Definition: t.operation.Place.At(ExtensionForeign).AppendJSON(nil),
	}
	t.tool.Foreign = f
	switch f.Kind {
	case ForeignResource:
		f.Name = strictjson.Text(f.Member("uri"))
	case ForeignTemplate:
		f.Name = strictjson.Text(f.Member("uriTemplate"))
	default:
		f.Name = strictjson.Text(f.Member("name"))
	}
}

// buildForeign makes a tool from an operation of an MCP server. The arguments are the properties of the schema that the
// server gives, with their names. The schema itself is listed, since its references and its keywords beside the properties
// apply to the whole. Only what model APIs or clients refuse is changed or left out there.
func (t *toolBuilder) buildForeign() error {
	input := t.tool.Foreign.Member("inputSchema")
	if len(input) > maxForeignSchema {
		return fmt.Errorf("inputSchema has %d KiB; the limit is %d KiB", len(input)>>10, maxForeignSchema>>10)
	}
	if isEmptySchema(input) {
		t.report.warn(Warning{Reason: fmt.Sprintf("tool %s: the MCP server gives no inputSchema; any arguments are passed to it", t.tool.Name)})
		input = jsontext.Value(`{"type":"object"}`)
	}
	root, err := schema.Parse(input)
	if err != nil || input.Kind() != '{' || strictjson.Text(root.Value("type")) != "object" {
		return errors.New(`inputSchema must be a JSON Schema with "type": "object"`)
	}
	listed, broken := schema.Conform(input)
	if broken != nil {
		t.tool.Definition.full = schema.FixedInput(input)
	}
	conforming, _ := schema.Parse(listed)
	for _, at := range schema.Unusable(input) {
		t.report.warn(Warning{Reason: fmt.Sprintf("tool %s: %q of inputSchema cannot be used to check arguments; the MCP server checks them itself", t.tool.Name, at)})
	}
	required, separate := requiredNames(root), !slices.ContainsFunc(root.Keywords, constrainsWhole)
	for _, p := range root.Parts("properties") {
		t.addForeignArgument(&p, conforming.Property(p.Name), slices.Contains(required, p.Name), separate)
	}
	encoder, err := request.NewEncoder("application/json", nil)
	if err != nil {
		return err
	}
	t.plan.Body = &request.BodyPlan{Encoder: encoder, Required: true, Whole: -1}
	t.plan.Undeclared.Open = root.Value("additionalProperties").Kind() != 'f'
	t.planPath()
	t.describeResponse()
	if t.options.ResponseSchemas {
		t.tool.Output.Schema = t.tool.Foreign.Member("outputSchema")
	}
	t.plan.reads = t.options.reads(t.operation)
	t.markNonInferrable()
	t.plan.index = indexOf(t.plan.Arguments)
	t.tool.Definition.TakesKey = t.options.IdempotencyArgument
	t.tool.Definition.InputSchema = listed
	t.tool.Definition.Description = cmp.Or(build.Describe("", t.operation.Description, t.options.DescriptionTokens), t.tool.Definition.Title, t.operation.ID)
	t.tool.list()
	return t.readShape()
}

// isEmptySchema reports whether a server says nothing about the arguments of a tool.
func isEmptySchema(input jsontext.Value) bool {
	walk := strictjson.Into(input)
	return input == nil || input.Kind() == 'n' || input.Kind() == '{' && !walk.Next()
}

func requiredNames(root *schema.Root) (names []string) {
	for walk := strictjson.Into(root.Value("required")); walk.Next(); {
		names = append(names, strictjson.Text(walk.Value))
	}
	return names
}

// constrainsWhole reports whether a keyword at the root of a schema constrains more than one property.
func constrainsWhole(k schema.Keyword) bool {
	switch k.Name {
	case "$schema", "$id", "$comment", "$defs", "title", "description", "type", "properties", "required", "additionalProperties", "default", "examples":
		return false
	}
	return true
}

// addForeignArgument adds a property of the server's schema as an argument, with its listed schema. The server applies defaults itself. If no
// keyword constrains several properties, a plain value is validated separately.
func (t *toolBuilder) addForeignArgument(p *schema.Part, listed *schema.Tree, required, separate bool) {
	a := Argument{
		Name: p.Name, WireName: p.Name, In: InBody, Required: required,
		Description: strictjson.Text(p.Value("description")), Schema: listed.Text, types: p.Types(),
	}
	if header := strictjson.Text(p.Value(extensionMCPHeader)); len(header) <= maxMCPHeader && httpguts.ValidHeaderFieldName(header) {
		a.MCPHeader = header
	}
	planned := request.Argument{NeededInBody: required, Needed: required}
	if separate {
		planned.Fast = t.plain.Read(p.Text)
	}
	t.plan.Arguments = append(t.plan.Arguments, a)
	t.plan.Encodings = append(t.plan.Encodings, planned)
}
