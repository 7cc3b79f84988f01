package schema

import (
	"github.com/fairwayhq/fairway/ocp/openapi"
)

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
func (t *Translator) AppendBounded(dst []byte, place openapi.Place, maxBytes int) []byte {
	root := t.Translate(place).root
	t.round++
	room := maxBytes - root.worst - len(`,"$defs":{}`)
	if room < 0 {
		return t.appendOutline(dst, place, maxBytes)
	}
	p := printer{dst: dst, round: t.round, bounded: true}
	t.admit(root, room)
	if alone := root.alone(); alone != nil && alone.admit != t.round {
		return t.appendOutline(dst, place, maxBytes)
	}
	p.component(root)
	p.attachDefs()
	return p.dst
}

// alone returns the component that c is a reference to and nothing else, if it
// is written in $defs.
func (c *component) alone() *component {
	for len(c.text) == 0 && len(c.holes) == 1 && !c.holes[0].cut {
		h := &c.holes[0]
		if !c.inPlace(h) {
			return h.to
		}
		c = h.to
	}
	return nil
}

// admit marks the components that root refers to, itself or by others, for
// which there is room, breadth first.
func (t *Translator) admit(root *component, room int) {
	seen := printer{round: t.round}
	seen.reach(root)
	for i := 0; i < len(seen.queue) && room > 0; i++ {
		c := seen.queue[i]
		if cost := len(`,"":`) + len(c.name) + c.worst; cost <= room {
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
	if w.dst = appendStub(w.dst[:0], place, ""); len(w.dst) <= maxBytes {
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
		p.dst = appendStub(p.dst, h.to.place, h.to.name)
	case member:
		p.dst = append(p.dst, `"allOf":[`...)
		p.dst = appendStub(p.dst, h.to.place, h.to.name)
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
func appendStub(dst []byte, p openapi.Place, name string) []byte {
	dst = append(dst, '{')
	if types := Types(p); isTelling(types) {
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
