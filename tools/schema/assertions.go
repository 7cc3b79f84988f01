package schema

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// assertionWriter writes the keywords that validate a value without subschemas.
type assertionWriter struct {
	*draft
	patterns *patternBudget
}

// typed appends the type that the keywords type, nullable and format define.
func (a *assertionWriter) typed(k *keywordSummary) {
	types := k.types
	null := k.nullable && !slices.Contains(types, "null")
	switch {
	case len(types) == 1 && !null:
		a.member("type")
		a.dst = strictjson.AppendString(a.dst, types[0])
	case len(types) > 0:
		a.member("type")
		if null {
			types = append(slices.Clip(types), "null")
		}
		a.dst = strictjson.AppendStrings(a.dst, types)
	}
	if k.file && !k.encoded {
		a.member("contentEncoding")
		a.text(`"base64"`)
	}
}

// keyword appends m if it is an assertion without subschemas, and reports whether it is.
func (a *assertionWriter) keyword(m openapi.Member, k *keywordSummary, hidden map[string]bool) bool {
	n := m.Value
	switch m.Name {
	case "type", "$ref", "nullable":
	case "format":
		if n.Kind() == '"' && !k.file { // contentEncoding says that data is binary
			a.lost = true // it is not checked
			a.keep(m, true)
		}
	case "enum":
		a.enum(n, k)
	case "const":
		a.member(m.Name)
		a.dst = append(a.dst, literal(n, k.types)...)
	case "contentEncoding", "contentMediaType":
		a.keep(m, n.Kind() == '"')
	case "multipleOf":
		a.judge(m, isNumber(n) && isPositive(n))
	case "minimum", "maximum":
		if m.Name == "minimum" && k.exclusiveMinimum { // a boolean of OpenAPI 3.0
			m.Name = "exclusiveMinimum"
		}
		if m.Name == "maximum" && k.exclusiveMaximum {
			m.Name = "exclusiveMaximum"
		}
		a.judge(m, isNumber(n))
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

func (a *assertionWriter) count(m openapi.Member) {
	digits, valid := countDigits(m.Value)
	if !valid {
		a.lost = true
		return
	}
	a.member(m.Name)
	a.text(digits)
}

// enum appends an enum.
func (a *assertionWriter) enum(n *openapi.Node, k *keywordSummary) {
	values := enumValues(n, k.types, k.nullable)
	if len(values) == 0 {
		a.lost = true
		return
	}
	if k.nullable && !slices.ContainsFunc(values, func(v jsontext.Value) bool { return v.Kind() == 'n' }) {
		values = append(values, jsontext.Value("null"))
	}
	a.member("enum")
	for i, value := range values {
		a.dst = append(append(a.dst, "[,"[min(i, 1)]), value...)
	}
	a.dst = append(a.dst, ']')
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
	var names []string
	seen := make(map[string]bool, len(n.Items()))
	for _, item := range n.Items() {
		name := item.Text()
		if item.Kind() != '"' || seen[name] {
			continue
		}
		if hidden[name] {
			a.lost = true
			continue
		}
		seen[name] = true
		names = append(names, name)
	}
	a.dst = strictjson.AppendStrings(a.dst, names)
}

// dependentRequired appends the members of n that are lists of names.
func (a *assertionWriter) dependentRequired(n *openapi.Node) {
	if n.Kind() != '{' {
		a.lost = true
		return
	}
	a.member("dependentRequired")
	a.text(`{`)
	for _, m := range n.Members() {
		if m.Value.Kind() == '[' {
			a.member(m.Name)
			a.names(m.Value, nil)
		}
	}
	a.text(`}`)
}
