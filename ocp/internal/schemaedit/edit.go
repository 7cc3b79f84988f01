// Package schemaedit changes JSON Schemas that are encoded: the schema of a tool's arguments object,
// and the schemas of its arguments.
package schemaedit

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// An Edit changes the schema of an object. Remove comes first, so the other members do not apply to
// removed properties. They use the names of the properties before Rename.
type Edit struct {
	Remove   []string                 // the properties to remove
	Add      []wire.Member            // the schemas of properties to add
	Rename   map[string]string        // new names of properties
	Set      map[string][]wire.Member // members that replace those of properties' schemas
	Optional []string                 // properties that are no longer required
	Required []string                 // properties that are required in addition
}

// Changes reports whether the edit changes anything.
func (e *Edit) Changes() bool {
	return len(e.Remove)+len(e.Add)+len(e.Rename)+len(e.Set)+len(e.Optional)+len(e.Required) > 0
}

// Apply returns the changed schema. If the schema is not an object, it is returned as it is.
func (e *Edit) Apply(object jsontext.Value) jsontext.Value {
	members, err := wire.Members(nil, object)
	if err != nil {
		return object
	}
	kept, hasRequired := []byte{'{'}, false
	for _, m := range members {
		switch m.Name {
		case "properties":
			kept = Append(kept, m.Name, e.properties(m.Value))
		case "required":
			hasRequired = true
			if required := e.required(m.Value); len(required) > len("[]") {
				kept = Append(kept, m.Name, required)
			}
		default:
			kept = Append(kept, m.Name, m.Value)
		}
	}
	if !hasRequired && len(e.Required) > 0 {
		kept = Append(kept, "required", e.required(jsontext.Value("[]")))
	}
	return append(kept, '}')
}

func (e *Edit) properties(all jsontext.Value) []byte {
	properties := []byte{'{'}
	members, _ := wire.Members(nil, all)
	for _, p := range members {
		if slices.Contains(e.Remove, p.Name) {
			continue
		}
		properties = Append(properties, e.name(p.Name), Set(p.Value, e.Set[p.Name]...))
	}
	for _, p := range e.Add {
		properties = Append(properties, p.Name, p.Value)
	}
	return append(properties, '}')
}

// name returns the new name of a property.
func (e *Edit) name(property string) string {
	if name, renamed := e.Rename[property]; renamed {
		return name
	}
	return property
}

func (e *Edit) required(list jsontext.Value) []byte {
	kept := []byte{'['}
	add := func(name string) {
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = wire.AppendString(kept, e.name(name))
	}
	var listed []string
	for walk := wire.Into(list); walk.Next(); {
		name := wire.Text(walk.Value)
		listed = append(listed, name)
		if !slices.Contains(e.Remove, name) && !slices.Contains(e.Optional, name) {
			add(name)
		}
	}
	for _, name := range e.Required {
		if !slices.Contains(listed, name) {
			add(name)
		}
	}
	return append(kept, ']')
}

// Set returns a schema with the members, which replace those with the same names.
func Set(schema jsontext.Value, set ...wire.Member) jsontext.Value {
	if len(set) == 0 {
		return schema
	}
	if schema.Kind() != '{' {
		schema = jsontext.Value("{}") // the equivalent of the schema true
	}
	members, err := wire.Members(nil, schema)
	if err != nil {
		return schema
	}
	changed := []byte{'{'}
	for _, m := range members {
		if !slices.ContainsFunc(set, func(s wire.Member) bool { return s.Name == m.Name }) {
			changed = Append(changed, m.Name, m.Value)
		}
	}
	for _, m := range set {
		changed = Append(changed, m.Name, m.Value)
	}
	return append(changed, '}')
}

// Annotate sets the description and the deprecation of a parameter in its schema, in place of
// those of the schema.
func Annotate(schema jsontext.Value, description string, deprecated bool) jsontext.Value {
	var set [2]wire.Member
	n := 0
	if description != "" {
		set[n] = wire.Member{Name: "description", Value: wire.AppendString(nil, description)}
		n++
	}
	if deprecated {
		set[n] = wire.Member{Name: "deprecated", Value: jsontext.Value("true")}
		n++
	}
	return Set(schema, set[:n]...)
}

// Const returns a schema that allows only the given value.
func Const(value jsontext.Value) jsontext.Value {
	return append(Append([]byte{'{'}, "const", value), '}')
}

// Append appends a member to an object that is not closed yet.
func Append(object []byte, name string, value []byte) []byte {
	if object[len(object)-1] != '{' {
		object = append(object, ',')
	}
	object = wire.AppendString(object, name)
	object = append(object, ':')
	return append(object, value...)
}
