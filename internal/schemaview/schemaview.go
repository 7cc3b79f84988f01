// Package schemaview reads the JSON Schemas of tools: JSON text as package ocp/internal/schema
// writes it, whose shared parts are in the $defs of the outermost schema, the root. It decodes
// only the names that it compares.
//
// Documents are not read with it. They keep their $refs, which may lead to other files, until
// package ocp/internal/schema translates them.
package schemaview

import (
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// MaxReferences is the maximum length of a chain of $refs.
const MaxReferences = 8

// definitionPrefix is the beginning of a $ref to a member of $defs.
const definitionPrefix = "#/$defs/"

// DefinitionName returns the name in $defs that a $ref leads to, or false if it leads elsewhere.
func DefinitionName(ref string) (name string, ok bool) {
	name, ok = strings.CutPrefix(ref, definitionPrefix)
	if !ok || !strings.ContainsAny(name, "%~") {
		return name, ok
	}
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name), true
}

// Follow returns the schema that the $ref of a schema leads to: nil if root does not define it.
// It returns false if the schema has no $ref to $defs.
func Follow(root, schema jsontext.Value) (target jsontext.Value, ok bool) {
	name, ok := DefinitionName(wire.Text(wire.MemberOf(schema, "$ref")))
	if !ok {
		return nil, false
	}
	return wire.MemberOf(wire.MemberOf(root, "$defs"), name), true
}

// Resolve follows the $refs of a schema. It returns nil if root does not define a target.
func Resolve(root, schema jsontext.Value) jsontext.Value {
	for range MaxReferences {
		target, ok := Follow(root, schema)
		if !ok {
			break
		}
		schema = target
	}
	return schema
}

// TypeNames yields the names in the keyword type, which is a string or an array of strings.
func TypeNames(schema jsontext.Value) iter.Seq[string] {
	return func(yield func(string) bool) {
		value := wire.MemberOf(schema, "type")
		if value.Kind() == '"' {
			yield(wire.Text(value))
			return
		}
		for walk := wire.Into(value); walk.Next(); {
			if !yield(wire.Text(walk.Value)) {
				return
			}
		}
	}
}

// IsAnnotation reports whether a keyword only describes: it does not affect validation.
func IsAnnotation(keyword string) bool {
	switch keyword {
	case "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment":
		return true
	}
	return false
}

// AppendWithout appends an object schema without the named properties.
func AppendWithout(dst []byte, schema jsontext.Value, names []string) []byte {
	if schema.Kind() != '{' {
		return append(dst, schema...)
	}
	dst = append(dst, '{')
	empty := len(dst)
	for walk := wire.Into(schema); walk.Next(); {
		value := walk.Value
		switch {
		case walk.Is("properties") && value.Kind() == '{':
			value = wire.AppendWithout([]byte{'{'}, value, func(w *wire.Walk) bool { return slices.Contains(names, wire.Text(w.Name)) })
			value = append(value, '}')
		case walk.Is("required") && value.Kind() == '[':
			value = wire.AppendWithout([]byte{'['}, value, func(w *wire.Walk) bool { return slices.Contains(names, wire.Text(w.Value)) })
			if value = append(value, ']'); len(value) == len("[]") {
				continue
			}
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, walk.Name...), ':'), value...)
	}
	return append(dst, '}')
}
