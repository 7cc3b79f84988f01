package tool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/fairwayhq/fairway/ocp/extension"
	"github.com/fairwayhq/fairway/ocp/internal/describe"
	"github.com/fairwayhq/fairway/ocp/internal/inputschema"
	"github.com/fairwayhq/fairway/ocp/internal/naming"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/selector"
	"github.com/fairwayhq/fairway/ocp/shape"
)

// BuildOptions select and configure the tools that Build makes from a document. The zero
// value takes every operation and does not allow references to other files.
type BuildOptions struct {
	// Name is the Toolset's name.
	Name string

	// Location is the path or URL that the document came from. It appears in messages and
	// resolves relative $refs.
	Location string

	// Refs is the directory that relative $refs may read files from. If it is "",
	// references to other files are not allowed.
	Refs string

	// Include and Exclude choose operations. An operation becomes a tool if an Include
	// selects it, or Include is empty, and if no Exclude selects it. A selector that
	// matches no operation is an *UnmatchedError.
	Include, Exclude []selector.Selector

	// ReadOnly excludes the operations whose method is not safe.
	ReadOnly bool

	// Shapes change the tools that they select. What the document contains as x-fairway applies
	// first. A shape that selects no operation is an error.
	Shapes []shape.Shape

	// DescriptionTokens limits the description of a tool, in tokens of about 4 bytes. 0 means
	// describe.DefaultTokens. A negative value keeps descriptions as the document has them.
	DescriptionTokens int

	// Reloaded is true if this document replaces a version that all selectors matched.
	// Some selectors that no longer match are then listed in Toolset.Unmatched instead of
	// failing the build: each Include, and each Exclude of a method, because neither can
	// turn further operations into tools. Every other Exclude remains an error, because
	// its operation may have been renamed.
	Reloaded bool

	// Schemas controls how shared schemas are written. "" means SchemasAuto.
	Schemas SchemaMode

	// MaxSchema limits, in bytes, the listed schema of one tool's arguments and that of
	// its response; see Tool.InputSchema. 0 means DefaultMaxSchema. A negative value
	// removes this limit and the limit of all tools together.
	MaxSchema int

	// BasePath is added before every path. "" means the path of the document's first
	// server; "/" means no base path.
	BasePath string

	// ResponseSchemas enables DeclaredResponse.Schema. It is off by default because it costs memory
	// and few protocols use it.
	ResponseSchemas bool

	// NonInferrable names arguments that a model must not invent, in addition to those
	// that the document marks. A name is "argument" (of any tool) or "tool.argument".
	NonInferrable []string

	// MaxDocument limits the size of each file of the document, in bytes. 0 means
	// source.DefaultMaxDocument.
	MaxDocument int
}

// Build reads an OpenAPI document and makes a tool from each of its operations. If an
// operation cannot become a tool, the Toolset has a warning for it. Build fails only if
// data is not an OpenAPI document or the options are invalid.
func Build(data []byte, o BuildOptions) (*Toolset, error) {
	include, err := selector.Compile(o.Include)
	if err != nil {
		return nil, fmt.Errorf("include: %w", err)
	}
	exclude, err := selector.Compile(o.Exclude)
	if err != nil {
		return nil, fmt.Errorf("exclude: %w", err)
	}
	document, err := openapi.Read(data, openapi.Options{Location: o.Location, Refs: o.Refs, Limits: openapi.Limits{Size: o.MaxDocument}})
	if err != nil {
		return nil, err
	}
	mode, err := schema.ParseMode(string(o.Schemas))
	if err != nil {
		return nil, err
	}
	b := newBuilder(o, mode)
	operations := b.candidates(document.Operations())
	if err := b.checkSelected(include, exclude, operations); err != nil {
		return nil, err
	}
	b.many = len(operations) >= manyOperations
	unsafe := 0
	for i, operation := range operations {
		b.collect(i)
		if len(include) > 0 && !include.Matches(operation) || exclude.Matches(operation) {
			b.set.Excluded++
			continue
		}
		if o.ReadOnly && !isSafe(operation.Method) {
			b.set.Excluded++
			unsafe++
			continue
		}
		b.add(operation)
	}
	if unsafe > 0 && b.set.Excluded == len(operations) {
		return nil, errors.New("readonly leaves no tool: no operation has a safe method (GET, HEAD or OPTIONS); remove readonly, or select other operations")
	}
	b.finishInputs()
	b.finishResponses()
	built := slices.Clone(b.set.tools)
	if err := b.shapeTools(operations); err != nil {
		return nil, err
	}
	b.describe(document, len(operations))
	b.warnOfUnprotected(built)
	b.set.Hash = b.hash(document)
	b.collect(0)
	return b.set, nil
}

const (
	manyOperations = 2000 // from this number of operations, collect runs; large APIs have about 1,500
	collectEvery   = 1000 // operations between two garbage collections
)

// collect runs the garbage collector from time to time while a document with very many
// operations is built. Otherwise the heap would grow to twice the size of the live data.
func (b *builder) collect(done int) {
	if b.many && done%collectEvery == 0 {
		runtime.GC()
	}
}

// candidates names the tools of all operations before any operation is excluded. Filters
// therefore match the names of the unfiltered list, and do not change them.
func (b *builder) candidates(operations []openapi.Operation) []selector.Candidate {
	named := make([]selector.Candidate, len(operations))
	first := make(map[string]*openapi.Operation, len(operations)) // by operationId
	for i := range operations {
		operation := &operations[i]
		named[i].Operation = operation
		if operation.Err != nil {
			continue
		}
		named[i].Tool = b.names.Claim(naming.ForOperation(operation.ID, operation.Method, operation.Path))
		if operation.ID == "" {
			continue
		}
		if other := first[operation.ID]; other != nil {
			b.warn(Warning{Operation: operation.Method + " " + operation.Path, Reason: fmt.Sprintf("%s %s has the same operationId %.64q, so this tool is named %s: give each operation its own",
				other.Method, other.Path, operation.ID, named[i].Tool)})
			continue
		}
		first[operation.ID] = operation
	}
	return named
}

// checkSelected returns an error for selectors that match no operation. It records those
// that BuildOptions.Reloaded permits instead.
func (b *builder) checkSelected(include, exclude selector.Selection, operations []selector.Candidate) error {
	excluded := exclude
	if b.options.Reloaded {
		excluded = exclude.Without("method")
	}
	if e := excluded.Unmatched("exclude", operations); e != nil {
		return e
	}
	for _, e := range []*selector.UnmatchedError{include.Unmatched("include", operations), exclude.Unmatched("exclude", operations)} {
		switch {
		case e == nil:
		case !b.options.Reloaded:
			return e
		default:
			b.set.Unmatched = append(b.set.Unmatched, e)
			b.warn(Warning{Reason: e.Error()})
		}
	}
	return nil
}

// builder makes the tools of one document.
type builder struct {
	options          BuildOptions
	set              *Toolset
	names            naming.Set
	input            *schema.Translator
	output           *schema.Translator
	simplifier       *inputschema.Simplifier // nil until a schema has to be simplified
	pending          []pendingTool
	siblings         siblingIndex
	plain            validate.FastSet
	pendingResponses []pendingResponse
	early            int // bytes of the input schemas that were written before all schemas were measured
	written          int // bytes of all argument schemas so far, including those that were too large

	descriptions map[*openapi.Node]string // of properties

	declared map[*Tool]*shape.Shape // x-fairway of the tools

	extensions extension.Reader // of OCP, of the operations

	unprotected []Warning // about configured non-inferrable names that match no argument
	many        bool      // the document has at least manyOperations
}

func newBuilder(o BuildOptions, mode schema.Mode) *builder {
	b := &builder{
		options:      o,
		set:          &Toolset{Name: o.Name, ResponseSchemas: o.ResponseSchemas, byName: make(map[string]*Tool)},
		names:        naming.NewSet(),
		siblings:     newSiblingIndex(),
		declared:     make(map[*Tool]*shape.Shape),
		plain:        make(validate.FastSet),
		descriptions: make(map[*openapi.Node]string),
		input:        schema.NewTranslator(mode, schema.Input),
		output:       schema.NewTranslator(mode, schema.Output),
	}
	b.extensions = extension.Reader{Responses: b.output, Warn: func(operation, reason string) {
		b.warn(Warning{Operation: operation, Reason: reason})
	}}
	return b
}

// add makes a tool from the operation, or adds a warning that says why it cannot.
func (b *builder) add(named selector.Candidate) {
	operation, name := named.Operation, named.Tool
	where := operation.Method + " " + operation.Path
	if operation.Err != nil {
		b.warn(Warning{Operation: where, Reason: operation.Err.Error(), Lost: true})
		return
	}
	for _, reason := range operation.Warnings {
		b.warn(Warning{Operation: where, Reason: reason})
	}
	t := &toolBuilder{builder: b, operation: operation, names: naming.NewSet(), index: make(map[string]int), tool: &Tool{
		Name:        name,
		Title:       operation.Summary,
		Description: b.describeOperation(operation),
		Unshaped:    Unshaped{Size: len(fullDescription(operation))},
		Method:      operation.Method,
		Path:        operation.Path,
		OperationID: operation.ID,
		Tags:        operation.Tags,
		Deprecated:  operation.Deprecated,
		Security:    requirementsOf(operation),
	}}
	if err := t.build(); err != nil {
		b.warn(Warning{Operation: where, Reason: err.Error(), Lost: true})
		return
	}
	b.set.tools = append(b.set.tools, t.tool)
	b.set.byName[name] = t.tool
}

func (b *builder) warn(w Warning) {
	b.set.Warnings = append(b.set.Warnings, w)
}

// addSchemaSize adds the size of a tool's argument schemas to the total. It returns an error if the
// schemas of this tool alone are too large.
func (b *builder) addSchemaSize(size int) error {
	b.written += size
	if size > maxInputSchema {
		return fmt.Errorf("the schema of its arguments takes %d KiB; the limit is %d KiB: let it refer to fewer schemas",
			size>>10, maxInputSchema>>10)
	}
	return nil
}

// checkSchemaBudget returns an error if there is no room for the input schemas of further tools.
func (b *builder) checkSchemaBudget() error {
	if b.written <= maxWritten {
		return nil
	}
	return fmt.Errorf("the schemas of the tools up to this one need more than %d MiB: choose operations with include and exclude, or split the document",
		maxWritten>>20)
}

// describe copies the document's own information into the Toolset.
func (b *builder) describe(document *openapi.Document, operations int) {
	b.set.Title = document.Title
	b.set.Description = document.Description
	b.set.Version = document.Version
	b.set.Operations = operations
	b.set.Origin = document.Origin()
	b.set.OCP = extension.ReadAPI(document)
	b.set.MCP = b.readMCP("", document.Root())
	b.set.SecuritySchemes = security.Read(document)
	b.set.Files = document.Files()
	for _, reason := range slices.Concat(document.Warnings, b.input.Warnings(), b.output.Warnings()) {
		b.warn(Warning{Reason: reason})
	}
	switch {
	case operations == 0:
		b.warn(Warning{Reason: "the document has no operations, so there are no tools"})
	case b.set.Excluded == operations:
		b.warn(Warning{Reason: "include, exclude and readonly leave no operation, so there are no tools"})
	}
}

// hash returns a hash of everything that the Toolset is made from.
func (b *builder) hash(document *openapi.Document) string {
	sum := sha256.New()
	options := b.options
	options.Reloaded = false // does not affect the tools
	shapes, _ := json.Marshal(options.Shapes)
	options.Shapes = nil // contains pointers
	fmt.Fprintf(sum, "%s\n%+v\n%s", document.Hash(), options, shapes)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// describeOperation returns the tool's description. It is never empty, because some clients
// reject a tool without a description.
func (b *builder) describeOperation(operation *openapi.Operation) string {
	return cmp.Or(describe.Operation(operation.Summary, operation.Description, b.options.DescriptionTokens), operation.Method+" "+operation.Path)
}

// fullDescription returns the description as the document has it: not shortened, and with its markup.
func fullDescription(operation *openapi.Operation) string {
	return cmp.Or(describe.Operation(operation.Summary, operation.Description, -1), operation.Method+" "+operation.Path)
}

func requirementsOf(operation *openapi.Operation) []SecurityRequirement {
	requirements := make([]SecurityRequirement, 0, len(operation.Security))
	for _, r := range operation.Security {
		requirements = append(requirements, r)
	}
	return requirements
}

// SchemaMode selects where a tool's input schema contains the schemas that the document
// shares between operations.
type SchemaMode string

// The modes. An empty SchemaMode means SchemasAuto.
const (
	SchemasAuto   SchemaMode = "auto"   // small ones in place, others in $defs; or like another mode, if that is shorter
	SchemasInline SchemaMode = "inline" // in place, as long as the schema stays within a size limit
	SchemasDefs   SchemaMode = "defs"   // all in $defs
)

// ParseSchemaMode returns the mode with this name. "" means SchemasAuto.
func ParseSchemaMode(name string) (SchemaMode, error) {
	mode, err := schema.ParseMode(name)
	return SchemaMode(mode), err
}
