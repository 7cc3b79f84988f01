package tool

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/simplify"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
	"github.com/fairwayhq/fairway/ocp/internal/schemaedit"
)

// Limits of the listed size of one tool, and of all tools together.
const (
	DefaultMaxSchema = 64 << 10 // bytes of one tool's InputSchema, and of its Answer.Schema

	maxListed      = 9 << 20 // bytes of all tools together, without response schemas
	maxListedTexts = 4 << 20 // the part of maxListed for titles and descriptions, in bytes
	maxAnswers     = 8 << 20 // bytes of all response schemas, less those of all arguments
	minAnswers     = 1 << 20
	listedFrame    = 300 // bytes of the JSON around each tool in a list, approximately

	maxWrittenEarly = 2 * maxListed // bytes of schemas that are written before all schemas are measured

	maxInputSchema = 4 << 20   // bytes of the schema that validates one tool's arguments
	maxWritten     = 256 << 20 // bytes of the schemas of all arguments, without $defs
)

// A schemaSource is where the schema of an argument comes from. It allows the schema to be
// written again in another form.
type schemaSource struct {
	schema      *schema.Schema
	description string // of the argument, put into its schema
	deprecated  bool
}

// argumentText is the schema of one argument while it is built.
type argumentText struct {
	name   string
	text   jsontext.Value // as it is first written
	source *schemaSource  // nil if the text is not a translation
}

// inputPlan holds everything that a tool's input schema is made from. If the full schema
// is larger than the listed one, it is kept after the build of the tool.
type inputPlan struct {
	arguments []argumentText
	required  []string
	closed    argumentText // additionalProperties
}

// schemas returns the translated schemas.
func (p *inputPlan) schemas() []*schema.Schema {
	all := make([]*schema.Schema, 0, len(p.arguments)+1)
	for a := range p.all() {
		if a.source != nil {
			all = append(all, a.source.schema)
		}
	}
	return all
}

// all returns the texts of the arguments and of additionalProperties.
func (p *inputPlan) all() iter.Seq[*argumentText] {
	return func(yield func(*argumentText) bool) {
		for i := range p.arguments {
			if !yield(&p.arguments[i]) {
				return
			}
		}
		yield(&p.closed)
	}
}

// write appends an object schema with all arguments. Text appends the schema of each
// argument; defs appends $defs.
func (p *inputPlan) write(root []byte, text func([]byte, *argumentText) []byte, defs func([]byte) []byte) jsontext.Value {
	root = append(root, `{"type":"object","properties":{`...)
	for i := range p.arguments {
		if i > 0 {
			root = append(root, ',')
		}
		root = append(wire.AppendString(root, p.arguments[i].name), ':')
		root = text(root, &p.arguments[i])
	}
	root = append(root, '}')
	if len(p.required) > 0 {
		root = wire.AppendStrings(append(root, `,"required":`...), p.required)
	}
	root = text(append(root, `,"additionalProperties":`...), &p.closed)
	before := len(root)
	root = append(root, ',')
	if root = defs(root); len(root) == before+1 {
		root = root[:before]
	}
	return append(root, '}')
}

// writeFull writes the schema in full.
func (p *inputPlan) writeFull(w schema.Writing) jsontext.Value {
	schemas := p.schemas()
	return p.write(nil, func(dst []byte, a *argumentText) []byte { return append(dst, a.writeFull(w)...) },
		func(dst []byte) []byte { return w.AppendDefs(dst, schemas...) })
}

// writeFull returns the argument's own schema in full.
func (a *argumentText) writeFull(w schema.Writing) jsontext.Value {
	switch {
	case a.source == nil:
		return a.text
	case a.source.schema.Refers():
		return schemaedit.Annotate(w.AppendSchema(nil, a.source.schema), a.source.description, a.source.deprecated)
	case a.text == nil:
		return schemaedit.Annotate(a.source.schema.Text(), a.source.description, a.source.deprecated)
	}
	return a.text
}

// A fullSchema writes the schema that validates a tool's arguments, for a tool that lists
// a smaller schema.
type fullSchema struct {
	mu      *sync.Mutex // of the Translator
	writing schema.Writing
	plan    *inputPlan
	edits   []schemaedit.Edit // changes after the build, in order
}

// with returns the schema with a further change.
func (f *fullSchema) with(e schemaedit.Edit) *fullSchema {
	if f == nil {
		return nil
	}
	changed := *f
	changed.edits = append(slices.Clip(f.edits), e)
	return &changed
}

// checkedSchema returns the schema that validates the arguments.
func (t *Tool) checkedSchema() jsontext.Value {
	if t.full == nil {
		return t.InputSchema
	}
	t.full.mu.Lock()
	defer t.full.mu.Unlock()
	full := t.full.plan.writeFull(t.full.writing)
	for i := range t.full.edits {
		full = t.full.edits[i].Apply(full)
	}
	return full
}

// A pendingTool is a tool whose listed schema is written after all tools are known,
// because all of them share one size limit.
type pendingTool struct {
	*builder
	tool     *Tool
	plan     *inputPlan
	size     int     // upper limit for the bytes of the full schema; counted up to maxInputSchema
	siblings []*Tool // tools with the same arguments
	dropped  bool    // the schemas of the arguments must be written again
}

// planInput records what the tool's input schema is made from. It writes the schema if the
// schema is small enough to be listed.
func (t *toolBuilder) planInput() error {
	p := &inputPlan{
		closed:    argumentText{text: t.closed, source: t.closedSource},
		arguments: make([]argumentText, 0, len(t.tool.all)),
	}
	written := len(t.closed)
	for i := range t.tool.all {
		if t.tool.plans[i].Filled {
			continue
		}
		a := &t.tool.all[i]
		p.arguments = append(p.arguments, argumentText{a.Name, a.Schema, t.sources[i]})
		written += len(a.Schema)
		if a.Required {
			p.required = append(p.required, a.Name)
		}
	}
	if err := t.take(written); err != nil {
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
	for i := range p.plan.arguments {
		a := &p.plan.arguments[i]
		if a.source == nil || p.argument(a).MCPHeader != "" {
			continue // the text contains more than the translation
		}
		a.text = nil
		a.source.schema.Drop()
		p.argument(a).Schema = nil
	}
	p.tool.list()
}

// choose measures the schema. If now is true, it also writes the shortest form that fits.
func (p *pendingTool) choose(limit int, now bool) {
	writings, schemas := p.input.Writings(), p.plan.schemas()
	fixed := p.plan.fixed()
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
		if text := p.plan.writeFull(w); p.tool.InputSchema == nil || len(text) < len(p.tool.InputSchema) {
			p.tool.InputSchema, p.size = text, len(text)
			for i := range p.plan.arguments {
				a := &p.plan.arguments[i]
				p.argument(a).Schema = a.writeFull(w)
			}
			p.tool.list()
		}
	}
	if p.size > maxInputSchema {
		p.size = fixed + writings[0].Measure(maxInputSchema, schemas...)
	}
}

// tools returns the tool and its twins.
func (p *pendingTool) tools() iter.Seq[*Tool] {
	return func(yield func(*Tool) bool) {
		if !yield(p.tool) {
			return
		}
		for _, twin := range p.siblings {
			if !yield(twin) {
				return
			}
		}
	}
}

// argument returns the argument that the text belongs to.
func (p *pendingTool) argument(a *argumentText) *Argument {
	i, _ := p.tool.index.position(p.tool.all, a.name)
	return &p.tool.all[i]
}

// fixed returns the bytes of the schema without the translated schemas.
func (p *inputPlan) fixed() int {
	size := len(`{"type":"object","properties":{},"required":[],"additionalProperties":,"$defs":{}}`)
	for a := range p.all() {
		size += 2*len(a.name) + len(`"":,"",`)
		if a.source == nil {
			size += len(a.text)
		} else {
			size += len(a.source.description) + len(`,"description":"","deprecated":true`)
		}
	}
	return size
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
		limit = min(limit, waterLevel(sizes, room))
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
			p.tool.full = &fullSchema{mu: lock, writing: b.input.Writings()[0], plan: p.plan}
			kept = append(kept, p.plan.schemas()...)
		} else {
			p.tool.unread = true
		}
		p.simplify(limit)
		p.tool.Simplified = true
	}
	b.input.Freeze(kept...)
	for i := range b.pending {
		for _, twin := range b.pending[i].siblings {
			b.pending[i].share(twin)
		}
	}
	b.warnOfUnread()
	b.pending, b.compact, b.scratch = nil, nil, nil
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

// simplify writes a schema of at most room bytes that accepts everything that the full
// schema accepts. It first drops all descriptions except those of the arguments, then
// limits the depth.
func (p *pendingTool) simplify(room int) {
	if p.compact == nil {
		p.compact = schema.NewTranslator(schema.Auto, schema.Input).Bare()
	}
	describe := p.descriptions(room / 4)
	bare := &inputPlan{required: p.plan.required, closed: p.bare(&p.plan.closed, 0)}
	bare.arguments = make([]argumentText, len(p.plan.arguments))
	for i := range p.plan.arguments {
		bare.arguments[i] = p.bare(&p.plan.arguments[i], describe)
	}
	bound, fits := p.compact.Bound(room-bare.fixed(), bare.schemas()...)
	p.scratch = bare.write(p.scratch[:0], func(dst []byte, a *argumentText) []byte {
		if a.source == nil {
			return append(dst, a.text...)
		}
		start := len(dst)
		dst = bound.AppendSchema(dst, a.source.schema)
		if bytes.HasPrefix(dst[start:], []byte(`{`+simplify.StubMark)) { // it has a description
			text := schemaedit.Annotate(bytes.Clone(dst[start:]), a.source.description, a.source.deprecated)
			return append(dst[:start], text...)
		}
		return appendDescribed(dst, a.source)
	}, bound.AppendDefs)
	text := jsontext.Value(p.scratch)
	text = simplify.Relax(text)
	if !fits || len(text) > room {
		if text = simplify.FlattenWithin(text, room); text == nil {
			text = jsontext.Value(`{"type":"object"}`)
		}
	}
	p.tool.InputSchema = bytes.Clone(text)
	p.shareArguments()
}

// appendDescribed adds the argument's description to a schema without descriptions, which
// is at the end of dst.
func appendDescribed(dst []byte, source *schemaSource) []byte {
	dst = dst[:len(dst)-1]
	if source.description != "" {
		dst = schemaedit.Append(dst, "description", wire.AppendString(nil, source.description))
	}
	if source.deprecated {
		dst = schemaedit.Append(dst, "deprecated", []byte("true"))
	}
	return append(dst, '}')
}

// bare returns an argument without the descriptions inside its schema. Its own description
// is cut to describe bytes.
func (p *pendingTool) bare(a *argumentText, describe int) argumentText {
	if a.source == nil {
		return *a
	}
	description := a.source.description
	if description == "" && a.name != "" {
		description = p.argument(a).Description
	}
	if len(description) > describe {
		description = text.Cut(description, describe)
	}
	return argumentText{name: a.name, source: &schemaSource{
		schema: p.compact.Translate(a.source.schema.Place()), description: description, deprecated: a.source.deprecated,
	}}
}

// descriptions returns the maximum length of an argument's description such that all
// descriptions together fit in room bytes.
func (p *pendingTool) descriptions(room int) int {
	sizes := make([]int, len(p.tool.Arguments))
	for i := range p.tool.Arguments {
		sizes[i] = len(p.tool.Arguments[i].Description)
	}
	return waterLevel(sizes, room)
}

// shareArguments sets the schema of each argument to its part of the tool's schema.
func (p *pendingTool) shareArguments() {
	properties := make(map[string]jsontext.Value)
	list, _ := wire.Members(nil, wire.MemberOf(p.tool.InputSchema, "properties"))
	for _, property := range list {
		properties[property.Name] = property.Value
	}
	for i := range p.plan.arguments {
		a := p.argument(&p.plan.arguments[i])
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
	most := waterLevel(sizes, maxListedTexts)
	for _, t := range b.set.tools {
		t.Title, t.Description = text.Cut(t.Title, most), text.Cut(t.Description, most)
	}
}

// waterLevel returns the largest limit such that the sizes, each reduced to at most this
// limit, take at most room in total.
func waterLevel(sizes []int, room int) int {
	sorted := slices.Clone(sizes)
	slices.Sort(sorted)
	for i, size := range sorted {
		if rest := len(sorted) - i; size*rest > room {
			return max(room/rest, 0)
		}
		room -= size
	}
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}
