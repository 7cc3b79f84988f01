package tools

import (
	"slices"

	"github.com/fairwayhq/fairway/tools/request"
)

// identity returns the identifiers of the tool: the query in its path, the parameters that
// the gateway fills with their only allowed value, and the required parameters.
func (t *toolBuilder) identity() (all []request.Identifier) {
	for _, pair := range t.constants {
		all = addIdentifier(all, request.Query, pair.Name, pair.Value)
	}
	for i := range t.plan.Arguments {
		a, planned := &t.plan.Arguments[i], &t.plan.Encodings[i]
		switch {
		case a.In != InQuery && a.In != InHeader:
		case planned.Filled:
			name, value := planned.SentAs(a.In, a.WireName)
			all = addIdentifier(all, a.In, name, value)
		case a.Required && len(a.types) > 0 && !slices.Contains(a.types, "object"):
			all = append(all, request.Identifier{In: a.In, Name: a.WireName})
		}
	}
	return all
}

func addIdentifier(all []request.Identifier, in request.In, name, value string) []request.Identifier {
	for i := range all {
		if all[i].In == in && all[i].Name == name {
			all[i].Values = append(all[i].Values, value)
			return all
		}
	}
	return append(all, request.Identifier{In: in, Name: name, Values: []string{value}})
}
