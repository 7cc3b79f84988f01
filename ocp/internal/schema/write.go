package schema

import (
	"bytes"
	"slices"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

// A writer writes the text of one component at a time.
type writer struct {
	t       *Translator
	dst     []byte
	holes   []hole
	choices []choice
	about   span
	depth   int
	lost    bool // something was left out, so the output accepts more
	arm     bool // the outermost schema distinguishes values only by format

	outline bool // write stubs instead of holes
	levels  int  // depth of an outline
}

// setting is what a schema must know about its surrounding schemas.
type setting struct {
	reach  reach
	part   bool            // one of several schemas that describe the same object
	hidden map[string]bool // properties to leave out of the object
}

// write translates the schema of c.
func (t *Translator) write(c *component) {
	w := &t.writer
	*w = writer{t: t, dst: w.dst[:0], holes: w.holes[:0], choices: w.choices[:0]}
	w.schema(c.place, setting{})
	c.text = bytes.Clone(w.dst)
	c.holes = slices.Clone(w.holes)
	c.choices = slices.Clone(w.choices)
	c.about = w.about
	c.loose = w.lost || w.arm
}

// schema appends the translation of p: a JSON object, or a hole for one.
func (w *writer) schema(p openapi.Place, s setting) {
	switch p.Kind() {
	case '{':
	case 'f':
		w.text(`{"not":{}}`)
		return
	case 't', 0:
		w.text(`{}`)
		return
	default:
		w.lost = true
		w.text(`{}`)
		return
	}
	if w.outline && w.depth > w.levels {
		w.dst = appendStub(w.dst, p, "", w.t.stubMark)
		return
	}
	if w.depth >= maxDepth || len(w.dst) >= maxText {
		w.t.warn("a schema is cut: it is over %d bytes or %d levels", maxText, maxDepth)
		w.lost = true
		w.text(`{}`)
		return
	}
	w.depth++
	k := w.survey(p)
	if w.t.bare {
		k.description = nil
	}
	switch {
	case k.ref != nil:
		w.reference(p, &k, s)
	case k.nullable && k.combined:
		w.nullable(p, &k, s)
	default:
		w.text(`{`)
		w.keywords(p, &k, s, everything)
		w.text(`}`)
	}
	w.depth--
}

// nullable appends a schema that allows null in addition to what its subschemas or its
// const allow.
func (w *writer) nullable(p openapi.Place, k *keywordSummary, s setting) {
	k.nullable = false
	w.text(`{"anyOf":[{`)
	inner := setting{reach: s.reach.then(choosing), hidden: s.hidden, part: s.part}
	w.keywords(p, k, inner, assertions)
	w.text(`},{"type":"null"}]`)
	w.keywords(p, k, s, annotations)
	w.text(`}`)
}

// reference appends a schema that is a $ref. OpenAPI 3.0 ignores members beside a $ref, but
// authors who add a description or nullable there expect them to work.
func (w *writer) reference(p openapi.Place, k *keywordSummary, s setting) {
	to := w.t.target(p, k.ref)
	if to == nil {
		w.missing(p, k)
		return
	}
	if w.outline {
		w.dst = appendStub(w.dst, to.place, "", w.t.stubMark)
		return
	}
	described := k.description != nil
	old := p.File != nil && p.File.Version30
	switch {
	case k.nullable:
		w.text(`{"anyOf":[`)
		w.hole(to, whole, s.reach.then(choosing))
		w.text(`,{"type":"null"}]`)
		w.keywords(p, k, s, annotations)
		w.text(`}`)
	case !old && k.siblings > 0:
		w.extended(p, k, s, to)
	case described:
		w.text(`{`)
		w.describe(k.description)
		w.hole(to, members, s.reach)
		w.text(`}`)
	default:
		w.hole(to, whole, s.reach)
	}
}

// extended appends a $ref together with its sibling keywords.
func (w *writer) extended(p openapi.Place, k *keywordSummary, s setting, to *component) {
	w.text(`{`)
	if k.allOf {
		k.lead = to
	}
	w.keywords(p, k, s, everything)
	if !k.allOf {
		w.comma()
		w.hole(to, member, s.reach)
	}
	w.text(`}`)
}

// missing appends what is known of a schema whose $ref target is missing.
func (w *writer) missing(p openapi.Place, k *keywordSummary) {
	w.lost = true
	note := "The document does not say more: " + k.ref.Text() + " leads nowhere."
	if own := k.description.Text(); own != "" {
		note = own + "\n\n" + note
	}
	w.text(`{`)
	start := len(w.dst)
	w.member("description")
	w.dst = wire.AppendString(w.dst, note)
	w.described(start)
	w.text(`}`)
}

func (w *writer) hole(to *component, f form, r reach) {
	w.holes = append(w.holes, hole{at: len(w.dst), to: to, form: f, reach: r})
}

// then returns the reach of a subschema, given the reach of its parent.
func (r reach) then(next reach) reach {
	if r == apart {
		return apart
	}
	return next
}

func (w *writer) text(s string) {
	w.dst = append(w.dst, s...)
}

// member begins a member of an object. The name must not need escaping.
func (w *writer) member(name string) {
	w.comma()
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, '"', ':')
}

func (w *writer) comma() {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
}

func (w *writer) describe(n *openapi.Node) {
	start := len(w.dst)
	w.member("description")
	w.value(n)
	w.described(start)
}

// described records a description that began at start. If it belongs to the whole
// component, a reference may replace it.
func (w *writer) described(start int) {
	if w.depth == 1 {
		w.about = span{start, len(w.dst)}
	}
}

func (w *writer) value(n *openapi.Node) {
	w.dst = n.AppendJSON(w.dst)
}

// mark is a position of the writer, used to discard the output after it.
type mark struct {
	dst, holes, choices int
	lost                bool
}

func (w *writer) mark() mark {
	m := mark{len(w.dst), len(w.holes), len(w.choices), w.lost}
	w.lost = false
	return m
}

// loosened ends the part that began at m and reports whether anything in it was left out.
func (w *writer) loosened(m mark) bool {
	lost := w.lost
	w.lost = lost || m.lost
	return lost
}

func (w *writer) takeBack(m mark) {
	w.dst, w.holes, w.choices = w.dst[:m.dst], w.holes[:m.holes], w.choices[:m.choices]
}
