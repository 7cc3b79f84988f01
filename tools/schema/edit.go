package schema

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// An Edit changes the schema of an object. Remove comes first, so the other members do not apply to
// removed properties. They use the names of the properties before Rename.
type Edit struct {
	Remove   []string                       // the properties to remove
	Add      []strictjson.Member            // the schemas of properties to add
	Rename   map[string]string              // new names of properties
	Set      map[string][]strictjson.Member // members that replace those of properties' schemas
	Optional []string                       // properties that are no longer required
	Required []string                       // properties that are required in addition
}

// Changes reports whether the edit changes anything.
func (e *Edit) Changes() bool {
	return len(e.Remove)+len(e.Add)+len(e.Rename)+len(e.Set)+len(e.Optional)+len(e.Required) > 0
}

// Apply returns the changed schema. If the schema is not an
// object, it is returned as it is.
func (e *Edit) Apply(object jsontext.Value) jsontext.Value {
	root, err := Parse(object)
	if err != nil || object.Kind() != '{' {
		return object
	}
	required := e.required(root)
	var changed strictjson.ObjectBuilder
	for _, k := range root.Keywords {
		switch k.Name {
		case "properties":
			changed.Add(k.Name, e.properties(k.Parts))
		case "required":
			if len(required) > 0 {
				changed.Add(k.Name, strictjson.AppendStrings(nil, required))
			}
		default:
			changed.Add(k.Name, k.Value)
		}
	}
	if root.Value("properties") == nil && len(e.Add) > 0 {
		changed.Add("properties", e.properties(nil))
	}
	if root.Value("required") == nil && len(required) > 0 {
		changed.Add("required", strictjson.AppendStrings(nil, required))
	}
	return changed.Close()
}

func (e *Edit) properties(all []Part) []byte {
	var properties strictjson.ObjectBuilder
	for _, p := range all {
		if !slices.Contains(e.Remove, p.Name) {
			properties.Add(e.name(p.Name), SetMembers(p.Text, e.Set[p.Name]...))
		}
	}
	for _, p := range e.Add {
		properties.Add(p.Name, p.Value)
	}
	return properties.Close()
}

// name returns the new name of a property.
func (e *Edit) name(property string) string {
	if name, renamed := e.Rename[property]; renamed {
		return name
	}
	return property
}

// required returns the new names of the required properties.
func (e *Edit) required(root *Root) (names []string) {
	var listed []string
	if list := root.Value("required"); list.Kind() == '[' {
		for walk := strictjson.Into(list); walk.Next(); {
			listed = append(listed, strictjson.Text(walk.Value))
		}
	}
	for _, name := range listed {
		if !slices.Contains(e.Remove, name) && !slices.Contains(e.Optional, name) {
			names = append(names, e.name(name))
		}
	}
	for _, name := range e.Required {
		if !slices.Contains(listed, name) {
			names = append(names, e.name(name))
		}
	}
	return names
}

// Prune returns a schema without the $defs that nothing in it refers to.
func Prune(object jsontext.Value) jsontext.Value {
	root, err := Parse(object)
	if err != nil {
		return object
	}
	return root.Complete(root.Tree)
}

// SetMembers returns a schema with the members, which replace those with the same names.
func SetMembers(schema jsontext.Value, set ...strictjson.Member) jsontext.Value {
	if len(set) == 0 {
		return schema
	}
	changed := append(make(jsontext.Value, 0, len(schema)+setRoom), '{')
	for walk := strictjson.Into(schema); schema.Kind() == '{' && walk.Next(); { // otherwise it is the schema true
		name := walk.Key()
		if !slices.ContainsFunc(set, func(s strictjson.Member) bool { return s.Name == string(name) }) {
			changed = append(appendName(changed, string(name)), walk.Value...)
		}
	}
	for _, m := range set {
		changed = append(appendName(changed, m.Name), m.Value...)
	}
	return append(changed, '}')
}

// setRoom is the usual room for the members that SetMembers adds, in bytes.
const setRoom = 128

// Const returns a schema that allows only the given value.
func Const(value jsontext.Value) jsontext.Value {
	return append(append([]byte(`{"const":`), value...), '}')
}
