package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// Limits on the schemas and properties of one Object.
const (
	maxParts      = 256
	maxProperties = 10_000
)

// An Object is a schema as a flat list of properties, merged from its $ref and the parts
// of its allOf.
type Object struct {
	Description string
	Properties  []Property // in document order, with unique names, including hidden ones
	Additional  Additional

	// AdditionalPlace is the schema of additional properties if Additional is
	// AdditionalTyped.
	AdditionalPlace openapi.Place

	Nullable bool // null is allowed instead of the object
}

// A Property is one property of an Object.
type Property struct {
	Name      string
	Place     openapi.Place
	Required  bool
	ReadOnly  bool
	WriteOnly bool

	kinds  []string // values of the discriminator for which the object has the property; nil for all
	merged bool     // Place is a choice of the schemas of several properties
}

// Additional is the policy on properties that are not listed in an Object.
type Additional uint8

// The policies on additional properties.
const (
	AdditionalUnsaid    Additional = iota // any, because the document does not specify it
	AdditionalForbidden                   // none
	AdditionalAllowed                     // any, explicitly
	AdditionalTyped                       // properties that match AdditionalPlace
)

// ObjectOf returns a schema as a flat object. It returns false if that is not possible:
// another type, a choice or condition, a map without named properties, a recursive allOf,
// or too many parts. An object with a discriminator has the properties of all schemas that extend it.
func ObjectOf(place openapi.Place) (*Object, bool) {
	object := &Object{Description: Description(place)}
	merge := newMerging(object)
	place, ok := merge.withoutNull(place)
	if !ok || !merge.add(place) {
		return nil, false
	}
	if len(object.Properties) == 0 && object.Additional != AdditionalForbidden {
		return nil, false
	}
	for i := range object.Properties {
		p := &object.Properties[i]
		p.Required = merge.required[p.Name]
	}
	if object.Additional == AdditionalUnsaid || object.Additional == AdditionalForbidden {
		merge.undescribed()
	}
	return object, true
}

func newMerging(object *Object) *merging {
	return &merging{object: object, at: make(map[string]int), required: make(map[string]bool)}
}

// merging collects the properties of one Object.
type merging struct {
	object   *Object
	at       map[string]int // index of each property by name
	required map[string]bool
	names    []string        // the names in required, in document order
	inside   []*openapi.Node // the enclosing schemas
	nested   int             // number of enclosing allOfs
	extended int             // number of enclosing allOfs that extend what they combine
	parts    int
}

// withoutNull returns the other schema if p is an anyOf or oneOf of a schema and null.
// Otherwise it returns p.
func (m *merging) withoutNull(p openapi.Place) (openapi.Place, bool) {
	for range maxSteps {
		for _, keyword := range [...]string{"anyOf", "oneOf"} {
			arms := p.At(keyword)
			if len(arms.Items()) != 2 || p.Get("properties") != nil || p.Get("allOf") != nil {
				continue
			}
			null := slices.IndexFunc(arms.Items(), func(arm *openapi.Node) bool {
				return string(plainText(arm.Get("type"))) == "null" || isNullAlternative(arm)
			})
			if null >= 0 {
				m.object.Nullable = true
				return arms.Item(arms.Items()[1-null]), true
			}
		}
		if p.Ref() == "" || len(p.Members()) > 1 {
			return p, true
		}
		to, _, err := p.Follow()
		if err != nil {
			return p, false
		}
		p = to
	}
	return p, false
}

// add merges the schema p. It returns false if p cannot be part of a flat object.
func (m *merging) add(p openapi.Place) bool {
	if m.parts++; m.parts > maxParts || len(m.inside) > maxSteps || slices.Contains(m.inside, p.Node) {
		return false
	}
	switch {
	case p.Kind() == 't':
		return true
	case p.Kind() != '{':
		return false
	}
	m.inside = append(m.inside, p.Node)
	defer func() { m.inside = m.inside[:len(m.inside)-1] }()
	if m.extended == 0 {
		if f := inheritance(p); f != nil {
			return m.family(f, p)
		}
	}

	m.nullable(isNullable(p))
	if p.Ref() != "" {
		to, _, err := p.Follow()
		if err != nil || !m.add(to) {
			return false
		}
		if p.File != nil && p.File.Version30 {
			return true
		}
	}
	return m.keywords(p)
}

func (m *merging) keywords(p openapi.Place) bool {
	parts := p.At("allOf")
	m.nested++
	extending := len(parts.Items()) > 0 && extends(p)
	if extending {
		m.extended++
	}
	for _, part := range parts.Items() {
		if !m.add(parts.Item(part)) {
			return false
		}
	}
	if extending {
		m.extended--
	}
	m.nested--
	for _, member := range p.Members() {
		switch member.Name {
		case "type":
			types := statedTypes(member.Value)
			if types&objectType == 0 || types&^(objectType|nullType) != 0 && types != anyType {
				return false
			}
			m.nullable(types != anyType && types&nullType != 0)
		case "oneOf", "anyOf":
			if len(member.Value.Items()) > 0 {
				return false
			}
		case "not", "if", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies", "const", "enum",
			"unevaluatedProperties", "propertyNames":
			return false
		case "properties":
			if !m.properties(p.Item(member.Value)) {
				return false
			}
		case "required":
			for _, name := range member.Value.Items() {
				m.required[name.Text()] = true
				m.names = append(m.names, name.Text())
			}
		case "additionalProperties":
			m.additional(p.Item(member.Value))
		}
	}
	return true
}

// family merges a base and, as optional properties, those of the schemas that extend it. Properties of schemas that are no
// flat objects are left out.
func (m *merging) family(f *family, base openapi.Place) bool {
	if !m.keywords(base) {
		return false
	}
	object := m.object
	common := len(object.Properties)
	for i := range f.members {
		alone := newMerging(new(Object))
		if !alone.add(f.alone(i, base)) {
			object.Additional = AdditionalUnsaid
		}
		for _, p := range alone.object.Properties {
			at, known := m.at[p.Name]
			switch {
			case p.Name == f.property:
			case known:
				own := &object.Properties[at]
				own.or(p)
				own.kinds = append(slices.Clip(own.kinds), f.members[i].values...)
			case len(object.Properties) < maxProperties:
				p.Required, p.kinds = false, f.members[i].values
				m.at[p.Name] = len(object.Properties)
				object.Properties = append(object.Properties, p)
			}
		}
	}
	for i := common; i < len(object.Properties); i++ {
		p := &object.Properties[i]
		if note := f.note(p.kinds); note != "" {
			p.Place.Node = p.Place.With("description", openapi.Text(strings.TrimSpace(note+" "+Description(p.Place))))
		}
	}
	if at, known := m.at[f.property]; known {
		object.Properties[at].Place.Node = f.selector(object.Properties[at].Place)
	}
	return true
}

// or allows the values of another property with the same name.
func (p *Property) or(other Property) {
	if p.Place.Node == other.Place.Node || p.Place.File != other.Place.File || bytes.Equal(p.Place.AppendJSON(nil), other.Place.AppendJSON(nil)) {
		return
	}
	arms := slices.Clone(p.Place.Get("anyOf").Items())
	if !p.merged {
		arms = []*openapi.Node{p.Place.Node}
	}
	p.Place.Node, p.merged = nested(openapi.List(append(arms, other.Place.Node)...), "anyOf"), true
}

// nullable records that a schema allows null. A part of an allOf does not make the whole
// object nullable.
func (m *merging) nullable(yes bool) {
	m.object.Nullable = m.object.Nullable || yes && m.nested == 0
}

// properties merges properties. A repeated property keeps its position and gets the later
// schema, since later parts of an allOf refine earlier ones.
func (m *merging) properties(p openapi.Place) bool {
	for _, member := range p.Members() {
		i, known := m.at[member.Name]
		if !known {
			if i = len(m.object.Properties); i >= maxProperties {
				return false
			}
			m.at[member.Name] = i
			m.object.Properties = append(m.object.Properties, Property{Name: member.Name})
		}
		property := &m.object.Properties[i]
		property.Place = p.Item(member.Value)
		property.ReadOnly = property.ReadOnly || flagged(property.Place, "readOnly")
		property.WriteOnly = property.WriteOnly || flagged(property.Place, "writeOnly")
	}
	return true
}

// undescribed adds the required properties that have no schema: they take any value. They are optional, because many documents
// only misspell the name of another property. One that differs from another only in case is left out.
func (m *merging) undescribed() {
	for _, name := range m.names {
		misspelled := slices.ContainsFunc(m.object.Properties, func(p Property) bool { return strings.EqualFold(p.Name, name) })
		if !misspelled && name != "" && len(m.object.Properties) < maxProperties {
			m.at[name] = len(m.object.Properties)
			m.object.Properties = append(m.object.Properties, Property{Name: name})
		}
	}
}

// additional merges a policy. The outer policy, which is merged later, wins.
func (m *merging) additional(p openapi.Place) {
	switch p.Kind() {
	case 'f':
		m.object.Additional = AdditionalForbidden
	case 't':
		m.object.Additional = AdditionalAllowed
	case '{':
		m.object.Additional, m.object.AdditionalPlace = AdditionalTyped, p
		if len(p.Members()) == 0 {
			m.object.Additional = AdditionalAllowed
		}
	}
}

// flagged reports whether the named member of p, or of the target of its $ref, is true.
func flagged(p openapi.Place, name string) bool {
	for range maxSteps {
		if p.Get(name).True() {
			return true
		}
		if p.Ref() == "" {
			return false
		}
		to, _, err := p.Follow()
		if err != nil {
			return false
		}
		p = to
	}
	return false
}
