package schemaedit

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

// Definitions are the $defs of an object schema.
type Definitions []wire.Member

// ReadDefinitions returns the $defs of an object schema, or nil if it has none.
func ReadDefinitions(object jsontext.Value) Definitions {
	members, err := wire.Members(nil, object)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "$defs" {
			defs, err := wire.Members(nil, m.Value)
			if err != nil {
				return nil
			}
			return defs
		}
	}
	return nil
}

// Complete makes a schema self-contained: it adds the $defs that the schema refers to,
// directly or indirectly.
func (d Definitions) Complete(schema jsontext.Value) jsontext.Value {
	reached := make(map[string]bool)
	d.reach(schema, reached)
	if len(reached) == 0 {
		return schema
	}
	defs := []byte{'{'}
	for _, m := range d {
		if reached[m.Name] {
			defs = Append(defs, m.Name, m.Value)
		}
	}
	whole := bytes.Clone(schema[:len(schema)-1])
	whole = Append(whole, "$defs", append(defs, '}'))
	return append(whole, '}')
}

// reach marks the definitions that the text refers to, directly or indirectly.
func (d Definitions) reach(text []byte, reached map[string]bool) {
	for _, name := range references(text) {
		if reached[name] {
			continue
		}
		reached[name] = true
		for _, m := range d {
			if m.Name == name {
				d.reach(m.Value, reached)
			}
		}
	}
}

// references returns the names of the definitions that the text refers to.
func references(text []byte) (names []string) {
	for {
		start := bytes.Index(text, []byte(validate.RefPrefix))
		if start < 0 {
			return names
		}
		text = text[start+len(validate.RefPrefix):]
		end := bytes.IndexByte(text, '"')
		if end < 0 {
			return names
		}
		names = append(names, string(text[:end]))
		text = text[end:]
	}
}

// Prune returns an object schema without the $defs that nothing in it refers to.
func Prune(object jsontext.Value) jsontext.Value {
	defs := ReadDefinitions(object)
	if defs == nil {
		return object
	}
	members, err := wire.Members(nil, object)
	if err != nil {
		return object
	}
	kept := []byte{'{'}
	for _, m := range members {
		if m.Name != "$defs" {
			kept = Append(kept, m.Name, m.Value)
		}
	}
	return defs.Complete(append(kept, '}'))
}
