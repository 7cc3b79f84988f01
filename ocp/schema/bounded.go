package schema

import (
	"bytes"

	"github.com/fairwayhq/fairway/ocp/openapi"
	"github.com/fairwayhq/fairway/ocp/simplify"
)

// stubMark begins the stubs of a Bound: simplify.Relax takes it away.
const stubMark = simplify.StubMark

// stubBytes is how much a stub takes at most, without the name in it.
const stubBytes = 120

// outlineLevels is how deep an outline goes at first.
const outlineLevels = 4

// AppendBounded appends the schema at place as an object that stands on its
// own, of at most maxBytes bytes. What it refers to is told in $defs, nearest
// first, as long as there is room; other references become stubs,
// {"type":…,"description":…}. A schema that is too large itself is told to a
// smaller depth, in the end by its type alone, or as {}.
//
// The time is that of reading maxBytes, not the whole graph of references, once
// that is translated.
//
// It accepts all that the schema accepts.
func (t *Translator) AppendBounded(dst []byte, place openapi.Place, maxBytes int) []byte {
	start := len(dst)
	dst = t.appendBounded(dst, place, maxBytes)
	if !mayRefuseForStubs(dst[start:]) {
		return dst
	}
	t.stubMark = stubMark
	dst = t.appendBounded(dst[:start], place, maxBytes)
	t.stubMark = ""
	return append(dst[:start], simplify.Relax(bytes.Clone(dst[start:]))...)
}

// mayRefuseForStubs reports whether a schema has keywords that refuse more where a
// schema in them accepts more.
func mayRefuseForStubs(text []byte) bool {
	for _, keyword := range [...]string{`"oneOf"`, `"not"`, `"if"`, `"contains"`, `"unevaluated`} {
		if bytes.Contains(text, []byte(keyword)) {
			return true
		}
	}
	return false
}

func (t *Translator) appendBounded(dst []byte, place openapi.Place, maxBytes int) []byte {
	s := t.Translate(place)
	t.round++
	l := t.layouts[0]
	room := maxBytes - s.extent(l).worst - len(`,"$defs":{}`)
	if room < 0 {
		return t.appendOutline(dst, place, maxBytes)
	}
	root := s.root
	if root == nil {
		return append(dst, s.Text()...)
	}
	p := printer{dst: dst, layout: l, round: t.round, bounded: true, mark: t.stubMark}
	t.admit(l, room, root)
	if alone := root.alone(l); alone != nil && alone.admit != t.round {
		return t.appendOutline(dst, place, maxBytes)
	}
	p.component(root)
	p.attachDefs()
	return p.dst
}

// alone returns the component that c is a reference to and nothing else, if it
// is written in $defs.
func (c *component) alone(l layout) *component {
	for len(c.text) == 0 && len(c.holes) == 1 && !c.holes[0].cut {
		h := &c.holes[0]
		if !c.inPlace(h, l) {
			return h.to
		}
		c = h.to
	}
	return nil
}

// admit marks the components that the roots refer to, themselves or by others, for
// which there is room, breadth first.
func (t *Translator) admit(l layout, room int, roots ...*component) {
	seen := printer{layout: l, round: t.round}
	for _, root := range roots {
		seen.reach(root)
	}
	for i := 0; i < len(seen.queue) && room > 0; i++ {
		c := seen.queue[i]
		if cost := len(`,"":`) + len(c.name) + c.measures[l].worst; cost <= room {
			room -= cost
			c.admit = t.round
			seen.reach(c)
		}
	}
	for _, c := range seen.queue {
		c.round = 0
	}
}

// appendOutline appends as many levels of the schema at place as fit.
func (t *Translator) appendOutline(dst []byte, place openapi.Place, maxBytes int) []byte {
	for range maxSteps {
		ref := place.Get("$ref")
		if !isRef(ref) {
			break
		}
		to := t.target(place, ref)
		if to == nil {
			break
		}
		place = to.place
	}
	w := &t.writer
	for levels := outlineLevels; levels >= 0; levels-- {
		*w = writer{t: t, dst: w.dst[:0], outline: true, levels: levels}
		w.schema(place, setting{})
		if len(w.dst) <= maxBytes {
			return append(dst, w.dst...)
		}
	}
	if w.dst = appendStub(w.dst[:0], place, "", t.stubMark); len(w.dst) <= maxBytes {
		return append(dst, w.dst...)
	}
	return append(dst, `{}`...)
}

// stubSize is how many bytes a stub for c takes at most.
func (c *component) stubSize() int {
	return stubBytes + len(c.name)
}

// stub appends what stands for a reference to a component that there is no room
// for.
func (p *printer) stub(h *hole) {
	switch h.form {
	case whole:
		p.dst = appendStub(p.dst, h.to.place, h.to.name, p.mark)
	case member:
		p.dst = append(p.dst, `"allOf":[`...)
		p.dst = appendStub(p.dst, h.to.place, h.to.name, p.mark)
		p.dst = append(p.dst, ']')
	case members:
		if types := Types(h.to.place); isTelling(types) {
			p.comma()
			p.dst = appendTypes(append(p.dst, `"type":`...), types)
		}
	}
}

// appendStub appends a schema that says of p what type it has, and its name if
// it has one.
func appendStub(dst []byte, p openapi.Place, name, mark string) []byte {
	dst = append(append(dst, '{'), mark...)
	if types := Types(p); isTelling(types) {
		if mark != "" {
			dst = append(dst, ',')
		}
		dst = appendTypes(append(dst, `"type":`...), types)
	}
	if name != "" {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, `"description":"`...)
		dst = append(dst, name...)
		dst = append(dst, ` (details left out)"`...)
	}
	return append(dst, '}')
}

// isTelling reports whether types are known and few.
func isTelling(types []string) bool {
	return len(types) == 1 || len(types) == 2
}

func appendTypes(dst []byte, types []string) []byte {
	if len(types) == 1 {
		return append(append(append(dst, '"'), types[0]...), '"')
	}
	dst = append(dst, '[')
	for i, t := range types {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), t...), '"')
	}
	return append(dst, ']')
}

// A Bound is a part of the schemas of a Translator for which there is room:
// references to the rest become stubs, which simplify.Relax must be given to.
type Bound struct {
	printer printer
}

// Bound chooses what the schemas refer to, nearest first, as long as there is room
// for it in bytes. It is valid until the Translator is used for anything else. Room
// is left for the schemas themselves; fits is false if they alone take more.
func (t *Translator) Bound(room int, schemas ...*Schema) (b *Bound, fits bool) {
	l := t.layouts[0]
	roots := make([]*component, 0, len(schemas))
	room -= len(`,"$defs":{}`)
	for _, s := range schemas {
		if s.root != nil {
			roots = append(roots, s.root)
		}
		room -= s.extent(l).worst
	}
	t.round++
	if room > 0 {
		t.admit(l, room, roots...)
	}
	return &Bound{printer{layout: l, round: t.round, bounded: true, mark: stubMark}}, room > 0
}

// AppendSchema appends one of the schemas.
func (b *Bound) AppendSchema(dst []byte, s *Schema) []byte {
	b.printer.dst = dst
	b.printer.schema(s)
	return b.printer.dst
}

// AppendDefs appends the member "$defs":{…} that the appended schemas need, or
// nothing if they need none.
func (b *Bound) AppendDefs(dst []byte) []byte {
	b.printer.dst = dst
	b.printer.defs()
	return b.printer.dst
}
