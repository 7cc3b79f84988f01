package schema

import (
	"bytes"

	"github.com/fairwayhq/fairway/internal/simplify"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

// stubMark is the first member of the stubs of a Bound. simplify.Relax removes it.
const stubMark = simplify.StubMark

// stubBytes is the maximum size of a stub, without its name.
const stubBytes = 120

// outlineLevels is the depth of the first outline that is tried.
const outlineLevels = 4

// AppendBounded appends the schema at place as a self-contained object of at most maxBytes
// bytes. The result accepts every value that the schema accepts.
//
// Targets of references go into $defs, nearest first, while there is room. Other
// references become stubs, {"type":…,"description":…}. If the schema itself is too large,
// it is written to a smaller depth, in the end with only its type, or as {}.
//
// Once the schema is translated, the time is proportional to maxBytes, not to the size of
// all referenced schemas.
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

// mayRefuseForStubs reports whether a schema has keywords that reject more if a subschema
// accepts more.
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

// alone returns the target of c if c is only a reference and the target is in $defs.
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

// admit marks the components to write, breadth first from the roots, as long as there is
// room.
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

// appendOutline appends the schema at place to the greatest depth that fits.
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
		w.reset(t)
		w.outline, w.levels = true, levels
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

// stubSize returns the maximum size of a stub for c, in bytes.
func (c *component) stubSize() int {
	return stubBytes + len(c.name)
}

// stub appends the replacement for a reference to a component that does not fit.
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

// appendStub appends a schema with only the type of p, and its name if it has one.
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

// isTelling reports whether the types are known and few.
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

// A Bound is the part of a Translator's schemas that fits into a size limit. References to
// the rest are stubs. The output must be passed to simplify.Relax.
type Bound struct {
	printer printer
}

// Bound selects the targets of the schemas' references, nearest first, that fit into room
// bytes together with the schemas. If the schemas alone are larger, fits is false. The
// Bound is valid until the next use of the Translator.
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

// AppendDefs appends the member "$defs":{…} with all definitions that the appended schemas
// need, or nothing if they need none.
func (b *Bound) AppendDefs(dst []byte) []byte {
	b.printer.dst = dst
	b.printer.defs()
	return b.printer.dst
}
