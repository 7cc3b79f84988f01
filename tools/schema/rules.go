package schema

import (
	"slices"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// appliesTo reports whether a keyword has an effect on values of the types. No types allow any value.
func appliesTo(keyword string, types []string) bool {
	if len(types) == 0 {
		return true
	}
	var names []string
	switch keyword {
	case "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties",
		"dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties":
		names = []string{"object"}
	case "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems":
		names = []string{"array"}
	case "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType", "contentSchema":
		names = []string{"string"}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		names = []string{"integer", "number"}
	default:
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(types, name) })
}

// unlisted reports whether a keyword is checked and not listed.
func (w *writer) unlisted(m openapi.Member, k *keywordSummary) bool {
	switch m.Name {
	case "pattern":
		return !isPortable(m.Value.Text())
	case "patternProperties", "additionalProperties", "unevaluatedProperties":
		return m.Value.Kind() != 't' && slices.ContainsFunc(k.patterns.Members(), func(p openapi.Member) bool {
			return !isPortable(p.Name) && w.t.patterns.compiles(p.Name)
		})
	}
	return false
}
