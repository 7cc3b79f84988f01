package schema

import "github.com/fairwayhq/fairway/tools/openapi"

// Bare makes the Translator leave out annotations: descriptions, titles, defaults and
// examples. It must be called before the first translation.
func (t *Translator) Bare() *Translator {
	t.bare, t.layouts = true, t.layouts[:1]
	t.roots = nil // a bare Translator serves one tool after the other
	return t
}

// A Writing is one way to write schemas: it determines where the targets of references go.
// All Writings accept the same values.
type Writing struct {
	t *Translator
	l layout
}

// Writings returns the ways in which the Translator can write schemas, the default first:
// one for Inline and Defs, three for Auto. See IsPreferred.
func (t *Translator) Writings() []Writing {
	writings := make([]Writing, 0, layouts)
	for _, l := range t.layouts {
		writings = append(writings, Writing{t, l})
	}
	return writings
}

// IsPreferred reports whether a tool's schemas of that many bytes are written in this way, although another may be shorter:
// many clients drop $defs, so Auto writes all targets in place within a budget.
func (w Writing) IsPreferred(size int) bool {
	return w.l == inlineLayout && size <= autoBudget
}

// Measure returns the maximum size of the schemas and their $defs, in bytes. It stops when
// the size exceeds limit, so its time is proportional to limit.
func (w Writing) Measure(limit int, schemas ...*Schema) (size int) {
	w.t.round++
	p := printer{layout: w.l, round: w.t.round, queue: w.t.queue[:0]}
	defer func() { w.t.queue = p.queue }()
	for _, s := range schemas {
		size += s.extent(w.l).size
		p.reachFrom(s)
	}
	for i := 0; i < len(p.queue) && size <= limit; i++ {
		c := p.queue[i]
		size += len(`,"":`) + len(c.name) + c.measures[w.l].size
		p.reach(c)
	}
	return size
}

// AppendSchema appends one schema.
func (w Writing) AppendSchema(dst []byte, s *Schema) []byte {
	p := printer{dst: dst, layout: w.l}
	p.schema(s)
	return p.dst
}

// AppendDefs appends the member "$defs":{…} with all definitions that the schemas need, or
// nothing if they need none.
func (w Writing) AppendDefs(dst []byte, schemas ...*Schema) []byte {
	w.t.round++
	p := printer{dst: dst, layout: w.l, round: w.t.round}
	for _, s := range schemas {
		p.reachFrom(s)
	}
	p.defs()
	return p.dst
}

// Refers reports whether the schema has references.
func (s *Schema) Refers() bool {
	return s.root != nil
}

// Freeze releases the document and keeps the Schemas, which can still be written. After
// that, nothing can be translated and no Bound can be created.
func (t *Translator) Freeze(schemas ...*Schema) {
	var queue []*component
	release := func(c *component) {
		if c.place.Node != nil {
			c.place = openapi.Place{}
			queue = append(queue, c)
		}
	}
	for _, s := range schemas {
		if s.root != nil {
			release(s.root)
		} else {
			s.text = s.Text()
		}
		s.place = openapi.Place{}
	}
	for len(queue) > 0 {
		c := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for i := range c.holes {
			release(c.holes[i].to)
		}
	}
	t.roots, t.targets, t.refs, t.names = nil, nil, nil, nil
	t.patterns, t.writer = patternBudget{}, writer{}
}
