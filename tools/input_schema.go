package tools

import (
	"fmt"
	"hash/maphash"
	"iter"
	"reflect"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Limits of the listed size of one tool, and of all tools together.
const (
	DefaultMaxSchema = 64 << 10 // bytes of one tool's InputSchema, and of its Output.Schema

	maxListed             = 9 << 20 // bytes of all tools together, without response schemas
	maxListedTexts        = 4 << 20 // the part of maxListed for titles and descriptions, in bytes
	maxAllResponseSchemas = 8 << 20 // bytes of all response schemas, less those of all arguments
	minAnswers            = 1 << 20
	listedFrame           = 300 // bytes of the JSON around each tool in a list, approximately

	maxWrittenEarly = 2 * maxListed // bytes of schemas that are written before all schemas are measured

	maxInputSchema = 4 << 20   // bytes of the schema that validates one tool's arguments
	maxWritten     = 256 << 20 // bytes of the schemas of all arguments, without $defs
)

// FullSchema returns the schema that validates the arguments. InputSchema may be a simplified form of it, or lack
// what is only checked (schema.Listed).
func (t *Tool) FullSchema() jsontext.Value {
	if t.Definition.full == nil {
		return t.Definition.InputSchema
	}
	return t.Definition.full.Text()
}

// A pendingTool is a tool whose listed schema is written after all tools are known,
// because all of them share one size limit.
type pendingTool struct {
	tool     *Tool
	plan     *schema.InputPlan
	size     int     // upper limit for the bytes of the full schema; counted up to maxInputSchema
	siblings []*Tool // tools with the same arguments
	unlisted bool    // the full schema checks more than the listed one says
}

// An inputWriter writes the schemas of arguments. It writes them after all tools are known, because they share one
// size limit; at first only those that are probably listed in full.
type inputWriter struct {
	limit      int // BuildOptions.MaxSchema
	report     *Report
	translator *schema.Translator
	simplifier *schema.Simplifier // nil until a schema has to be simplified
	pending    []pendingTool
	siblings   siblingIndex
	early      int // bytes of the input schemas that were written before all schemas were measured
	written    int // bytes of all argument schemas so far, including those that were too large
}

// inputPlan returns what the tool's input schema is made from.
func (t *toolBuilder) inputPlan() *schema.InputPlan {
	p := &schema.InputPlan{
		Closed:    schema.InputArgument{Text: t.closed, Source: t.closedSource},
		Arguments: make([]schema.InputArgument, 0, len(t.plan.Arguments)),
	}
	for i := range t.plan.Arguments {
		if t.plan.Encodings[i].Filled {
			continue
		}
		a := &t.plan.Arguments[i]
		p.Arguments = append(p.Arguments, schema.InputArgument{Name: a.Name, Text: a.Schema, Source: t.sources[i]})
		if a.Required {
			p.Required = append(p.Required, a.Name)
		}
	}
	return p
}

// checkBudget returns an error if there is no room for the input schemas of further tools.
func (w *inputWriter) checkBudget() error {
	if w.written <= maxWritten {
		return nil
	}
	return fmt.Errorf("the schemas of the tools up to this one need more than %d MiB: choose operations with include and exclude, or split the document",
		maxWritten>>20)
}

// add takes a tool. It writes the tool's schema if that is small enough to be listed. It returns an error if the
// schemas of this tool alone are too large.
func (w *inputWriter) add(t *Tool, plan *schema.InputPlan) error {
	size := len(plan.Closed.Text)
	for i := range plan.Arguments {
		size += len(plan.Arguments[i].Text)
	}
	w.written += size
	if size > maxInputSchema {
		return fmt.Errorf("the schema of its arguments takes %d KiB; the limit is %d KiB: let it refer to fewer schemas",
			size>>10, maxInputSchema>>10)
	}
	pending := pendingTool{tool: t, plan: plan}
	if !w.joinSibling(&pending) {
		w.choose(&pending, w.maxSchema(), w.early <= maxWrittenEarly || w.limit < 0)
		if t.Definition.InputSchema == nil {
			pending.drop()
		}
		w.pending = append(w.pending, pending)
	}
	w.early += len(t.Definition.InputSchema)
	return nil
}

// drop releases the schemas of the arguments until they are written again.
func (p *pendingTool) drop() {
	for i := range p.plan.Arguments {
		a := &p.plan.Arguments[i]
		if a.Source == nil || p.argument(a).MCPHeader != "" {
			continue // the text contains more than the translation
		}
		a.Text = nil
		a.Source.Schema.Drop()
		p.argument(a).Schema = nil
	}
	p.tool.list()
}

// choose measures the schema. If now is true, it also writes the preferred form, or else the shortest one that fits.
func (w *inputWriter) choose(p *pendingTool, limit int, now bool) {
	writings, schemas := w.translator.Writings(), p.plan.Schemas()
	fixed := p.plan.Fixed()
	if !slices.ContainsFunc(schemas, (*schema.Schema).Refers) {
		writings = writings[:1]
	}
	isPreferred := func(x schema.Writing) bool {
		size := fixed + x.Measure(limit, schemas...)
		return size <= limit && x.IsPreferred(size)
	}
	if i := slices.IndexFunc(writings, isPreferred); i >= 0 {
		writings = writings[i : i+1]
	}
	p.size = maxInputSchema + 1
	for _, writing := range writings {
		size := fixed + writing.Measure(limit, schemas...)
		if size > limit {
			continue
		}
		if !now {
			p.size = min(p.size, size)
			continue
		}
		full := p.plan.WriteFull(writing)
		if source := schema.Listed(full); p.tool.Definition.InputSchema == nil || len(source) < len(p.tool.Definition.InputSchema) {
			p.tool.Definition.InputSchema, p.size, p.unlisted = source, len(source), len(source) < len(full)
			for i := range p.plan.Arguments {
				a := &p.plan.Arguments[i]
				p.argument(a).Schema = schema.Listed(a.WriteFull(writing))
			}
			p.tool.list()
		}
	}
	if p.size > maxInputSchema {
		p.size = fixed + writings[0].Measure(maxInputSchema, schemas...)
	}
}

// tools returns the tool and its siblings.
func (p *pendingTool) tools() iter.Seq[*Tool] {
	return func(yield func(*Tool) bool) {
		if !yield(p.tool) {
			return
		}
		for _, sibling := range p.siblings {
			if !yield(sibling) {
				return
			}
		}
	}
}

// argument returns the argument that the text belongs to.
func (p *pendingTool) argument(a *schema.InputArgument) *Argument {
	i, _ := p.tool.Plan.index.position(p.tool.Plan.Arguments, a.Name)
	return &p.tool.Plan.Arguments[i]
}

func (w *inputWriter) maxSchema() int {
	switch {
	case w.limit < 0 && w.early > maxWritten:
		return DefaultMaxSchema
	case w.limit < 0:
		return maxInputSchema
	case w.limit == 0:
		return DefaultMaxSchema
	}
	return w.limit
}

// finish writes the schemas that are too large to be listed in full. If all tools
// together exceed the limit, the largest schemas are reduced first: every tool gets the
// same limit, which depends only on the document and the options.
func (w *inputWriter) finish(all []*Tool, collect collector) {
	limit := w.maxSchema()
	w.siblings = siblingIndex{}
	if w.limit >= 0 {
		clipTexts(all)
		sizes, room := make([]int, 0, len(all)), maxListed
		for i := range w.pending {
			for t := range w.pending[i].tools() {
				sizes = append(sizes, min(w.pending[i].size, limit))
				room -= t.Definition.listedTexts(t.Name)
			}
		}
		limit = min(limit, schema.WaterLevel(sizes, room))
	}
	var kept []*schema.Schema
	lock := new(sync.Mutex)
	for i := range w.pending {
		collect.run(i)
		p := &w.pending[i]
		if p.size > limit { // another form may fit
			p.tool.Definition.InputSchema = nil
			w.choose(p, limit, true)
		}
		if p.size <= limit {
			if p.tool.Definition.InputSchema == nil {
				w.choose(p, limit, true)
			}
			if !p.unlisted {
				continue
			}
		}
		if p.size <= maxInputSchema {
			p.tool.Definition.full = schema.NewFullInput(lock, w.translator.Writings()[0], p.plan)
			kept = append(kept, p.plan.Schemas()...)
		} else {
			p.tool.Definition.Unchecked = true
		}
		if p.size <= limit {
			continue
		}
		w.simplify(p, limit)
		p.tool.Definition.Simplified = true
	}
	w.translator.Freeze(kept...)
	for i := range w.pending {
		for _, sibling := range w.pending[i].siblings {
			w.pending[i].share(sibling)
		}
	}
	reason := fmt.Sprintf("the full schema of its arguments takes more than %d KiB: they are checked against a simplified one", maxInputSchema>>10)
	for _, t := range all {
		if t.Definition.Unchecked {
			w.report.warn(Warning{Operation: t.Operation(), Reason: reason})
		}
	}
}

// simplify lists a schema of at most room bytes that accepts everything that the full schema accepts.
func (w *inputWriter) simplify(p *pendingTool, room int) {
	if w.simplifier == nil {
		w.simplifier = schema.NewSimplifier()
	}
	p.tool.Definition.InputSchema = w.simplifier.Write(p.plan, room, func(name string) string {
		i, _ := p.tool.Plan.index.position(p.tool.Plan.Arguments, name)
		return p.tool.Plan.Arguments[i].Description
	})
	p.shareArguments()
}

// shareArguments sets the schema of each argument to its part of the tool's schema.
func (p *pendingTool) shareArguments() {
	properties := make(map[string]jsontext.Value)
	for walk := strictjson.Into(strictjson.MemberOf(p.tool.Definition.InputSchema, "properties")); walk.Next(); {
		properties[string(walk.Key())] = walk.Value
	}
	for i := range p.plan.Arguments {
		a := p.argument(&p.plan.Arguments[i])
		if a.Schema = properties[a.Name]; a.Schema == nil {
			a.Schema = jsontext.Value("{}")
		}
	}
	p.tool.list()
}

// clipTexts shortens titles and descriptions if together they are too long.
func clipTexts(all []*Tool) {
	sizes := make([]int, 0, 2*len(all))
	for _, t := range all {
		sizes = append(sizes, len(t.Definition.Title), len(t.Definition.Description))
	}
	most := schema.WaterLevel(sizes, maxListedTexts)
	for _, t := range all {
		t.Definition.Title, t.Definition.Description = text.Cut(t.Definition.Title, most), text.Cut(t.Definition.Description, most)
	}
}

// A siblingIndex finds tools with the same arguments, such as operations that share the schema of their
// request body. The arguments of such tools are stored and written only once.
type siblingIndex struct {
	seed maphash.Seed
	tool map[uint64]int // position in inputWriter.pending by the hash of a tool's arguments
}

func newSiblingIndex() siblingIndex {
	return siblingIndex{maphash.MakeSeed(), make(map[uint64]int)}
}

// hash returns a hash of the names and schemas of a tool's arguments.
func (w *siblingIndex) hash(p *pendingTool) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	for i := range p.tool.Plan.Arguments {
		a := &p.tool.Plan.Arguments[i]
		_, _ = h.WriteString(a.Name)
		_, _ = h.WriteString(a.WireName)
		_, _ = h.Write(a.Schema)
	}
	_, _ = h.Write(p.plan.Closed.Text)
	return h.Sum64()
}

// joinSibling makes the tool share the arguments of an earlier tool with the same arguments,
// and reports whether there is one.
func (w *inputWriter) joinSibling(p *pendingTool) bool {
	key := w.siblings.hash(p)
	i, known := w.siblings.tool[key]
	if !known {
		w.siblings.tool[key] = len(w.pending)
		return false
	}
	first := &w.pending[i]
	if !first.equals(p) {
		return false
	}
	first.siblings = append(first.siblings, p.tool)
	first.share(p.tool)
	return true
}

// equals reports whether two tools have the same arguments and send them in the same way.
func (p *pendingTool) equals(other *pendingTool) bool {
	if len(p.tool.Plan.Arguments) != len(other.tool.Plan.Arguments) || !p.plan.Equal(other.plan) || !reflect.DeepEqual(p.tool.Plan.Encodings, other.tool.Plan.Encodings) {
		return false
	}
	var a, b Argument // on the heap once, not for each argument
	for i := range p.tool.Plan.Arguments {
		a, b = p.tool.Plan.Arguments[i], other.tool.Plan.Arguments[i]
		a.Schema, b.Schema = nil, nil // the plans are equal; the texts may be written differently
		if !reflect.DeepEqual(&a, &b) {
			return false
		}
	}
	return true
}

// share copies the tool's arguments and schema to a sibling.
func (p *pendingTool) share(sibling *Tool) {
	t := p.tool
	sibling.Plan.Arguments, sibling.Plan.Encodings, sibling.Plan.index, sibling.Definition.Arguments = t.Plan.Arguments, t.Plan.Encodings, t.Plan.index, t.Definition.Arguments
	sibling.Definition.InputSchema, sibling.Definition.Simplified, sibling.Definition.full, sibling.Definition.Unchecked = t.Definition.InputSchema, t.Definition.Simplified, t.Definition.full, t.Definition.Unchecked
}
