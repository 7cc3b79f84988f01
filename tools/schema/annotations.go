package schema

import (
	"github.com/fairwayhq/fairway/tools/openapi"
)

// annotationWriter writes the keywords that only describe.
type annotationWriter struct {
	*draft
	bare bool // leave them out
}

// keyword appends m if it is an annotation, and reports whether it is.
func (a *annotationWriter) keyword(m openapi.Member, k *keywordSummary) bool {
	kind := m.Value.Kind()
	if a.bare {
		return IsAnnotation(m.Name)
	}
	switch m.Name {
	case "description":
		if kind == '"' {
			a.describe(m.Value)
		}
	case "title":
		a.keep(m, kind == '"')
	case "default":
		a.keep(m, true)
	case "deprecated", "readOnly", "writeOnly":
		a.keep(m, kind == 't')
	case "examples":
		a.examples(m.Value, kind == '[' && k.examples, "", "")
	case "example":
		a.examples(m.Value, !k.examples, "[", "]")
	default:
		return false
	}
	return true
}

// examples appends examples unless they are large, since they are only hints.
func (a *annotationWriter) examples(n *openapi.Node, valid bool, before, after string) {
	if !valid {
		return
	}
	start := len(a.dst)
	a.member("examples")
	a.text(before)
	a.value(n)
	a.text(after)
	if len(a.dst)-start > maxExample {
		a.dst = a.dst[:start]
	}
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
