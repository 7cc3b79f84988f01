package tool

import (
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/inputschema"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
)

// Limits of the listed size of one tool, and of all tools together.
const (
	DefaultMaxSchema = 64 << 10 // bytes of one tool's InputSchema, and of its DeclaredResponse.Schema

	maxListed             = 9 << 20 // bytes of all tools together, without response schemas
	maxListedTexts        = 4 << 20 // the part of maxListed for titles and descriptions, in bytes
	maxAllResponseSchemas = 8 << 20 // bytes of all response schemas, less those of all arguments
	minAnswers            = 1 << 20
	listedFrame           = 300 // bytes of the JSON around each tool in a list, approximately

	maxWrittenEarly = 2 * maxListed // bytes of schemas that are written before all schemas are measured

	maxInputSchema = 4 << 20   // bytes of the schema that validates one tool's arguments
	maxWritten     = 256 << 20 // bytes of the schemas of all arguments, without $defs
)

// checkedSchema returns the schema that validates the arguments.
func (t *Tool) checkedSchema() jsontext.Value {
	if t.full == nil {
		return t.InputSchema
	}
	return t.full.Text()
}

// A pendingTool is a tool whose listed schema is written after all tools are known,
// because all of them share one size limit.
type pendingTool struct {
	*builder
	tool     *Tool
	plan     *inputschema.Plan
	size     int     // upper limit for the bytes of the full schema; counted up to maxInputSchema
	siblings []*Tool // tools with the same arguments
	dropped  bool    // the schemas of the arguments must be written again
}

// planInput records what the tool's input schema is made from. It writes the schema if the
// schema is small enough to be listed.
func (t *toolBuilder) planInput() error {
	p := &inputschema.Plan{
		Closed:    inputschema.Argument{Text: t.closed, Source: t.closedSource},
		Arguments: make([]inputschema.Argument, 0, len(t.tool.all)),
	}
	written := len(t.closed)
	for i := range t.tool.all {
		if t.tool.plans[i].Filled {
			continue
		}
		a := &t.tool.all[i]
		p.Arguments = append(p.Arguments, inputschema.Argument{Name: a.Name, Text: a.Schema, Source: t.sources[i]})
		written += len(a.Schema)
		if a.Required {
			p.Required = append(p.Required, a.Name)
		}
	}
	if err := t.addSchemaSize(written); err != nil {
		return err
	}
	pending := pendingTool{builder: t.builder, tool: t.tool, plan: p}
	if !t.joinSibling(&pending) {
		pending.choose(t.maxSchema(), t.early <= maxWrittenEarly || t.options.MaxSchema < 0)
		if t.tool.InputSchema == nil {
			pending.drop()
		}
		t.pending = append(t.pending, pending)
	}
	t.early += len(t.tool.InputSchema)
	return nil
}

// drop releases the schemas of the arguments until they are written again.
func (p *pendingTool) drop() {
	p.dropped = true
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

// choose measures the schema. If now is true, it also writes the shortest form that fits.
func (p *pendingTool) choose(limit int, now bool) {
	writings, schemas := p.input.Writings(), p.plan.Schemas()
	fixed := p.plan.Fixed()
	if !slices.ContainsFunc(schemas, (*schema.Schema).Refers) {
		writings = writings[:1]
	}
	p.size = maxInputSchema + 1
	for _, w := range writings {
		size := fixed + w.Measure(limit, schemas...)
		if size > limit {
			continue
		}
		if !now {
			p.size = min(p.size, size)
			continue
		}
		if text := p.plan.WriteFull(w); p.tool.InputSchema == nil || len(text) < len(p.tool.InputSchema) {
			p.tool.InputSchema, p.size = text, len(text)
			for i := range p.plan.Arguments {
				a := &p.plan.Arguments[i]
				p.argument(a).Schema = a.WriteFull(w)
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
func (p *pendingTool) argument(a *inputschema.Argument) *Argument {
	i, _ := p.tool.index.position(p.tool.all, a.Name)
	return &p.tool.all[i]
}

func (b *builder) maxSchema() int {
	switch {
	case b.options.MaxSchema < 0 && b.early > maxWritten:
		return DefaultMaxSchema
	case b.options.MaxSchema < 0:
		return maxInputSchema
	case b.options.MaxSchema == 0:
		return DefaultMaxSchema
	}
	return b.options.MaxSchema
}

// finishInputs writes the schemas that are too large to be listed in full. If all tools
// together exceed the limit, the largest schemas are reduced first: every tool gets the
// same limit, which depends only on the document and the options.
func (b *builder) finishInputs() {
	limit := b.maxSchema()
	b.descriptions, b.siblings = nil, siblingIndex{}
	if b.options.MaxSchema >= 0 {
		b.clipTexts()
		sizes, room := make([]int, 0, len(b.set.tools)), maxListed
		for i := range b.pending {
			for t := range b.pending[i].tools() {
				sizes = append(sizes, min(b.pending[i].size, limit))
				room -= listedFrame + len(t.Name) + len(t.Title) + len(t.Description)
			}
		}
		limit = min(limit, inputschema.WaterLevel(sizes, room))
	}
	var kept []*schema.Schema
	lock := new(sync.Mutex)
	for i := range b.pending {
		b.collect(i)
		p := &b.pending[i]
		if p.size <= limit {
			if p.tool.InputSchema == nil {
				p.choose(limit, true)
			}
			continue
		}
		if p.size <= maxInputSchema {
			p.tool.full = inputschema.NewFull(lock, b.input.Writings()[0], p.plan)
			kept = append(kept, p.plan.Schemas()...)
		} else {
			p.tool.unread = true
		}
		p.simplify(limit)
		p.tool.Simplified = true
	}
	b.input.Freeze(kept...)
	for i := range b.pending {
		for _, sibling := range b.pending[i].siblings {
			b.pending[i].share(sibling)
		}
	}
	b.warnOfUnread()
	b.pending, b.simplifier = nil, nil
}

// warnOfUnread adds a warning for each tool whose full schema is too large to keep.
func (b *builder) warnOfUnread() {
	reason := fmt.Sprintf("the full schema of its arguments takes more than %d KiB: they are checked against a simplified one", maxInputSchema>>10)
	for _, t := range b.set.tools {
		if t.unread {
			b.warn(Warning{Operation: t.Operation(), Reason: reason})
		}
	}
}

// simplify lists a schema of at most room bytes that accepts everything that the full schema accepts.
func (p *pendingTool) simplify(room int) {
	if p.simplifier == nil {
		p.simplifier = inputschema.NewSimplifier()
	}
	p.tool.InputSchema = p.simplifier.Write(p.plan, room, func(name string) string {
		i, _ := p.tool.index.position(p.tool.all, name)
		return p.tool.all[i].Description
	})
	p.shareArguments()
}

// shareArguments sets the schema of each argument to its part of the tool's schema.
func (p *pendingTool) shareArguments() {
	properties := make(map[string]jsontext.Value)
	list, _ := wire.Members(nil, wire.MemberOf(p.tool.InputSchema, "properties"))
	for _, property := range list {
		properties[property.Name] = property.Value
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
func (b *builder) clipTexts() {
	sizes := make([]int, 0, 2*len(b.set.tools))
	for _, t := range b.set.tools {
		sizes = append(sizes, len(t.Title), len(t.Description))
	}
	most := inputschema.WaterLevel(sizes, maxListedTexts)
	for _, t := range b.set.tools {
		t.Title, t.Description = text.Cut(t.Title, most), text.Cut(t.Description, most)
	}
}
