package schema

import (
	"strconv"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// A component is a translated schema: the target of a reference, or the requested schema.
// Its text has holes where it refers to other components.
type component struct {
	name  string // name in $defs; "" for the requested schema
	place openapi.Place

	text  []byte // the translation without the content of the holes
	holes []hole // in the order of text
	about span   // position of the member "description" in text

	loose     bool // accepts more than the document says
	recursive bool // this and the following fields are set when the component is sealed
	measures  [layouts]measure
	together  int // subschemas that validate one value together

	visits [2]visit
	round  int // number of the last walk that reached it
	admit  int // number of the last walk that had room for it
}

// A layout determines which targets of references are written in place.
type layout uint8

const (
	autoLayout   layout = iota // small targets
	defsLayout                 // no targets
	inlineLayout               // as many targets as fit into a size limit
	layouts
)

// A measure is the size of a component in one layout.
type measure struct {
	limit  int // targets up to this size are written in place
	size   int // maximum bytes, including targets in place
	worst  int // bytes if all other references are stubs
	height int // nesting of targets in place
}

// A hole is a place where a component refers to another.
type hole struct {
	at    int // position in text
	to    *component
	form  translatedForm
	reach reach
	cut   bool // the reference is removed: it would not terminate, or would apply too many subschemas to one value
}

// span is a part of a text.
type span struct{ start, end int }

// A translatedForm is what a hole is replaced by.
type translatedForm uint8

const (
	whole   translatedForm = iota // a schema
	member                        // one member of a schema with others
	members                       // all members except the description, which the reference overrides
)

// reach is the value that a subschema validates, and how its result is used.
type reach uint8

const (
	together reach = iota // the same value, which must match
	choosing              // the same value, which may match
	negated               // the same value, which must not match
	apart                 // a part of the value
)

// inPlace reports whether c writes the target of h in place.
func (c *component) inPlace(h *hole, l layout) bool {
	to := &h.to.measures[l]
	return !h.to.recursive && to.size <= c.measures[l].limit && to.height < maxHeight
}

const refOpen, refClose = `{"$ref":"#/$defs/`, `"}`

// refSize returns the size of a reference to c, in bytes.
func (c *component) refSize() int {
	return len(refOpen) + len(c.name) + len(refClose)
}

// A printer writes components as text. If round is set, it collects the components that
// the text refers to.
type printer struct {
	dst     []byte
	layout  layout
	round   int
	bounded bool   // refer to admitted components only
	mark    string // first member of each stub

	shortened bool // the text has stubs
	queue     []*component
}

// schema appends s as a JSON object.
func (p *printer) schema(s *Schema) {
	if s.root == nil {
		p.dst = append(p.dst, s.Text()...)
		return
	}
	p.component(s.root)
}

// reachFrom queues the targets of s.
func (p *printer) reachFrom(s *Schema) {
	if s.root != nil {
		p.reach(s.root)
	}
}

// extent returns the measure of s in a layout.
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

// part appends a part of the text of c and fills its holes.
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
		p.dst = strictjson.Comma(p.dst)
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

// undescribed appends the members of c except its description.
func (p *printer) undescribed(c *component) {
	if len(c.text) == 0 { // c is only a reference
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
			p.dst = strictjson.Comma(p.dst)
			p.part(c, span{1, c.about.start}, c.holes[:first])
		}
		rest.start = c.about.end
		if c.text[rest.start] == ',' {
			rest.start++
		}
	}
	if rest.start < rest.end {
		p.dst = strictjson.Comma(p.dst)
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
		p.dst = strictjson.Comma(p.dst)
	}
	p.dst = append(p.dst, refOpen[1:]...)
	p.dst = append(p.dst, h.to.name...)
	p.dst = append(p.dst, '"')
	if h.form == whole {
		p.dst = append(p.dst, '}')
	}
}

// meet queues c when the text refers to it for the first time.
func (p *printer) meet(c *component) {
	if c.round != p.round {
		c.round = p.round
		p.queue = append(p.queue, c)
	}
}

// reach queues the targets of c, including those of components written in place.
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

// defs appends the member $defs with all queued components and everything they refer to.
func (p *printer) defs() {
	if len(p.queue) == 0 {
		return
	}
	p.dst = append(p.dst, `"$defs":{`...)
	for i := 0; i < len(p.queue); i++ {
		p.dst = strictjson.Comma(p.dst)
		c := p.queue[i]
		p.dst = append(p.dst, '"')
		p.dst = append(p.dst, c.name...)
		p.dst = append(p.dst, `":`...)
		p.component(c)
	}
	p.dst = append(p.dst, '}')
}

// attachDefs adds $defs as the last member of the object printed before.
func (p *printer) attachDefs() {
	if len(p.queue) == 0 {
		return
	}
	p.dst = p.dst[:len(p.dst)-1]
	p.dst = strictjson.Comma(p.dst)
	p.defs()
	p.dst = append(p.dst, '}')
}

// newName returns an unused name in $defs that resembles wanted.
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
