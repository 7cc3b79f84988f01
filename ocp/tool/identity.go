package tool

import (
	"slices"

	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/style"
)

// identity returns the identifiers of the tool: the query in its path, the parameters that
// the gateway fills with their only allowed value, and the required parameters.
func (t *toolBuilder) identity() (all []plan.Identifier) {
	for _, pair := range t.constants {
		all = addIdentifier(all, style.Query, pair.Name, pair.Value)
	}
	for i := range t.tool.all {
		a, planned := &t.tool.all[i], &t.tool.plans[i]
		switch {
		case a.In != InQuery && a.In != InHeader:
		case planned.Filled:
			name, value := planned.SentAs(style.In(a.In), a.WireName)
			all = addIdentifier(all, style.In(a.In), name, value)
		case a.Required && len(a.types) > 0 && !slices.Contains(a.types, "object"):
			all = append(all, plan.Identifier{In: style.In(a.In), Name: a.WireName})
		}
	}
	return all
}

func addIdentifier(all []plan.Identifier, in style.In, name, value string) []plan.Identifier {
	for i := range all {
		if all[i].In == in && all[i].Name == name {
			all[i].Values = append(all[i].Values, value)
			return all
		}
	}
	return append(all, plan.Identifier{In: in, Name: name, Values: []string{value}})
}
