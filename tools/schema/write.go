package schema

import (
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// A writer writes the text of one component at a time: its schemas, references and
// applicators. The keywords without subschemas are written by annotate and assert.
type writer struct {
	t *Translator
	draft
	annotate annotationWriter
	assert   assertionWriter
}

// reset starts the text of another component.
func (w *writer) reset(t *Translator) {
	w.t = t
	w.clear()
	w.annotate = annotationWriter{&w.draft, t}
	w.assert = assertionWriter{&w.draft, &t.patterns}
}

// setting is what a schema must know about its surrounding schemas.
type setting struct {
	reach  reach
	part   bool            // one of several schemas that describe the same object
	arm    bool            // an alternative, or negated
	hidden map[string]bool // properties to leave out of the object
}

// write translates the schema of c.
func (t *Translator) write(c *component) {
	w := &t.writer
	w.reset(t)
	w.part = "schema " + c.title()
	w.schema(c.place, setting{})
	w.copyTo(c)
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
	if w.depth >= maxDepth || len(w.dst) >= maxText {
		w.t.warn("a schema is cut: it is over %d bytes or %d levels", maxText, maxDepth)
		w.lost = true
		w.text(`{}`)
		return
	}
	w.depth++
	k := survey(p)
	if k.ref == nil && (k.allOf || p.Get("discriminator") != nil) {
		if settled := settle(p); settled.Node != p.Node {
			p, k = settled, survey(settled)
		}
	}
	switch {
	case s.arm && isNullAlternative(p.Node):
		k.types, k.lost = []string{"null"}, false
		fallthrough
	case k.plainNull:
		w.t.warnInput(`%s: null without quotes in type is read as "null"`, w.part)
	}
	w.lost = w.lost || k.lost
	if w.t.bare {
		k.description = nil
	}
	switch {
	case k.ref != nil:
		w.reference(p, &k, s)
	case k.nullable && k.combined:
		w.nullable(p, &k, s)
	default:
		asUpload := w.t.Uploads && (k.file || k.encoded) && slices.Contains(k.types, "string")
		if asUpload {
			w.text(`{"anyOf":[`)
		}
		w.text(`{`)
		w.keywords(p, &k, s, everything)
		w.text(`}`)
		if asUpload {
			w.text(`,` + UploadSchema + `]}`)
		}
	}
	w.depth--
}

// share selects which keywords of a schema are written.
type share uint8

const (
	annotations share = 1 << iota // keywords that only describe
	assertions                    // keywords that validate or apply subschemas
	everything  = annotations | assertions
)

// keywords appends the members of the schema p: its type, then the other keywords in
// document order. Keywords that JSON Schema 2020-12 does not define, and invalid values,
// are left out.
func (w *writer) keywords(p openapi.Place, k *keywordSummary, s setting, which share) {
	if which&assertions != 0 {
		w.assert.typed(k)
		s.hidden = w.t.hidden(p, s.hidden, k.allOf)
	}
	var unlisted []openapi.Member
	for _, m := range p.Members() {
		switch {
		case which&annotations != 0 && w.annotate.keyword(p, m, k):
		case which&assertions == 0 || !appliesTo(m.Name, k.types):
		case w.t.patterns.unlisted(m, k):
			unlisted = append(unlisted, m)
		case w.assert.keyword(m, k, s.hidden):
		default:
			w.applicator(p, m, k, &s)
		}
	}
	if which&assertions == 0 {
		return
	}
	if names := w.undescribed(p, k, &s); names != nil && p.Get("properties") == nil {
		w.named("properties", openapi.Place{}, setting{}, nil, names...)
	}
	if !k.items && slices.Contains(k.types, "array") && p.Get("unevaluatedItems") == nil {
		w.member("items")
		w.text(`{}`)
	}
	if unlisted != nil {
		w.check(p, unlisted, k, &s)
	}
}

// check appends keywords that are only checked. Texts that are not checked do not have them.
func (w *writer) check(p openapi.Place, unlisted []openapi.Member, k *keywordSummary, s *setting) {
	w.lost = true // of what is listed
	if w.t.bare || w.t.direction == Output {
		return
	}
	start := len(w.dst)
	w.member(checkKey)
	w.text(`{`)
	open := len(w.dst)
	for _, m := range unlisted {
		if !w.assert.keyword(m, k, s.hidden) {
			w.applicator(p, m, k, s)
		}
	}
	if len(w.dst) == open {
		w.dst = w.dst[:start]
		return
	}
	w.text(`}`)
}

// undescribed returns the required properties of p that have no schema, if no other schema can have it.
func (w *writer) undescribed(p openapi.Place, k *keywordSummary, s *setting) (names []string) {
	if s.part || s.arm || k.ref != nil || k.combined || k.patterns != nil || k.required.Kind() != '[' ||
		p.Get("properties") == nil && !slices.Contains(k.types, "object") || len(p.Get("additionalProperties").Members()) > 0 {
		return nil
	}
	properties := p.Get("properties")
	for _, item := range k.required.Items() {
		if name := item.Text(); item.Kind() == '"' && properties.Get(name) == nil && !s.hidden[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// nullable appends a schema that allows null in addition to what its subschemas or its
// const allow.
func (w *writer) nullable(p openapi.Place, k *keywordSummary, s setting) {
	k.nullable = false
	w.text(`{"anyOf":[{`)
	inner := setting{reach: s.reach.then(choosing), hidden: s.hidden, part: s.part, arm: s.arm}
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
		w.annotate.describe(k.description)
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
		w.dst = strictjson.Comma(w.dst)
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
	w.dst = strictjson.AppendString(w.dst, note)
	w.annotate.described(start)
	w.text(`}`)
}

// then returns the reach of a subschema, given the reach of its parent.
func (r reach) then(next reach) reach {
	if r == apart {
		return apart
	}
	return next
}
