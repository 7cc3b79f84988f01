package ocp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"

	"github.com/fairwayhq/fairway/ocp/openapi"
	"github.com/fairwayhq/fairway/ocp/schema"
)

// BuildOptions says which tools a document gives. The zero value takes every
// operation and lets the document name no other file.
type BuildOptions struct {
	// Name is the Toolset's name.
	Name string

	// Location is where the document came from: a path or a URL, for messages
	// and for relative $refs.
	Location string

	// Refs is the directory below which relative $refs may name other files;
	// "" allows none.
	Refs string

	// Include and Exclude choose operations: one becomes a tool if an Include
	// selects it, or there is none, and no Exclude does. A selector that matches no
	// operation is an *UnmatchedError.
	Include, Exclude []Selector

	// Reloaded says that the document replaces one that all selectors matched. An
	// Include, or an Exclude of a method, that matches nothing anymore is then
	// reported in Toolset.Unmatched instead: it cannot make more operations tools.
	// Any other Exclude may stand for an operation that was renamed and stays an error.
	Reloaded bool

	// Schemas says what happens to shared schemas; "" is schema.Auto.
	Schemas schema.Mode

	// MaxSchema bounds the listed schema of one tool's arguments and of its answer,
	// in bytes; see Tool.InputSchema. 0 is DefaultMaxSchema. Negative lifts the
	// bound, and that of the whole list as well.
	MaxSchema int

	// BasePath stands before every path. "" takes the path of the document's
	// first server; "/" is none.
	BasePath string

	// ResponseSchemas asks for Answer.Schema, which costs memory and is wanted
	// by few protocols.
	ResponseSchemas bool

	// NonInferrable names arguments that a model must not make up, "argument"
	// of any tool or "tool.argument", beside those that the document marks.
	NonInferrable []string

	// Limits bounds the document; zero fields take the defaults of package
	// openapi.
	Limits openapi.Limits
}

// Build reads an OpenAPI document and makes each of its operations a tool.
// Operations that cannot be one are warnings of the Toolset. It fails only if
// data is no OpenAPI document, or the options make no sense.
func Build(data []byte, o BuildOptions) (*Toolset, error) {
	include, err := compileSelectors(o.Include)
	if err != nil {
		return nil, fmt.Errorf("include: %w", err)
	}
	exclude, err := compileSelectors(o.Exclude)
	if err != nil {
		return nil, fmt.Errorf("exclude: %w", err)
	}
	document, err := openapi.Read(data, openapi.Options{Location: o.Location, Refs: o.Refs, Limits: o.Limits})
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
	for i, operation := range operations {
		b.collect(i)
		if len(include) > 0 && !include.matches(operation) || exclude.matches(operation) {
			b.set.Excluded++
			continue
		}
		b.add(operation)
	}
	b.finishInputs()
	b.finishAnswers()
	b.describe(document, len(operations))
	b.warnOfUnprotected()
	b.set.Hash = b.hash(document)
	b.collect(0)
	return b.set, nil
}

const (
	manyOperations = 2000 // operations of a document from which on collect runs; large APIs have about 1,500
	collectEvery   = 1000 // operations between two collections
)

// collect collects garbage from time to time while the tools of very many operations
// are made. Otherwise the heap would grow to twice what is live.
func (b *builder) collect(done int) {
	if b.many && done%collectEvery == 0 {
		runtime.GC()
	}
}

// candidates names the tools of all operations before any is excluded, so that
// filters match, and leave unchanged, the names that are listed without filters.
func (b *builder) candidates(operations []openapi.Operation) []candidate {
	named := make([]candidate, len(operations))
	for i := range operations {
		operation := &operations[i]
		named[i].Operation = operation
		if operation.Err == nil {
			named[i].name = b.names.claim(toolName(operation.ID, operation.Method, operation.Path))
		}
	}
	return named
}

// checkSelected returns an error for selectors that match no operation, or records
// those that may, as BuildOptions.Reloaded says.
func (b *builder) checkSelected(include, exclude selection, operations []candidate) error {
	excluded := exclude
	if b.options.Reloaded {
		excluded = slices.DeleteFunc(slices.Clone(exclude), func(s compiledSelector) bool { return s.By == "method" })
	}
	if e := excluded.unmatched("exclude", operations); e != nil {
		return e
	}
	for _, e := range []*UnmatchedError{include.unmatched("include", operations), exclude.unmatched("exclude", operations)} {
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
	options BuildOptions
	set     *Toolset
	names   namespace
	input   *schema.Translator
	output  *schema.Translator
	compact *schema.Translator // without descriptions; nil until a schema has to be simplified
	pending []pendingTool
	twins   twins
	plain   plainForms
	answers []pendingAnswer
	scratch []byte // for simplified schemas
	early   int    // bytes of the input schemas written so far
	written int    // bytes of the schemas of arguments so far, those that were too large among them

	descriptions map[*openapi.Node]string // of properties

	enhanced int // bytes of the schemas of enhanced properties so far

	unprotected []Warning // of names that were to be non-inferrable and are no arguments
	many        bool      // there are manyOperations
}

func newBuilder(o BuildOptions, mode schema.Mode) *builder {
	return &builder{
		options:      o,
		set:          &Toolset{Name: o.Name, byName: make(map[string]*Tool)},
		names:        newNamespace(),
		twins:        newTwins(),
		plain:        make(plainForms),
		descriptions: make(map[*openapi.Node]string),
		input:        schema.NewTranslator(mode, schema.Input),
		output:       schema.NewTranslator(mode, schema.Output),
	}
}

// add makes the operation a tool, or a warning that says why it is none.
func (b *builder) add(named candidate) {
	operation, name := named.Operation, named.name
	where := operation.Method + " " + operation.Path
	if operation.Err != nil {
		b.warn(Warning{Operation: where, Reason: operation.Err.Error(), Lost: true})
		return
	}
	for _, reason := range operation.Warnings {
		b.warn(Warning{Operation: where, Reason: reason})
	}
	t := &toolBuilder{builder: b, operation: operation, names: newNamespace(), index: make(map[string]int), tool: &Tool{
		Name:        name,
		Title:       operation.Summary,
		Description: description(operation),
		Method:      operation.Method,
		Path:        operation.Path,
		OperationID: operation.ID,
		Tags:        operation.Tags,
		Deprecated:  operation.Deprecated,
		Security:    security(operation),
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

// take reports why a tool cannot have the schemas of its arguments, if they are too
// large in themselves.
func (b *builder) take(size int) error {
	b.written += size
	if size > maxInputSchema {
		return fmt.Errorf("the schema of its arguments takes %d KiB, and %d KiB are the most: let it refer to fewer schemas",
			size>>10, maxInputSchema>>10)
	}
	return nil
}

// spent reports that there is no room for the input schemas of further tools.
func (b *builder) spent() error {
	if b.written <= maxWritten {
		return nil
	}
	return fmt.Errorf("the schemas of the tools up to here take more than %d MiB: choose operations with include and exclude, or split the document",
		maxWritten>>20)
}

// describe fills in what the document says of itself.
func (b *builder) describe(document *openapi.Document, operations int) {
	b.set.Title = document.Title
	b.set.Description = document.Description
	b.set.Version = document.Version
	b.set.Operations = operations
	b.set.Origin = serverOrigin(document)
	b.set.OCP = readAPIExtension(document)
	b.set.MCP = b.readMCP("", document.Root())
	b.set.SecuritySchemes = readSecuritySchemes(document)
	b.set.Files = document.Files()
	for _, reason := range slices.Concat(document.Warnings, b.input.Warnings(), b.output.Warnings()) {
		b.warn(Warning{Reason: reason})
	}
	switch {
	case operations == 0:
		b.warn(Warning{Reason: "the document has no operations, so there are no tools"})
	case b.set.Excluded == operations:
		b.warn(Warning{Reason: "include and exclude leave no operation, so there are no tools"})
	}
}

// hash identifies the Toolset by everything it is made from.
func (b *builder) hash(document *openapi.Document) string {
	sum := sha256.New()
	options := b.options
	options.Reloaded = false // says nothing about the tools
	fmt.Fprintf(sum, "%s\n%+v", document.Hash(), options)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// description is never empty: some clients refuse a tool without one.
func description(operation *openapi.Operation) string {
	switch {
	case operation.Description != "":
		return operation.Description
	case operation.Summary != "":
		return operation.Summary
	}
	return operation.Method + " " + operation.Path
}

func security(operation *openapi.Operation) []SecurityRequirement {
	requirements := make([]SecurityRequirement, 0, len(operation.Security))
	for _, r := range operation.Security {
		requirements = append(requirements, r)
	}
	return requirements
}
