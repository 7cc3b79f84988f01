package tools

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/ocpextension"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
	"github.com/fairwayhq/fairway/tools/security"
)

// BuildOptions select and configure the tools that Build makes from a document. The zero
// value takes every operation and does not allow references to other files. A configuration file can have those with
// a name in JSON.
type BuildOptions struct {
	Name     string `json:"-"` // the Toolset's name
	Location string `json:"-"` // path or URL of the document; it appears in messages and resolves relative $refs

	// The directory that relative $refs of a file may refer into. Other $refs to files are
	// reported as warnings. $refs over the network are never followed. Default: none.
	Refs string `json:"refs,omitempty"`

	// Selectors of the operations that become tools. An operation must match at least one. A
	// selector that matches no operation is a configuration error. Default: all operations.
	Include []build.Selector `json:"include,omitempty"`

	// Selectors of the operations that do not become tools, even if they are included. A
	// selector that matches no operation is a configuration error. If the document is loaded
	// after start, such a selector makes its tools unavailable (503), and a changed document is
	// not used. Default: none.
	Exclude []build.Selector `json:"exclude,omitempty"`

	// Whether only operations with a safe method (GET, HEAD, OPTIONS) become tools. Those whose name or
	// summary has a verb of change, such as "revoke", become tools only if an include selector of the
	// kind operation selects them. Default: false.
	ReadOnly bool `json:"readonly,omitempty"`

	// Whether the x-fairway of the document itself is ignored. That of overlays has an effect. Default: false.
	IgnoreExtensions bool `json:"ignore_extensions,omitempty"`

	// Changes of tools: names, texts, arguments, and what a model gets of responses. A document
	// can contain the same as x-fairway, and this list takes precedence. One that selects no
	// operation is a configuration error. Default: none.
	Shapes []build.Shape `json:"tools,omitempty"`

	// The longest description of a tool, in tokens of about 4 bytes. A longer one is cut at a
	// sentence. A negative value ("off" in the Caddyfile) lists descriptions in full, with their
	// markup. Default: 400.
	DescriptionTokens int `json:"description_tokens,omitempty"`

	// How shared schemas are listed. "inline" copies them to where they are used, up to 64 KiB for
	// each schema; "defs" keeps them in $defs; "auto" is "inline" up to 32 KiB for each tool, and the shortest form above
	// it. Schemas that contain themselves are always in $defs. Default: auto.
	Schemas schema.Mode `json:"schemas,omitempty"`

	// Whether arguments of calls must have the JSON types of the schema. Otherwise a value that does not
	// fit is converted if it fits then: "5" to 5, JSON text to an object, a value to a list of it.
	// Default: false.
	StrictArguments bool `json:"strict_arguments,omitempty"`

	// The largest listed schema of one tool's arguments, and of its response, in bytes. A
	// larger schema is simplified: descriptions inside the schema are removed first, then its
	// deepest levels. A simplified schema accepts everything that the full one accepts, and
	// arguments are validated against the full schema. If the tools of a document would take
	// more than 9 MiB together, all of them get a lower limit. A negative value ("off" in the
	// Caddyfile) lists all schemas in full. Default: 64 KiB.
	MaxSchema int `json:"max_schema,omitempty"`

	// The path prefix of the API on this site. The document's paths are appended to it.
	// Default: the path of the document's first server.
	BasePath string `json:"base_path,omitempty"`

	// The largest document, in bytes. Default: 64 MiB.
	MaxDocument int `json:"max_document,omitempty"`

	// Arguments that a model must not make up: an argument's name, or a tool's name, a dot and
	// an argument's name. If a call needs one, the user is asked through a client that
	// supports this. With other clients a call that needs one fails. Default: the arguments
	// that the document marks with x-otc-non-inferrable.
	NonInferrable []string `json:"non_inferrable,omitempty"`

	// Whether the tools of MCP servers list the argument idempotency_key, which a model can fill. Tools whose method is
	// safe, and those that have an argument of this name, do not list it. Default: false.
	IdempotencyArgument bool `json:"idempotency_argument,omitempty"`

	// Overlaid means that overlay.Apply has prepared the document: its x-fairway may have annotations
	// readOnlyHint true, which are those of the operator.
	Overlaid bool `json:"-"`

	// Reloaded is true if this document replaces a version that all selectors matched.
	// Some selectors that no longer match are then listed in Report.Unmatched instead of
	// failing the build: each Include, and each Exclude of a method, because neither can
	// turn further operations into tools. Every other Exclude remains an error, because
	// its operation may have been renamed.
	Reloaded bool `json:"-"`

	// Foreign means that the document was made from the tools of an MCP server: each operation has ExtensionForeign.
	Foreign bool `json:"-"`

	// Uploads means that file arguments also take the handle of an uploaded file.
	Uploads bool `json:"-"`

	// ResponseSchemas enables Output.Schema. It is off by default because it costs memory
	// and few protocols use it.
	ResponseSchemas bool `json:"-"`
}

// Build reads an OpenAPI document and makes a tool from each of its operations. If an
// operation cannot become a tool, the Toolset has a warning for it. Build fails only if
// data is not an OpenAPI document or the options are invalid.
func Build(data []byte, o BuildOptions) (*Toolset, error) {
	include, err := build.CompileSelectors(o.Include)
	if err != nil {
		return nil, fmt.Errorf("include: %w", err)
	}
	exclude, err := build.CompileSelectors(o.Exclude)
	if err != nil {
		return nil, fmt.Errorf("exclude: %w", err)
	}
	document, err := openapi.Read(data, openapi.Options{Location: o.Location, Refs: o.Refs, Limits: openapi.Limits{Size: o.MaxDocument}, Hidden: o.Foreign})
	if err != nil {
		return nil, err
	}
	mode, err := schema.ParseMode(string(o.Schemas))
	if err != nil {
		return nil, err
	}
	b := newBuilder(o, mode, document)
	declared := document.Operations()
	operations := b.candidates(declared)
	if err := b.checkSelected(include, exclude, operations); err != nil {
		return nil, err
	}
	b.collect = len(operations) >= manyOperations
	byName := include.Without("tag").Without("path").Without("method")
	unsafe := 0
	for i, operation := range operations {
		b.collect.run(i)
		if len(include) > 0 && !include.Matches(operation) || exclude.Matches(operation) {
			b.set.Report.Excluded++
			continue
		}
		changes := changesByVerb(operation.Operation)
		if o.ReadOnly && (!o.reads(operation.Operation) || changes && !byName.Matches(operation)) {
			b.set.Report.Excluded++
			unsafe++
			if changes {
				b.changing = append(b.changing, operation.Tool)
			}
			continue
		}
		b.add(operation)
	}
	if unsafe > 0 && b.set.Report.Excluded == len(operations) {
		return nil, errors.New("readonly leaves no tool: no operation has a safe method (GET, HEAD or OPTIONS); remove readonly, or select other operations")
	}
	b.setRivals(declared)
	b.source.release()
	b.inputs.finish(b.set.tools, b.collect)
	b.outputs.finish(b.set.tools, b.collect)
	built := slices.Clone(b.set.tools)
	if err := shapeTools(b.set, o, b.declared, operations); err != nil {
		return nil, err
	}
	b.set.index()
	b.warnOfChanges()
	b.describe(document, len(operations))
	b.warnOfUnprotected(built)
	b.set.Hash = b.hash(document)
	b.collect.run(0)
	return b.set, nil
}

const (
	manyOperations = 2000 // from this number of operations, collect runs; large APIs have about 1,500
	collectEvery   = 500  // operations between two garbage collections
)

// A collector runs the garbage collector from time to time while a document with very many operations is
// built. Otherwise the heap would grow to twice the size of the live data. It does nothing if it is false.
type collector bool

func (c collector) run(done int) {
	if bool(c) && done%collectEvery == 0 {
		runtime.GC()
	}
}

// candidates names the tools of all operations before any operation is excluded. Filters
// therefore match the names of the unfiltered list, and do not change them.
func (b *builder) candidates(operations []openapi.Operation) []build.Candidate {
	named := make([]build.Candidate, len(operations))
	own, former := make([]string, len(operations)), make([]string, len(operations))
	for i := range operations {
		if operation := &operations[i]; operation.Err == nil {
			former[i] = b.names.Claim(build.NameForOperation(operation.ID, operation.Method, operation.Path))
			if own[i] = operation.ID; build.SanitizeName(operation.ID) == "" {
				own[i] += " " + operation.Path
			}
		}
	}
	names := (&build.Renaming{
		Own: own, Former: former,
		Name: func(i int, read func(string) string) string {
			return build.NameForOperation(read(operations[i].ID), operations[i].Method, read(operations[i].Path))
		},
		Prefix: func(i int) string { return strings.ToLower(operations[i].Method) },
	}).Names()
	if b.options.Foreign {
		b.leaveReserved(names)
	}
	first := make(map[string]*openapi.Operation, len(operations)) // by operationId
	for i := range operations {
		operation := &operations[i]
		named[i].Operation = operation
		if operation.Err != nil {
			continue
		}
		if named[i].Tool = names[i]; names[i] != former[i] {
			named[i].Former = former[i]
		}
		if operation.ID == "" {
			continue
		}
		if other := first[operation.ID]; other != nil {
			b.report().warn(Warning{Operation: operation.Method + " " + operation.Path, Reason: fmt.Sprintf("%s %s has the same operationId %.64q, so this tool is named %s: give each operation its own",
				other.Method, other.Path, operation.ID, named[i].Tool)})
			continue
		}
		first[operation.ID] = operation
	}
	return named
}

// leaveReserved gives tools of an MCP server with names of built-in tools the prefix of the Toolset.
func (b *builder) leaveReserved(names []string) {
	taken := build.NewNameSet()
	for _, name := range names {
		taken.Taken[name] = true
	}
	prefix := cmp.Or(MergePrefix(b.options.Name), "server")
	for i, name := range names {
		if !IsReserved(name) {
			continue
		}
		for IsReserved(name) {
			name = build.ShortenName(prefix + "_" + name)
		}
		names[i] = taken.Claim(name)
	}
}

// checkSelected returns an error for selectors that match no operation. It records those
// that BuildOptions.Reloaded permits instead.
func (b *builder) checkSelected(include, exclude build.Selection, operations []build.Candidate) error {
	excluded := exclude
	if b.options.Reloaded {
		excluded = exclude.Without("method")
	}
	if e := excluded.Unmatched("exclude", operations); e != nil {
		return e
	}
	for _, e := range []*build.UnmatchedError{include.Unmatched("include", operations), exclude.Unmatched("exclude", operations)} {
		switch {
		case e == nil:
		case !b.options.Reloaded:
			return e
		default:
			b.set.Report.Unmatched = append(b.set.Report.Unmatched, e)
			b.report().warn(Warning{Reason: e.Error()})
		}
	}
	return nil
}

// A builder makes the tools of one document, in phases. It names all operations and selects some of them. A
// toolBuilder makes a tool of each. The schemas of arguments and responses are written after all tools are known, because
// they share size limits (inputWriter, outputWriter). At last, shapes change the tools (shaper).
type builder struct {
	options  BuildOptions
	set      *Toolset
	names    build.NameSet
	source   *toolSource
	inputs   inputWriter
	outputs  outputWriter
	declared map[*Tool]*build.Shape // x-fairway of the tools
	changing []string               // tools that readonly leaves out although their method is safe
	collect  collector
}

func newBuilder(o BuildOptions, mode schema.Mode, document *openapi.Document) *builder {
	set := &Toolset{Name: o.Name, ResponseSchemas: o.ResponseSchemas, Foreign: o.Foreign}
	input, output := schema.NewTranslator(mode, schema.Input), schema.NewTranslator(mode, schema.Output)
	input.Uploads = o.Uploads
	return &builder{
		options: o,
		set:     set,
		names:   build.NewNameSet(),
		source: &toolSource{
			options:      o,
			report:       &set.Report,
			input:        input,
			plain:        make(schema.FastSet),
			descriptions: make(map[*openapi.Node]string),
			root:         document.Root().File,
			extensions: ocpextension.Reader{Responses: output, Warn: func(operation, reason string) {
				set.Report.warn(Warning{Operation: operation, Reason: reason})
			}},
		},
		inputs:   inputWriter{limit: o.MaxSchema, report: &set.Report, translator: input, siblings: newSiblingIndex()},
		outputs:  outputWriter{limit: o.MaxSchema, translator: output},
		declared: make(map[*Tool]*build.Shape),
	}
}

// add makes a tool from the operation, or adds a warning that says why it cannot.
func (b *builder) add(named build.Candidate) {
	operation, name := named.Operation, named.Tool
	where := operation.Method + " " + operation.Path
	if operation.Err != nil {
		b.report().warn(Warning{Operation: where, Reason: operation.Err.Error(), Lost: true})
		return
	}
	for _, reason := range operation.Warnings {
		b.report().warn(Warning{Operation: where, Reason: reason})
	}
	tool := &Tool{
		Name: name,
		Definition: Definition{
			Title:       operation.Summary,
			Description: describe(operation, b.options.DescriptionTokens), // never empty: some clients reject a tool without a description
			OperationID: operation.ID,
			Tags:        operation.Tags,
			Deprecated:  operation.Deprecated,
			Validator:   new(schema.Validator),
		},
		Plan: Plan{
			Method:   operation.Method,
			Path:     operation.Path,
			Security: requirementsOf(operation),
			changes:  changesByVerb(operation),
		},
		Output:   Output{validator: new(schema.Validator)},
		Unshaped: Unshaped{Size: len(fullDescription(operation)), Former: named.Former},
	}
	if operation.ID != "" && !b.options.Foreign && name != build.SanitizeName(operation.ID) {
		tool.Definition.Description = build.TellName(operation.ID, tool.Definition.Description)
	}
	t := &toolBuilder{toolSource: b.source, operation: operation, names: build.NewNameSet(), tool: tool, plan: &tool.Plan}
	err := b.inputs.checkBudget()
	if err == nil {
		err = t.build()
	}
	if err == nil && (t.tool.Foreign == nil || t.tool.IsRequest()) {
		err = b.inputs.add(t.tool, t.inputPlan())
	}
	if err != nil {
		b.report().warn(Warning{Operation: where, Reason: err.Error(), Lost: true})
		return
	}
	if b.options.ResponseSchemas && t.response.Node != nil {
		b.outputs.add(&t.tool.Output, t.response)
	}
	if t.shape != nil {
		b.declared[t.tool] = t.shape
	}
	t.plan.Leniency.Strict = b.options.StrictArguments
	b.set.tools = append(b.set.tools, t.tool)
}

func (b *builder) report() *Report { return &b.set.Report }

// changesByVerb reports whether an operation with a safe method changes something by its own verb.
func changesByVerb(o *openapi.Operation) bool {
	if !isSafe(o.Method) {
		return false
	}
	a := build.OperationActions(cmp.Or(o.ID, o.Path), o.Summary, o.Description)
	return a&build.Writes != 0 && a&build.Reads == 0
}

// warnOfChanges adds a warning that names the operations with a safe method that change something.
func (b *builder) warnOfChanges() {
	reason := "readonly leaves out operations with a safe method whose name or summary has a verb of change; include those by name that only read"
	names := b.changing
	if !b.options.ReadOnly {
		reason = "operations with a safe method count as writes, because their name or summary has a verb of change; set annotation readOnlyHint true in the tool blocks of those that only read"
	}
	for _, t := range b.set.tools {
		if t.Plan.changes && !b.options.ReadOnly && !t.Hint(build.ReadOnlyHint) {
			names = append(names, t.Name)
		}
	}
	if len(names) > 0 {
		b.report().warn(Warning{Reason: reason + ": " + strings.Join(names, ", ")})
	}
}

// describe copies the document's own information into the Toolset.
func (b *builder) describe(document *openapi.Document, operations int) {
	b.set.Title = document.Title
	b.set.Description = document.Description
	b.set.Version = document.Version
	b.set.Report.Operations = operations
	b.set.Origin = document.Origin()
	b.set.MCP = b.source.readMCP("", document.Root())
	b.set.SecuritySchemes = security.Read(document)
	b.set.Report.Files = document.Files()
	for _, reason := range slices.Concat(document.Warnings, b.inputs.translator.Warnings(), b.outputs.translator.Warnings()) {
		b.report().warn(Warning{Reason: reason})
	}
	if b.options.Foreign {
		b.warnOfForeign(document)
	}
	switch {
	case operations == 0 && b.options.Foreign:
		b.report().warn(Warning{Reason: "the MCP server lists no tools, resources or prompts"})
	case operations == 0:
		b.report().warn(Warning{Reason: "the document has no operations, so there are no tools"})
	case b.set.Report.Excluded == operations:
		b.report().warn(Warning{Reason: "include, exclude and readonly leave no operation, so there are no tools"})
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

// fullDescription returns the description as the document has it: not shortened, and with its markup.
func fullDescription(operation *openapi.Operation) string { return describe(operation, -1) }

// describe returns the description of an operation in this many tokens; see build.Describe. It says that the operation is
// deprecated, unless the document's text does.
func describe(operation *openapi.Operation, tokens int) string {
	text := cmp.Or(build.Describe(operation.Summary, operation.Description, tokens), operation.Method+" "+operation.Path)
	if operation.Deprecated && !strings.Contains(strings.ToLower(text), "deprecated") {
		return "Deprecated. " + text
	}
	return text
}

func requirementsOf(operation *openapi.Operation) []SecurityRequirement {
	requirements := make([]SecurityRequirement, 0, len(operation.Security))
	for _, r := range operation.Security {
		requirements = append(requirements, r)
	}
	return requirements
}
