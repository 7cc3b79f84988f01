package schema

import (
	"slices"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// applicator appends m if it is a keyword with subschemas.
func (w *writer) applicator(p openapi.Place, m openapi.Member, k *keywordSummary, s *setting) {
	at := p.Item(m.Value)
	switch m.Name {
	case "properties":
		w.named(m.Name, at, setting{reach: apart}, func(m openapi.Member) bool { return !s.hidden[m.Name] }, w.undescribed(p, k, s)...)
	case "patternProperties":
		w.named(m.Name, at, setting{reach: apart}, func(m openapi.Member) bool { return w.t.patterns.compiles(m.Name) })
	case "additionalProperties":
		w.additional(at, k, s)
	case "unevaluatedProperties", "unevaluatedItems":
		w.policy(m.Name, at)
	case "additionalItems":
		if p.Get("items").Kind() == '[' {
			k.items = isSchema(m.Value)
			w.policy("items", at)
		}
	case "items":
		k.items = k.items || isSchema(m.Value)
		w.items(at, p.Get("prefixItems").Items())
	case "prefixItems":
		w.list(m.Name, at, setting{reach: apart}, nil)
	case "propertyNames", "contains", "contentSchema":
		w.single(m.Name, at, setting{reach: apart})
	case "allOf":
		several := len(at.Items()) > 1 || k.lead != nil || p.Get("properties") != nil
		w.list(m.Name, at, s.within(together, several), k.lead)
	case "anyOf":
		w.list(m.Name, at, s.within(choosing, false), nil)
	case "oneOf":
		w.oneOf(at, k, s.within(choosing, false))
	case "not":
		// If its subschema cannot be expressed completely, it would reject too much.
		w.completely(func() { w.single(m.Name, at, s.within(negated, false)) })
	case "if":
		w.condition(p, s)
	case checkKey: // of a family
		if w.t.direction == Input && !w.t.bare {
			w.single(m.Name, at, setting{reach: apart})
		}
	case "dependentSchemas":
		w.named(m.Name, at, s.within(together, false), hasSchema)
	case "dependencies":
		w.dependencies(at, p.Get("dependentRequired") == nil, p.Get("dependentSchemas") == nil)
	}
}

// within returns the setting of a subschema that validates the same value.
func (s *setting) within(r reach, part bool) setting {
	return setting{reach: s.reach.then(r), hidden: s.hidden, part: part, arm: r == choosing || r == negated}
}

// single appends a keyword whose value is a schema.
func (w *writer) single(name string, p openapi.Place, s setting) {
	if !isSchema(p.Node) {
		w.lost = true
		return
	}
	w.member(name)
	w.schema(p, s)
}

// policy appends a keyword whose value is a schema and for which documents often use a
// boolean.
func (w *writer) policy(name string, p openapi.Place) {
	switch p.Kind() {
	case 't', 'f':
		w.member(name)
		w.value(p.Node)
	default:
		w.single(name, p, setting{reach: apart})
	}
}

// additional appends additionalProperties. Beside allOf, false would reject the
// properties of the other parts. The document means unevaluatedProperties, so that is
// written instead.
func (w *writer) additional(p openapi.Place, k *keywordSummary, s *setting) {
	switch {
	case p.Kind() == 'f' && s.part, p.Kind() != 't' && slices.ContainsFunc(k.patterns.Members(), func(m openapi.Member) bool { return !w.t.patterns.compiles(m.Name) }):
		w.lost = true
	case p.Kind() == 'f' && (k.allOf || k.lead != nil):
		w.policy("unevaluatedProperties", p)
	default:
		w.policy("additionalProperties", p)
	}
}

// named appends a keyword whose value is an object of schemas. Members that keep rejects are left out. Those of the
// further names take any value.
func (w *writer) named(name string, p openapi.Place, s setting, keep func(openapi.Member) bool, further ...string) {
	if p.Kind() != '{' && len(further) == 0 {
		w.lost = true
		return
	}
	w.member(name)
	w.text(`{`)
	for _, m := range p.Members() {
		if !keep(m) {
			w.lost = true
			continue
		}
		w.member(m.Name)
		w.schema(p.Item(m.Value), s)
	}
	for _, name := range further {
		w.member(name)
		w.text(`{}`)
	}
	w.text(`}`)
}

// dependencies writes the keyword of draft 7 and earlier as dependentRequired and dependentSchemas, if the schema
// does not have these.
func (w *writer) dependencies(p openapi.Place, takesLists, takesSchemas bool) {
	var lists, schemas int
	for _, m := range p.Members() {
		switch {
		case m.Value.Kind() == '[':
			lists++
		case isSchema(m.Value):
			schemas++
		}
	}
	lost := w.lost || lists+schemas < len(p.Members()) || lists > 0 && !takesLists || schemas > 0 && !takesSchemas
	if lists > 0 && takesLists {
		w.assert.dependentRequired(p.Node)
	}
	if schemas > 0 && takesSchemas {
		w.named("dependentSchemas", p, setting{reach: apart}, hasSchema)
	}
	w.lost = lost
}

func hasSchema(m openapi.Member) bool { return isSchema(m.Value) }

// items appends items. The array form, used up to draft 2019-09, becomes prefixItems.
func (w *writer) items(p openapi.Place, prefix []*openapi.Node) {
	switch {
	case p.Kind() != '[':
		w.policy("items", p)
	case len(prefix) == 0:
		w.list("prefixItems", p, setting{reach: apart}, nil)
	}
}

// list appends a keyword whose value is an array of schemas. If lead is not nil, it comes
// first.
func (w *writer) list(name string, p openapi.Place, s setting, lead *component) {
	items := p.Items()
	if len(items) == 0 {
		w.lost = w.lost || p.Kind() != '['
		return
	}
	w.member(name)
	w.dst = append(w.dst, '[')
	if lead != nil {
		w.hole(lead, whole, s.reach)
		w.dst = append(w.dst, ',')
	}
	for i, item := range items {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.schema(p.Item(item), s)
	}
	w.dst = append(w.dst, ']')
}

// oneOf appends a oneOf as an anyOf: a value that fits several subschemas is not refused, because documents use oneOf
// for alternatives that JSON Schema cannot distinguish. The API decides.
func (w *writer) oneOf(p openapi.Place, k *keywordSummary, s setting) {
	switch {
	case len(p.Items()) == 0:
		return
	case !k.anyOf:
		w.list("anyOf", p, s, nil)
	case !k.allOf && k.lead == nil:
		w.member("allOf")
		w.text(`[{`)
		w.list("anyOf", p, s, nil)
		w.text(`}]`)
	}
	w.lost = true // it accepts more
}

// condition appends if, then and else. A condition that cannot be expressed completely is left out: it would
// reject too much.
func (w *writer) condition(p openapi.Place, s *setting) {
	if !w.completely(func() { w.single("if", p.At("if"), s.within(choosing, false)) }) {
		return
	}
	for _, name := range [...]string{"then", "else"} {
		if branch := p.At(name); branch.Node != nil {
			w.single(name, branch, s.within(together, false))
		}
	}
}
