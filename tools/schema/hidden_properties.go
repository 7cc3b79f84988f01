package schema

import (
	"github.com/fairwayhq/fairway/tools/openapi"
)

// hides reports whether a property is left out in this direction. Input leaves out
// read-only properties, output write-only ones. The property itself, or the schema that it
// refers to, can be marked.
func (t *Translator) hides(p openapi.Place) bool {
	flag := "readOnly"
	if t.direction == Output {
		flag = "writeOnly"
	}
	for range maxSteps {
		var ref *openapi.Node
		for _, m := range p.Members() {
			switch m.Name {
			case flag:
				if m.Value.True() {
					return true
				}
			case "$ref":
				ref = m.Value
			}
		}
		if !isRef(ref) {
			return false
		}
		to := t.target(p, ref)
		if to == nil {
			return false
		}
		p = to.place
	}
	return false
}

// hidden returns the names of the properties to leave out of the object that p describes,
// including those that the surrounding schemas hide. In an allOf, each part hides
// properties for all parts.
func (t *Translator) hidden(p openapi.Place, outer map[string]bool, allOf bool) map[string]bool {
	found := hiddenProperties{t: t, names: outer, shared: true, left: maxHiddenLook}
	found.collect(p, allOf)
	return found.names
}

// hiddenProperties collects the names of hidden properties.
type hiddenProperties struct {
	t      *Translator
	names  map[string]bool
	shared bool // names is shared and must be copied before a change
	left   int  // number of schemas that may still be searched
}

func (h *hiddenProperties) collect(p openapi.Place, allOf bool) {
	if h.left--; h.left < 0 {
		return
	}
	properties := p.At("properties")
	for _, m := range properties.Members() {
		if h.t.hides(properties.Item(m.Value)) {
			h.add(m.Name)
		}
	}
	if !allOf {
		return
	}
	parts := p.At("allOf")
	for _, item := range parts.Items() {
		part := parts.Item(item)
		for range maxSteps {
			ref := part.Get("$ref")
			if !isRef(ref) {
				break
			}
			to := h.t.target(part, ref)
			if to == nil {
				break
			}
			part = to.place
		}
		h.collect(part, true)
	}
}

func (h *hiddenProperties) add(name string) {
	if h.shared {
		names := make(map[string]bool, len(h.names)+1)
		for n := range h.names {
			names[n] = true
		}
		h.names, h.shared = names, false
	}
	h.names[name] = true
}

// isRef reports whether the value of a $ref is valid.
func isRef(ref *openapi.Node) bool {
	return ref.Kind() == '"' && len(ref.Raw()) > len(`""`)
}
