package schema

import (
	"strconv"

	"github.com/fairwayhq/fairway/ocp/openapi"
)

// A component is one target of references, or the schema that was asked for:
// its translation, in which holes stand for the components it refers to.
type component struct {
	name  string // in $defs; "" for the schema that was asked for
	place openapi.Place

	text    []byte // the translation without what is in the holes
	holes   []hole // in the order of text
	about   span   // of the member "description" in text
	choices []choice

	loose     bool // accepts more than the document says
	recursive bool // this and what follows is known when the component is sealed
	measures  [layouts]measure
	together  int // subschemas that judge one value at once

	visits [2]visit
	round  int // the walk that reached it last
	admit  int // the walk that has room for it
}

// A layout says which targets of references a component writes in place.
type layout uint8

const (
	autoLayout   layout = iota // small ones
	defsLayout                 // none
	inlineLayout               // as many as a budget allows
	layouts
)

// A measure is the extent of a component in one layout.
type measure struct {
	limit  int // targets up to this size are written in place
	size   int // bytes with all that is written in place, at most
	worst  int // bytes if all other references were stubs
	height int // levels of targets in place
}

// A hole is where a component refers to another.
type hole struct {
	at    int // in text
	to    *component
	form  form
	reach reach
	cut   bool // the reference would never end, or judge too much at once
}

// span is a part of a text.
type span struct{ start, end int }

// choice is a oneOf in a text.
type choice struct {
	at          int // of the keyword's name
	first, last int // its holes
}

// form says what a hole stands for.
type form uint8

const (
	whole   form = iota // a schema
	member              // one member of a schema with others
	members             // all members, after a description of its own
)

// reach says which value a subschema judges, and how its judgement counts.
type reach uint8

const (
	together reach = iota // the same value, which must satisfy it
	choosing              // the same value, which may satisfy it
	negated               // the same value, which must not satisfy it
	apart                 // a part of the value
)

// inPlace reports whether c writes the target of h where the hole is.
func (c *component) inPlace(h *hole, l layout) bool {
	to := &h.to.measures[l]
	return !h.to.recursive && to.size <= c.measures[l].limit && to.height < maxHeight
}

const refOpen, refClose = `{"$ref":"#/$defs/`, `"}`

// refSize is how many bytes a reference to c takes.
func (c *component) refSize() int {
	return len(refOpen) + len(c.name) + len(refClose)
}

// A printer appends components to text. With a round it collects the
// components that the text refers to.
type printer struct {
	dst     []byte
	layout  layout
	round   int
	bounded bool   // refer to admitted components only
	mark    string // what each stub begins with
	queue   []*component
}

// schema appends s as a JSON object.
func (p *printer) schema(s *Schema) {
	if s.root == nil {
		p.dst = append(p.dst, s.Text()...)
		return
	}
	p.component(s.root)
}

// reachFrom queues what s refers to.
func (p *printer) reachFrom(s *Schema) {
	if s.root != nil {
		p.reach(s.root)
	}
}

// extent returns the extent of s in a layout.
func (s *Schema) extent(l layout) measure {
	if s.root == nil {
		return measure{size: s.size, worst: s.size}
	}
	return s.root.measures[l]
}

// component appends c as a JSON object.
func (p *printer) component(c *component) {
	p.part(c, span{0, len(c.text)}, c.holes)
}

// part appends a part of the text of c and fills the holes that are in it.
func (p *printer) part(c *component, of span, holes []hole) {
	from, to := of.start, of.end
	for i := range holes {
		h := &holes[i]
		p.dst = append(p.dst, c.text[from:h.at]...)
		from = h.at
		p.fill(c, h)
	}
	p.dst = append(p.dst, c.text[from:to]...)
}

func (p *printer) fill(c *component, h *hole) {
	switch {
	case h.cut:
		p.fillCut(h)
	case c.inPlace(h, p.layout):
		p.fillInPlace(h)
	default:
		p.fillReference(h)
	}
}

func (p *printer) fillCut(h *hole) {
	never := h.reach == choosing || h.reach == negated
	switch {
	case h.form == whole && never:
		p.dst = append(p.dst, `{"not":{}}`...)
	case h.form == whole:
		p.dst = append(p.dst, `{}`...)
	case h.form == member && never:
		p.dst = append(p.dst, `"allOf":[{"not":{}}]`...)
	case h.form == member:
		p.dst = append(p.dst, `"allOf":[{}]`...)
	case never:
		p.comma()
		p.dst = append(p.dst, `"not":{}`...)
	}
}

func (p *printer) fillInPlace(h *hole) {
	switch h.form {
	case whole:
		p.component(h.to)
	case member:
		p.dst = append(p.dst, `"allOf":[`...)
		p.component(h.to)
		p.dst = append(p.dst, ']')
	case members:
		p.undescribed(h.to)
	}
}

// undescribed appends the members of c but its description.
func (p *printer) undescribed(c *component) {
	if len(c.text) == 0 { // c is a reference and nothing else
		h := &c.holes[0]
		switch {
		case h.cut:
		case c.inPlace(h, p.layout):
			p.undescribed(h.to)
		default:
			p.fillReference(&hole{to: h.to, form: members})
		}
		return
	}
	rest, first := span{1, len(c.text) - 1}, 0
	if c.about.end > 0 {
		for first < len(c.holes) && c.holes[first].at <= c.about.start {
			first++
		}
		if c.about.start > 1 {
			p.comma()
			p.part(c, span{1, c.about.start}, c.holes[:first])
		}
		rest.start = c.about.end
		if c.text[rest.start] == ',' {
			rest.start++
		}
	}
	if rest.start < rest.end {
		p.comma()
	}
	p.part(c, rest, c.holes[first:])
}

func (p *printer) fillReference(h *hole) {
	if p.bounded && h.to.admit != p.round {
		p.stub(h)
		return
	}
	if p.round > 0 {
		p.meet(h.to)
	}
	switch h.form {
	case whole:
		p.dst = append(p.dst, '{')
	case members:
		p.comma()
	}
	p.dst = append(p.dst, refOpen[1:]...)
	p.dst = append(p.dst, h.to.name...)
	p.dst = append(p.dst, '"')
	if h.form == whole {
		p.dst = append(p.dst, '}')
	}
}

// comma separates the next member from the one before it, if there is one.
func (p *printer) comma() {
	if p.dst[len(p.dst)-1] != '{' {
		p.dst = append(p.dst, ',')
	}
}

// meet queues c, which the text refers to, the first time.
func (p *printer) meet(c *component) {
	if c.round != p.round {
		c.round = p.round
		p.queue = append(p.queue, c)
	}
}

// reach queues what c refers to, itself or by what it writes in place.
func (p *printer) reach(c *component) {
	for i := range c.holes {
		switch h := &c.holes[i]; {
		case h.cut:
		case c.inPlace(h, p.layout):
			p.reach(h.to)
		default:
			p.meet(h.to)
		}
	}
}

// defs appends the member $defs with all that is queued and what that refers
// to in turn.
func (p *printer) defs() {
	if len(p.queue) == 0 {
		return
	}
	p.dst = append(p.dst, `"$defs":{`...)
	for i := 0; i < len(p.queue); i++ {
		if i > 0 {
			p.dst = append(p.dst, ',')
		}
		c := p.queue[i]
		p.dst = append(p.dst, '"')
		p.dst = append(p.dst, c.name...)
		p.dst = append(p.dst, `":`...)
		p.component(c)
	}
	p.dst = append(p.dst, '}')
}

// attachDefs makes $defs the last member of the object that was just printed.
func (p *printer) attachDefs() {
	if len(p.queue) == 0 {
		return
	}
	p.dst = p.dst[:len(p.dst)-1]
	p.comma()
	p.defs()
	p.dst = append(p.dst, '}')
}

// newName returns a name in $defs like wanted that no other component has.
func (t *Translator) newName(wanted string) string {
	name := []byte(wanted)
	if len(name) > maxName {
		name = name[:maxName]
	}
	for i, c := range name {
		if !plainName(c) {
			name[i] = '_'
		}
	}
	if len(name) == 0 {
		name = []byte("schema")
	}
	for base := string(name); ; {
		t.names[base]++
		if n := t.names[base]; n > 1 {
			name = strconv.AppendInt(append([]byte(base), '_'), int64(n), 10)
		}
		if string(name) == base {
			return base
		}
		if _, taken := t.names[string(name)]; !taken {
			t.names[string(name)] = 1
			return string(name)
		}
	}
}

func plainName(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '_' || c == '.' || c == '-'
}
