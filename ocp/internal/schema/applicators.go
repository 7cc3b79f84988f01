package schema

import (
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

// applicator appends m if it is a keyword with subschemas.
func (w *writer) applicator(p openapi.Place, m openapi.Member, k *keywordSummary, s *setting) {
	at := p.Item(m.Value)
	switch m.Name {
	case "properties":
		w.properties(at, s.hidden)
	case "patternProperties":
		w.patternProperties(at)
	case "additionalProperties":
		w.additional(at, k, s)
	case "unevaluatedProperties", "unevaluatedItems":
		w.policy(m.Name, at)
	case "additionalItems":
		if k.itemsTuple {
			w.policy("items", at)
		}
	case "items":
		w.items(at, k)
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
		w.not(at, s.within(negated, false))
	case "if":
		w.condition(p, s)
	case "dependentSchemas":
		w.dependentSchemas(at, s)
	case "dependencies":
		w.dependencies(at, k)
	}
}

// within returns the setting of a subschema that validates the same value.
func (s *setting) within(r reach, part bool) setting {
	return setting{reach: s.reach.then(r), hidden: s.hidden, part: part}
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
	case p.Kind() == 'f' && s.part:
		w.lost = true
	case p.Kind() == 'f' && (k.allOf || k.lead != nil):
		w.policy("unevaluatedProperties", p)
	default:
		w.policy("additionalProperties", p)
	}
}

// properties appends the properties that are not hidden.
func (w *writer) properties(p openapi.Place, hidden map[string]bool) {
	if p.Kind() != '{' {
		w.lost = true
		return
	}
	w.member("properties")
	w.dst = append(w.dst, '{')
	for _, m := range p.Members() {
		if hidden[m.Name] {
			w.lost = true
			continue
		}
		w.named(m.Name)
		w.schema(p.Item(m.Value), setting{reach: apart})
	}
	w.dst = append(w.dst, '}')
}

func (w *writer) patternProperties(p openapi.Place) {
	if p.Kind() != '{' {
		w.lost = true
		return
	}
	w.member("patternProperties")
	w.dst = append(w.dst, '{')
	for _, m := range p.Members() {
		if !w.t.patterns.compiles(m.Name) {
			w.lost = true
			continue
		}
		w.named(m.Name)
		w.schema(p.Item(m.Value), setting{reach: apart})
	}
	w.dst = append(w.dst, '}')
}

// schemas appends an object whose members are schemas. Members that counts rejects are
// left out.
func (w *writer) schemas(p openapi.Place, s setting, counts func(*openapi.Node) bool) {
	w.dst = append(w.dst, '{')
	for _, m := range p.Members() {
		if counts(m.Value) {
			w.named(m.Name)
			w.schema(p.Item(m.Value), s)
		}
	}
	w.dst = append(w.dst, '}')
}

func (w *writer) dependentSchemas(p openapi.Place, s *setting) {
	if p.Kind() != '{' {
		w.lost = true
		return
	}
	w.member("dependentSchemas")
	w.schemas(p, s.within(together, false), isSchema)
}

// dependencies writes the keyword of draft 7 and earlier as dependentRequired and
// dependentSchemas.
func (w *writer) dependencies(p openapi.Place, k *keywordSummary) {
	var lists, schemas int
	for _, m := range p.Members() {
		switch {
		case m.Value.Kind() == '[':
			lists++
		case isSchema(m.Value):
			schemas++
		}
	}
	w.lost = w.lost || lists+schemas < len(p.Members()) || lists > 0 && k.requires || schemas > 0 && k.depends
	if lists > 0 && !k.requires {
		w.member("dependentRequired")
		w.assert.nameLists(p.Node)
	}
	if schemas > 0 && !k.depends {
		w.member("dependentSchemas")
		w.schemas(p, setting{reach: apart}, isSchema)
	}
}

// items appends items. The array form, used up to draft 2019-09, becomes prefixItems.
func (w *writer) items(p openapi.Place, k *keywordSummary) {
	switch {
	case p.Kind() != '[':
		w.policy("items", p)
	case !k.prefixed:
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

// oneOf appends a oneOf. If JSON Schema cannot distinguish its subschemas as the document
// intends, it becomes an anyOf. Otherwise a value that is valid for one subschema would be
// rejected because another accepts it too.
func (w *writer) oneOf(p openapi.Place, k *keywordSummary, s setting) {
	m := w.mark()
	at := len(w.dst) + len(`,"`)
	if w.dst[len(w.dst)-1] == '{' {
		at--
	}
	w.list("oneOf", p, s, nil)
	lost := w.loosened(m)
	if len(w.dst) == m.dst || k.anyOf {
		return
	}
	for _, item := range p.Items() {
		lost = lost || item.Get("format") != nil && item.Get("enum") == nil
	}
	if lost {
		copy(w.dst[at:], "anyOf")
		return
	}
	w.choices = append(w.choices, choice{at, m.holes, len(w.holes)})
}

// not appends a not, unless its subschema cannot be expressed completely: it would then
// reject too much.
func (w *writer) not(p openapi.Place, s setting) {
	m := w.mark()
	w.single("not", p, s)
	if w.loosened(m) {
		w.takeBack(m)
	}
}

// condition appends if, then and else, unless the condition cannot be expressed
// completely.
func (w *writer) condition(p openapi.Place, s *setting) {
	m := w.mark()
	w.single("if", p.At("if"), s.within(choosing, false))
	if w.loosened(m) {
		w.takeBack(m)
		return
	}
	for _, name := range [...]string{"then", "else"} {
		if branch := p.At(name); branch.Node != nil {
			w.single(name, branch, s.within(together, false))
		}
	}
}
