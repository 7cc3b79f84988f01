package schema

import (
	"bytes"
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// stubBytes is the maximum size of a stub, without its name.
const stubBytes = 120

// AppendBounded appends the schema at place as a self-contained object of at most maxBytes
// bytes. The result accepts every value that the schema accepts.
//
// Targets of references go into $defs, nearest first, while there is room. Other
// references become stubs, {"type":…,"description":…}. If the schema itself is too large,
// it is flattened to a smaller depth, in the end with only its type, or as {}.
func (t *Translator) AppendBounded(dst []byte, place openapi.Place, maxBytes int) []byte {
	text, shortened := t.bounded(place, maxBytes, "")
	if shortened && mayRefuseForStubs(text) {
		text, _ = t.bounded(place, maxBytes, stubMark)
		text = Relax(text)
	}
	if len(text) > maxBytes {
		text = FlattenWithin(text, maxBytes)
	}
	if text == nil {
		text = appendStub(nil, place, "", "")
	}
	if len(text) > maxBytes {
		text = []byte(`{}`)
	}
	return append(dst, text...)
}

// mayRefuseForStubs reports whether a schema has keywords that reject more if a subschema
// accepts more.
func mayRefuseForStubs(text []byte) bool {
	keywords := []string{`"oneOf"`, `"not"`, `"if"`, `"contains"`, `"unevaluated`}
	return slices.ContainsFunc(keywords, func(keyword string) bool { return bytes.Contains(text, []byte(keyword)) })
}

// bounded returns the schema at place with those targets of its references for which there is room. The mark is
// the first member of each stub. The text is valid until the next call; shortened says whether it has stubs.
func (t *Translator) bounded(place openapi.Place, maxBytes int, mark string) (text []byte, shortened bool) {
	for range maxSteps {
		s := t.Translate(place)
		b, fits := t.Bound(maxBytes, s)
		if alone := s.root.alone(t.layouts[0]); alone != nil && (!fits || alone.admit != t.round) {
			place = alone.place
			continue
		}
		b.printer.mark, b.printer.dst = mark, t.scratch[:0]
		b.printer.schema(s)
		b.printer.attachDefs()
		t.scratch = b.printer.dst
		return t.scratch, b.printer.shortened
	}
	return nil, false
}

// alone returns the target of c if c is only a reference and the target is in $defs.
func (c *component) alone(l layout) *component {
	for c != nil && len(c.text) == 0 && len(c.holes) == 1 && !c.holes[0].cut {
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

// stub appends the replacement for a reference to a component that does not fit.
func (p *printer) stub(h *hole) {
	p.shortened = true
	switch h.form {
	case whole:
		p.dst = appendStub(p.dst, h.to.place, h.to.name, p.mark)
	case member:
		p.dst = append(p.dst, `"allOf":[`...)
		p.dst = appendStub(p.dst, h.to.place, h.to.name, p.mark)
		p.dst = append(p.dst, ']')
	case members:
		if types := Types(h.to.place); isTelling(types) {
			p.dst = strictjson.Comma(p.dst)
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
		dst = append(strictjson.Comma(dst), `"description":"`...)
		dst = append(dst, name...)
		dst = append(dst, ` (details left out)"`...)
	}
	return append(dst, '}')
}

// isTelling reports whether the types are known and few.
func isTelling(types []string) bool {
	return len(types) == 1 || len(types) == 2
}

// appendTypes appends the value of type, and items for an array.
func appendTypes(dst []byte, types []string) []byte {
	if len(types) == 1 {
		dst = append(append(append(dst, '"'), types[0]...), '"')
	} else {
		dst = strictjson.AppendStrings(dst, types)
	}
	if slices.Contains(types, "array") {
		dst = append(dst, `,"items":{}`...)
	}
	return dst
}

// A Bound is the part of a Translator's schemas that fits into a size limit. References to
// the rest are stubs. The output must be passed to Relax.
type bound struct {
	printer printer
}

// Bound selects the targets of the schemas' references, nearest first, that fit into room
// bytes together with the schemas. If the schemas alone are larger, fits is false. The
// bound is valid until the next use of the Translator.
func (t *Translator) Bound(room int, schemas ...*Schema) (b *bound, fits bool) {
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
	return &bound{printer{layout: l, round: t.round, bounded: true, mark: stubMark}}, room > 0
}

// AppendSchema appends one of the schemas.
func (b *bound) AppendSchema(dst []byte, s *Schema) []byte {
	b.printer.dst = dst
	b.printer.schema(s)
	return b.printer.dst
}

// AppendDefs appends the member "$defs":{…} with all definitions that the appended schemas
// need, or nothing if they need none.
func (b *bound) AppendDefs(dst []byte) []byte {
	b.printer.dst = dst
	b.printer.defs()
	return b.printer.dst
}
