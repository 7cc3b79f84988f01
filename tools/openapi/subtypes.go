package openapi

import "strings"

// A Subtype is a schema that extends another one by allOf.
type Subtype struct {
	Place
	Name string // its name among the schemas of the file, "" if it has none
}

// Subtypes returns the schemas of the file that have a $ref to the base in their allOf, in document order. It
// returns nil if the file has no discriminators: there, allOf does not make a base stand for its subtypes.
func (f *File) Subtypes(base *Node) []Subtype {
	if f == nil || !f.discriminates {
		return nil
	}
	f.subtypesOnce.Do(func() {
		f.subtypes = make(map[*Node][]Subtype)
		f.collectSubtypes(f.Root, "", false, false)
	})
	return f.subtypes[base]
}

// collectSubtypes adds the schemas at n and below it. Names means that the author chose the names of the members;
// schemas means that the members are schemas with these names.
func (f *File) collectSubtypes(n *Node, name string, names, schemas bool) {
	if parts := n.Get("allOf"); parts.Kind() == '[' && !names {
		for _, part := range parts.Items() {
			ref := part.Get("$ref")
			if !strings.HasPrefix(ref.Text(), "#") {
				continue
			}
			if base, _, err := f.follow(ref); err == nil {
				f.subtypes[base.Node] = append(f.subtypes[base.Node], Subtype{Place{n, f}, name})
			}
		}
	}
	for _, m := range n.Members() {
		switch {
		case m.Value.branch == nil, !names && IsLiteral(m.Name):
		case names:
			own := ""
			if schemas {
				own = m.Name
			}
			f.collectSubtypes(m.Value, own, false, false)
		default:
			isSchemas := m.Name == "schemas" || m.Name == "definitions" || m.Name == "$defs"
			f.collectSubtypes(m.Value, "", isSchemas || m.Value.Kind() == '{' && NamesByAuthor(m.Name), isSchemas)
		}
	}
	for _, item := range n.Items() {
		if item.branch != nil {
			f.collectSubtypes(item, "", false, false)
		}
	}
}

// Schema returns the schema that the value of a discriminator's mapping leads to: the name of a schema of the file,
// or a reference (OpenAPI 3.1, Discriminator Object).
func (f *File) Schema(reference string) (Place, bool) {
	if f == nil {
		return Place{}, false
	}
	for _, prefix := range [...]string{"#/components/schemas/", "#/definitions/", ""} {
		if place, _, err := f.find(prefix + reference); err == nil {
			return place, true
		}
	}
	return Place{}, false
}
