package schema

import (
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

// assertionWriter writes the keywords that validate a value without subschemas.
type assertionWriter struct {
	*draft
	patterns *patternBudget
}

// typed appends the type that the keywords type, nullable and format define.
func (a *assertionWriter) typed(k *keywordSummary) {
	types := k.types
	null := k.nullable && len(types) > 0
	for _, t := range types {
		null = null && t != "null"
	}
	switch {
	case len(types) == 1 && !null:
		a.member("type")
		a.quote(types[0])
	case len(types) > 0:
		a.member("type")
		a.dst = append(a.dst, '[')
		for i, t := range types {
			if i > 0 {
				a.dst = append(a.dst, ',')
			}
			a.quote(t)
		}
		if null {
			a.text(`,"null"`)
		}
		a.dst = append(a.dst, ']')
	}
	if k.file && !k.encoded {
		a.member("contentEncoding")
		a.quote("base64")
	}
}

// keyword appends m if it is an assertion without subschemas, and reports whether it is.
func (a *assertionWriter) keyword(m openapi.Member, k *keywordSummary, hidden map[string]bool) bool {
	n := m.Value
	switch m.Name {
	case "type", "$ref", "nullable":
	case "format":
		a.format(n, k)
	case "enum":
		a.enum(n, k)
	case "const":
		a.keep(m, true)
	case "contentEncoding", "contentMediaType":
		a.keep(m, n.Kind() == '"')
	case "multipleOf":
		a.judge(m, isNumber(n) && isPositive(n))
	case "minimum":
		a.limit(m, k.exclusiveMinimum, "exclusiveMinimum")
	case "maximum":
		a.limit(m, k.exclusiveMaximum, "exclusiveMaximum")
	case "exclusiveMinimum", "exclusiveMaximum":
		if n.Kind() != 't' && n.Kind() != 'f' {
			a.judge(m, isNumber(n))
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		a.count(m)
	case "minContains", "maxContains":
		if k.contains {
			a.count(m)
		}
	case "uniqueItems":
		a.judge(m, n.Kind() == 't' || n.Kind() == 'f')
	case "pattern":
		a.judge(m, a.patterns.compiles(n.Text()) && n.Kind() == '"')
	case "required":
		a.required(n, hidden)
	case "dependentRequired":
		a.dependentRequired(n)
	default:
		return false
	}
	return true
}

// format appends a format. Formats that only mark binary data are left out, since
// contentEncoding expresses that.
func (a *assertionWriter) format(n *openapi.Node, k *keywordSummary) {
	if n.Kind() != '"' || k.file {
		return
	}
	a.arm = a.arm || a.depth == 1
	a.member("format")
	a.value(n)
}

// limit appends minimum or maximum. If an OpenAPI 3.0 boolean marks it as exclusive, it is
// written as the exclusive keyword.
func (a *assertionWriter) limit(m openapi.Member, exclusive bool, name string) {
	if exclusive {
		m.Name = name
	}
	a.judge(m, isNumber(m.Value))
}

func (a *assertionWriter) count(m openapi.Member) {
	digits, valid := countDigits(m.Value)
	if !valid {
		a.lost = true
		return
	}
	a.member(m.Name)
	a.text(digits)
}

// enum appends an enum. Values of another scalar type than the schema's, which YAML easily
// produces, are converted to that type. Otherwise no value would be valid.
func (a *assertionWriter) enum(n *openapi.Node, k *keywordSummary) {
	if len(n.Items()) == 0 {
		a.lost = true
		return
	}
	a.member("enum")
	a.dst = append(a.dst, '[')
	null := k.nullable
	for i, item := range n.Items() {
		if i > 0 {
			a.dst = append(a.dst, ',')
		}
		null = null && item.Kind() != 'n'
		a.enumValue(item, k.types)
	}
	if null {
		a.text(`,null`)
	}
	a.dst = append(a.dst, ']')
}

func (a *assertionWriter) enumValue(n *openapi.Node, types []string) {
	if len(types) != 1 {
		a.value(n)
		return
	}
	kind := n.Kind()
	switch types[0] {
	case "string":
		if kind == '0' || kind == 't' || kind == 'f' {
			a.quote(string(n.Raw()))
			return
		}
	case "integer", "number":
		if text := n.Text(); isNumberText(text) {
			a.text(text)
			return
		}
	case "boolean":
		if text := n.Text(); text == "true" || text == "false" {
			a.text(text)
			return
		}
	}
	a.value(n)
}

// required appends the names that are strings, without duplicates and without properties
// that are left out.
func (a *assertionWriter) required(n *openapi.Node, hidden map[string]bool) {
	if n.Kind() != '[' {
		return // draft 3 used a boolean; the parent of the property lists it as well
	}
	start := len(a.dst)
	a.member("required")
	open := len(a.dst)
	a.names(n, hidden)
	if len(a.dst) == open+len(`[]`) {
		a.dst = a.dst[:start]
	}
}

// names appends an array of names without duplicates.
func (a *assertionWriter) names(n *openapi.Node, hidden map[string]bool) {
	a.dst = append(a.dst, '[')
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
			a.lost = true
			continue
		}
		if seen != nil {
			seen[name] = true
		}
		if !first {
			a.dst = append(a.dst, ',')
		}
		first = false
		a.value(item)
	}
	a.dst = append(a.dst, ']')
}

func (a *assertionWriter) dependentRequired(n *openapi.Node) {
	if n.Kind() != '{' {
		a.lost = true
		return
	}
	a.member("dependentRequired")
	a.nameLists(n)
}

func (a *assertionWriter) nameLists(n *openapi.Node) {
	a.dst = append(a.dst, '{')
	for _, m := range n.Members() {
		if m.Value.Kind() != '[' {
			continue
		}
		a.named(m.Name)
		a.names(m.Value, nil)
	}
	a.dst = append(a.dst, '}')
}
