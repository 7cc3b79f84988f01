package schema

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// annotationWriter writes the keywords that only describe.
type annotationWriter struct {
	*draft
	t *Translator
}

// keyword appends m if it is an annotation, and reports whether it is.
func (a *annotationWriter) keyword(p openapi.Place, m openapi.Member, k *keywordSummary) bool {
	kind := m.Value.Kind()
	if a.t.bare {
		return isAnnotation(m.Name)
	}
	switch m.Name {
	case "description":
		if kind == '"' {
			a.describe(m.Value)
		}
	case "title":
		a.keep(m, kind == '"')
	case "default":
		a.standard(p, m)
	case "deprecated", "readOnly", "writeOnly":
		a.keep(m, kind == 't')
	case "examples":
		a.examples(p, k.examples, m.Value.Items()...)
	case "example", "x-example":
		a.examples(p, !k.examples, m.Value)
	default:
		return false
	}
	return true
}

// standard appends a default.
func (a *annotationWriter) standard(p openapi.Place, m openapi.Member) {
	value, outside := defaultOf(m.Value, p)
	if !outside {
		a.member(m.Name)
		a.dst = append(a.dst, value...)
	} else if value.Kind() != 'n' {
		a.t.warnInput("%s: the default %s is left out, since the enum does not have it", a.part, text.Cut(string(value), text.MaxQuoted))
	}
}

// examples appends examples unless they are large, since they are only hints.
func (a *annotationWriter) examples(p openapi.Place, valid bool, examples ...*openapi.Node) {
	if list := Examples(p, examples...); valid && list != nil {
		a.member("examples")
		a.dst = append(a.dst, list...)
	}
}

// Examples returns the value of the keyword examples for the schema at place: those that are not large and have a type
// of the schema. It returns nil if there are none.
func Examples(place openapi.Place, examples ...*openapi.Node) jsontext.Value {
	list := jsontext.Value("[")
	for _, example := range examples {
		value := literalOf(example, place)
		if len(list)+len(value) > maxExample || !AllowsValue(Types(place), value) {
			continue
		}
		list = append(strictjson.Comma(list), value...)
	}
	if len(list) == 1 {
		return nil
	}
	return append(list, ']')
}

func (a *annotationWriter) describe(n *openapi.Node) {
	start := len(a.dst)
	a.member("description")
	a.value(n)
	a.described(start)
}

// described records a description that began at start. If it belongs to the whole
// component, a reference may replace it.
func (a *annotationWriter) described(start int) {
	if a.depth == 1 {
		a.about = span{start, len(a.dst)}
	}
}
