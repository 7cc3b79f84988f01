package schema

import (
	"strings"

	"github.com/fairwayhq/fairway/internal/simplify"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

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
		w.typed(k)
		s.hidden = w.t.hidden(p, s.hidden, k.allOf)
	}
	for _, m := range p.Members() {
		switch {
		case which&annotations != 0 && w.annotation(m, k):
		case which&assertions != 0 && w.bound(p, m, k, &s):
		case which&assertions != 0:
			w.applicator(p, m, k, &s)
		}
	}
}

// typed appends the type that the keywords type, nullable and format define.
func (w *writer) typed(k *keywordSummary) {
	types := k.types
	null := k.nullable && len(types) > 0
	for _, t := range types {
		null = null && t != "null"
	}
	switch {
	case len(types) == 1 && !null:
		w.member("type")
		w.quote(types[0])
	case len(types) > 0:
		w.member("type")
		w.dst = append(w.dst, '[')
		for i, t := range types {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			w.quote(t)
		}
		if null {
			w.text(`,"null"`)
		}
		w.dst = append(w.dst, ']')
	}
	if k.file && !k.encoded {
		w.member("contentEncoding")
		w.quote("base64")
	}
}

func (w *writer) quote(s string) {
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, s...)
	w.dst = append(w.dst, '"')
}

// annotation appends m if it is an annotation, and reports whether it is.
func (w *writer) annotation(m openapi.Member, k *keywordSummary) bool {
	kind := m.Value.Kind()
	if w.t.bare {
		return simplify.IsRemark(m.Name)
	}
	switch m.Name {
	case "description":
		if kind == '"' {
			w.describe(m.Value)
		}
	case "title":
		w.keep(m, kind == '"')
	case "default":
		w.keep(m, true)
	case "deprecated", "readOnly", "writeOnly":
		w.keep(m, kind == 't')
	case "examples":
		w.examples(m.Value, kind == '[' && k.examples, "", "")
	case "example":
		w.examples(m.Value, !k.examples, "[", "]")
	default:
		return false
	}
	return true
}

// keep appends m unchanged if its value is valid.
func (w *writer) keep(m openapi.Member, valid bool) {
	if valid {
		w.member(m.Name)
		w.value(m.Value)
	}
}

// examples appends examples unless they are large, since they are only hints.
func (w *writer) examples(n *openapi.Node, valid bool, before, after string) {
	if !valid {
		return
	}
	start := len(w.dst)
	w.member("examples")
	w.text(before)
	w.value(n)
	w.text(after)
	if len(w.dst)-start > maxExample {
		w.dst = w.dst[:start]
	}
}

// bound appends m if it is an assertion without subschemas, and reports whether it is.
func (w *writer) bound(p openapi.Place, m openapi.Member, k *keywordSummary, s *setting) bool {
	n := m.Value
	switch m.Name {
	case "type", "$ref", "nullable":
	case "format":
		w.format(n, k)
	case "enum":
		w.enum(n, k)
	case "const":
		w.keep(m, true)
	case "contentEncoding", "contentMediaType":
		w.keep(m, n.Kind() == '"')
	case "multipleOf":
		w.judge(m, isNumber(n) && isPositive(n))
	case "minimum":
		w.limit(m, k.exclusiveMinimum, "exclusiveMinimum")
	case "maximum":
		w.limit(m, k.exclusiveMaximum, "exclusiveMaximum")
	case "exclusiveMinimum", "exclusiveMaximum":
		if n.Kind() != 't' && n.Kind() != 'f' {
			w.judge(m, isNumber(n))
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		w.count(m)
	case "minContains", "maxContains":
		if k.contains {
			w.count(m)
		}
	case "uniqueItems":
		w.judge(m, n.Kind() == 't' || n.Kind() == 'f')
	case "pattern":
		w.judge(m, w.t.compiles(n.Text()) && n.Kind() == '"')
	case "required":
		w.required(n, s.hidden)
	case "dependentRequired":
		w.dependentRequired(n)
	case "dependencies":
		w.dependencies(p.Item(n), k)
	default:
		return false
	}
	return true
}

// judge appends m if its value is valid. Otherwise it records that the output accepts more
// than the document means.
func (w *writer) judge(m openapi.Member, valid bool) {
	w.lost = w.lost || !valid
	w.keep(m, valid)
}

// format appends a format. Formats that only mark binary data are left out, since
// contentEncoding expresses that.
func (w *writer) format(n *openapi.Node, k *keywordSummary) {
	if n.Kind() != '"' || k.file {
		return
	}
	w.arm = w.arm || w.depth == 1
	w.member("format")
	w.value(n)
}

// limit appends minimum or maximum. If an OpenAPI 3.0 boolean marks it as exclusive, it is
// written as the exclusive keyword.
func (w *writer) limit(m openapi.Member, exclusive bool, name string) {
	if exclusive {
		m.Name = name
	}
	w.judge(m, isNumber(m.Value))
}

func (w *writer) count(m openapi.Member) {
	digits, valid := countDigits(m.Value)
	if !valid {
		w.lost = true
		return
	}
	w.member(m.Name)
	w.text(digits)
}

// enum appends an enum. Values of another scalar type than the schema's, which YAML easily
// produces, are converted to that type. Otherwise no value would be valid.
func (w *writer) enum(n *openapi.Node, k *keywordSummary) {
	if len(n.Items()) == 0 {
		w.lost = true
		return
	}
	w.member("enum")
	w.dst = append(w.dst, '[')
	null := k.nullable
	for i, item := range n.Items() {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		null = null && item.Kind() != 'n'
		w.enumValue(item, k.types)
	}
	if null {
		w.text(`,null`)
	}
	w.dst = append(w.dst, ']')
}

func (w *writer) enumValue(n *openapi.Node, types []string) {
	if len(types) != 1 {
		w.value(n)
		return
	}
	kind := n.Kind()
	switch types[0] {
	case "string":
		if kind == '0' || kind == 't' || kind == 'f' {
			w.quote(string(n.Raw()))
			return
		}
	case "integer", "number":
		if text := n.Text(); isNumberText(text) {
			w.text(text)
			return
		}
	case "boolean":
		if text := n.Text(); text == "true" || text == "false" {
			w.text(text)
			return
		}
	}
	w.value(n)
}

// required appends the names that are strings, without duplicates and without properties
// that are left out.
func (w *writer) required(n *openapi.Node, hidden map[string]bool) {
	if n.Kind() != '[' {
		return // draft 3 used a boolean; the parent of the property lists it as well
	}
	start := len(w.dst)
	w.member("required")
	open := len(w.dst)
	w.names(n, hidden)
	if len(w.dst) == open+len(`[]`) {
		w.dst = w.dst[:start]
	}
}

// names appends an array of names without duplicates.
func (w *writer) names(n *openapi.Node, hidden map[string]bool) {
	w.dst = append(w.dst, '[')
	first := true
	var seen map[string]bool
	items := n.Items()
	if len(items) > 1 {
		seen = make(map[string]bool, len(items))
	}
	for _, item := range items {
		name := item.Text()
		if item.Kind() != '"' || seen[name] {
			continue
		}
		if hidden[name] {
			w.lost = true
			continue
		}
		if seen != nil {
			seen[name] = true
		}
		if !first {
			w.dst = append(w.dst, ',')
		}
		first = false
		w.value(item)
	}
	w.dst = append(w.dst, ']')
}

func (w *writer) dependentRequired(n *openapi.Node) {
	if n.Kind() != '{' {
		w.lost = true
		return
	}
	w.member("dependentRequired")
	w.nameLists(n)
}

func (w *writer) nameLists(n *openapi.Node) {
	w.dst = append(w.dst, '{')
	for _, m := range n.Members() {
		if m.Value.Kind() != '[' {
			continue
		}
		w.comma()
		w.dst = wire.AppendString(w.dst, m.Name)
		w.dst = append(w.dst, ':')
		w.names(m.Value, nil)
	}
	w.dst = append(w.dst, '}')
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
		w.nameLists(p.Node)
	}
	if schemas > 0 && !k.depends {
		w.member("dependentSchemas")
		w.schemas(p, setting{reach: apart}, isSchema)
	}
}

// compiles reports whether Go can compile a regular expression, and whether it is within
// the limits. Go's syntax is nearly a subset of ECMAScript's.
func (t *Translator) compiles(pattern string) bool {
	size, known := t.patterns[pattern]
	if !known {
		if len(pattern) <= maxPattern && !strings.Contains(pattern, "(?P<") {
			size = programSize(pattern)
		}
		t.patterns[pattern] = size
	}
	if size == 0 || size > maxProgram || size > maxPrograms-t.programs {
		return false
	}
	t.programs += size
	return true
}
