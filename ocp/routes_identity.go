package ocp

import (
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/ocp/internal/style"
)

// An identifier is a query parameter or header that distinguishes the requests of an
// operation from those of others with the same method and path.
type identifier struct {
	in     Location // InQuery or InHeader
	name   string   // of a header in canonical form
	values []string // decoded values that the request must have exactly; nil for any
}

// constantPairs parses the query in a path. A "%" that is not an escape and a ";" are
// text.
func constantPairs(query string) []style.Pair {
	pairs, err := style.ParsePairs(nil, style.Query, constantQuery(query))
	if err != nil {
		query = strings.ReplaceAll(query, "%", "%25")
		pairs, _ = style.ParsePairs(nil, style.Query, constantQuery(query))
	}
	return pairs
}

// constantQuery escapes the characters that are not valid in a query.
func constantQuery(query string) string {
	return escapeExcept(query, "-._~!$'()*+,:@/?%=&")
}

// planQuery records the query parameters in the tool's path.
func (t *toolBuilder) planQuery() {
	query := t.operation.ConstantQuery
	if _, err := style.ParsePairs(nil, style.Query, constantQuery(query)); err != nil {
		query = strings.ReplaceAll(query, "%", "%25")
	}
	t.tool.query = constantQuery(query)
}

// identity returns the identifiers of the tool: the query in its path, the parameters that
// the gateway fills with their only allowed value, and the required parameters.
func (t *toolBuilder) identity() (all []identifier) {
	for _, pair := range t.constants {
		all = addIdentifier(all, InQuery, pair.Name, pair.Value)
	}
	for i := range t.tool.all {
		a, plan := &t.tool.all[i], &t.tool.plans[i]
		switch {
		case a.In != InQuery && a.In != InHeader:
		case plan.filled:
			name, value := plan.sentAs(a)
			all = addIdentifier(all, a.In, name, value)
		case a.Required && len(a.types) > 0 && !slices.Contains(a.types, "object"):
			all = append(all, identifier{in: a.In, name: a.WireName})
		}
	}
	return all
}

func addIdentifier(all []identifier, in Location, name, value string) []identifier {
	for i := range all {
		if all[i].in == in && all[i].name == name {
			all[i].values = append(all[i].values, value)
			return all
		}
	}
	return append(all, identifier{in: in, name: name, values: []string{value}})
}

// sentAs returns the name and the decoded value of a query parameter, header or cookie
// that the gateway fills with a fixed value.
func (p *argumentPlan) sentAs(a *Argument) (name, value string) {
	text, err := p.param.Append(nil, p.fill)
	if err != nil {
		return a.WireName, "" // isSendable has checked this
	}
	if a.In == InQuery {
		if pairs, err := style.ParsePairs(nil, style.Query, string(text)); err == nil && len(pairs) == 1 {
			return pairs[0].Name, pairs[0].Value
		}
	}
	if a.In == InCookie {
		_, text, _ := strings.Cut(string(text), "=")
		return a.WireName, text
	}
	return a.WireName, string(text)
}

// isFixed reports whether requests must have the identifier with a certain value.
func (id *identifier) isFixed() bool { return id.values != nil }

// knows reports whether a request of the tool can have the identifier.
func (t *Tool) knows(id *identifier) bool {
	return slices.ContainsFunc(t.identity, func(own identifier) bool { return own.in == id.in && own.name == id.name }) ||
		slices.ContainsFunc(t.all, func(a Argument) bool {
			return a.In == id.in && (a.WireName == id.name || a.In == InQuery && (len(a.types) == 0 || slices.Contains(a.types, "object")))
		})
}

// fixes returns the value that the tool's requests must have for a query parameter or
// header, or nil if any value is allowed.
func (t *Tool) fixes(in Location, name string) []string {
	for i := range t.identity {
		if id := &t.identity[i]; id.in == in && id.name == name {
			return id.values
		}
	}
	return nil
}
