package schema

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// A rule is what model APIs or clients require of the schema of a tool's arguments. They refuse a tool, or all tools of
// a session, if a schema breaks it. A Translator writes schemas that keep all rules. Conform changes those of MCP servers.
type rule struct {
	name   string
	by     string // who refuses
	source string // a report with the error message

	// mend returns the keywords with which a schema keeps the rule. They are those of t if it keeps it.
	mend func(t *Tree, outermost bool) []Keyword
}

var rules = [...]rule{
	{"the outermost schema has no oneOf, anyOf, allOf, enum or not", "Anthropic, OpenAI", "github.com/anthropics/claude-code/issues/27337", mendOutermost},
	{"an array has items", "OpenAI, VS Code", "github.com/sigoden/aichat/pull/1049, github.com/microsoft/vscode/issues/257537", mendItems},
	{"an enum has each value once", "OpenAI, VS Code", "github.com/microsoft/vscode/issues/304673", mendEnum},
	{"Python and JavaScript compile each pattern", "OpenAI", "github.com/BerriAI/litellm/pull/40485", mendPatterns},
	{"keywords apply to the stated types", "Gemini", "github.com/googleapis/python-genai: only allowed for OBJECT type", func(t *Tree, _ bool) []Keyword {
		return without(t, func(k *Keyword) bool { return !appliesTo(k.Name, t.Types()) })
	}},
	{"each required name is a property", "Gemini", "the message: required[0]: property is not defined", mendRequired},
}

// Conform returns a schema of arguments that keeps the rules of model APIs and clients, and the names of those that it
// breaks. It accepts all that the schema accepts.
func Conform(schema jsontext.Value) (conforming jsontext.Value, broken []string) {
	root, err := Parse(schema)
	if err != nil {
		return schema, nil
	}
	outermost := root.Tree
	conforming = root.rewrite(nil, func(t *Tree) []Keyword {
		now := *t
		for i := range rules {
			mended := rules[i].mend(&now, t == outermost)
			if !slices.EqualFunc(mended, now.Keywords, func(a, b Keyword) bool {
				return a.Name == b.Name && a.shape == b.shape && string(a.Value) == string(b.Value) && slices.Equal(a.Parts, b.Parts)
			}) {
				broken = append(broken, rules[i].name)
			}
			now.Keywords = mended
		}
		return without(&now, refusesMore)
	})
	if broken == nil {
		return schema, nil
	}
	return conforming, broken
}

// refusesMore reports whether a keyword would refuse more if a schema in it is changed to keep the rules.
func refusesMore(k *Keyword) bool {
	return slices.Contains([]string{"not", "if", "contains", "oneOf"}, k.Name) && slices.ContainsFunc(k.Parts, func(p Part) bool {
		_, broken := Conform(p.Text)
		return broken != nil
	})
}

// without returns the keywords of a schema that are not left out.
func without(t *Tree, leftOut func(*Keyword) bool) []Keyword {
	return slices.DeleteFunc(slices.Clone(t.Keywords), func(k Keyword) bool { return leftOut(&k) })
}

// with returns the keywords of a schema with another one.
func with(t *Tree, k Keyword) []Keyword { return setKeyword(slices.Clone(t.Keywords), k) }

// mendOutermost lists the properties of the schemas that it leaves out beside those of the outermost schema.
func mendOutermost(t *Tree, outermost bool) []Keyword {
	if !outermost {
		return t.Keywords
	}
	properties := Keyword{Name: "properties", shape: named, Parts: slices.Clip(t.Parts("properties"))}
	kept := without(t, func(k *Keyword) bool {
		if !slices.Contains([]string{"oneOf", "anyOf", "allOf", "enum", "not"}, k.Name) {
			return false
		}
		for _, part := range k.Parts {
			for _, p := range part.Parts("properties") {
				if k.Name != "not" && !slices.ContainsFunc(properties.Parts, func(known Part) bool { return known.Name == p.Name }) {
					properties.Parts = append(properties.Parts, p)
				}
			}
		}
		return true
	})
	if len(properties.Parts) > len(t.Parts("properties")) {
		return setKeyword(kept, properties)
	}
	return kept
}

var anyValue = &Tree{Text: jsontext.Value("{}")}

func mendItems(t *Tree, _ bool) []Keyword {
	items := t.keyword("items")
	switch {
	case items != nil && items.Value.Kind() == '[': // the form of older drafts
		prefix := Keyword{Name: "prefixItems", shape: listed}
		for walk := strictjson.Into(items.Value); walk.Next(); {
			prefix.Parts = append(prefix.Parts, Part{Tree: new(treeParser).tree(walk.Value)})
		}
		rest := &Tree{Keywords: without(t, func(k *Keyword) bool { return k.Name == "items" || k.Name == "additionalItems" })}
		if len(prefix.Parts) > 0 && rest.keyword("prefixItems") == nil {
			rest.Keywords = append(rest.Keywords, prefix)
		}
		if further := t.Value("additionalItems"); further != nil {
			rest.Keywords = append(rest.Keywords, Keyword{Name: "items", shape: single, Parts: []Part{{Tree: new(treeParser).tree(further)}}})
		}
		return mendItems(rest, false)
	case items == nil && t.keyword("unevaluatedItems") == nil && slices.Contains(t.Types(), "array"):
		return with(t, Keyword{Name: "items", shape: single, Parts: []Part{{Tree: anyValue}}})
	}
	return t.Keywords
}

func mendEnum(t *Tree, _ bool) []Keyword {
	var values []byte
	count, seen := 0, make(map[string]bool)
	for walk := strictjson.Into(t.Value("enum")); walk.Next(); count++ {
		if key := equalityKey(walk.Value); !seen[key] {
			seen[key] = true
			values = append(append(values, ','), walk.Value...)
		}
	}
	if len(seen) == count {
		return t.Keywords
	}
	return with(t, Keyword{Name: "enum", Value: append(append([]byte{'['}, values[1:]...), ']')})
}

func mendPatterns(t *Tree, _ bool) []Keyword {
	refused := func(pattern string) bool { return !isPortable(pattern) || programSize(pattern) == 0 }
	names := slices.ContainsFunc(t.Parts("patternProperties"), func(p Part) bool { return refused(p.Name) })
	return without(t, func(k *Keyword) bool {
		switch k.Name {
		case "pattern":
			return refused(strictjson.Text(k.Value))
		case "patternProperties", "additionalProperties", "unevaluatedProperties":
			return names
		}
		return false
	})
}

// mendRequired gives each required name a property, unless another schema may have it.
func mendRequired(t *Tree, _ bool) []Keyword {
	for _, k := range t.Keywords {
		if len(k.Parts) > 0 && k.shape != plain && k.Name != "properties" && k.Name != "$defs" || k.Name == "$ref" {
			return t.Keywords
		}
	}
	properties := Keyword{Name: "properties", shape: named, Parts: slices.Clip(t.Parts("properties"))}
	for walk := strictjson.Into(t.Value("required")); walk.Next(); {
		if name := strictjson.Text(walk.Value); t.Property(name) == nil {
			properties.Parts = append(properties.Parts, Part{Name: name, Tree: anyValue})
		}
	}
	if len(properties.Parts) == len(t.Parts("properties")) || !slices.Contains(t.Types(), "object") {
		return t.Keywords
	}
	return with(t, properties)
}

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
func (b *patternBudget) unlisted(m openapi.Member, k *keywordSummary) bool {
	switch m.Name {
	case "pattern":
		return !isPortable(m.Value.Text())
	case "patternProperties", "additionalProperties", "unevaluatedProperties":
		return m.Value.Kind() != 't' && slices.ContainsFunc(k.patterns.Members(), func(p openapi.Member) bool {
			return !isPortable(p.Name) && b.compiles(p.Name)
		})
	}
	return false
}
