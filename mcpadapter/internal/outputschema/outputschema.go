// Package outputschema declares the outputSchema of tools and encodes results accordingly. The
// outputSchema is the schema of the API's document, reduced to what clients' validators agree on.
package outputschema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/schemaview"
	"github.com/fairwayhq/fairway/internal/wire"
)

// appendSchema appends a document's schema of the responses of a tool as an outputSchema. wrapped puts it into
// the property "result" of an object; objectOnly says that the revision allows only objects.
func appendSchema(dst []byte, schema jsontext.Value, strict, wrapped, objectOnly bool) []byte {
	defs := wire.MemberOf(schema, "$defs")
	w := outputWriter{strict: strict, defs: defs, dst: append(dst, '{')}
	switch {
	case wrapped:
		w.dst = append(w.dst, `"type":"object","properties":{"result":`...)
		w.schema(schema)
		w.dst = append(w.dst, '}')
		if strict {
			w.dst = append(w.dst, `,"required":["result"]`...)
		}
	case objectOnly:
		w.dst = append(w.dst, `"type":"object"`...)
		w.untyped = true
		w.keywords(schema)
	default:
		w.keywords(schema)
	}
	if defs.Kind() == '{' {
		w.key("$defs")
		w.each(defs)
	}
	return append(w.dst, '}')
}

// An outputWriter writes a schema on which all validators agree. A client's validator may differ
// from this server's: it may not check formats, use another regular expression dialect, or support
// another draft.
//
//   - The strict form keeps only the keywords on which validators agree. It replaces or drops the others so that the schema accepts more: oneOf becomes anyOf.
//   - The loose form keeps only keywords that do not constrain values, and mentions types in the descriptions.
type outputWriter struct {
	dst     []byte
	defs    jsontext.Value
	strict  bool
	untyped bool // whether the type of the outermost schema is already written
}

// key starts a member.
func (w *outputWriter) key(name string) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(append(append(w.dst, '"'), name...), `":`...)
}

// schema writes a schema, always as an object: clients reject boolean schemas in properties.
func (w *outputWriter) schema(schema jsontext.Value) {
	w.dst = append(w.dst, '{')
	w.keywords(schema)
	w.dst = append(w.dst, '}')
}

// keywords writes the members of a schema. A boolean schema has none: true accepts everything, and
// false is widened to that too.
func (w *outputWriter) keywords(schema jsontext.Value) {
	outermost := w.untyped
	w.untyped = false
	if !w.strict {
		w.describe(schema)
	}
	patterns, tuple, anyOf := wire.HasMember(schema, "patternProperties"), wire.HasMember(schema, "prefixItems"), wire.HasMember(schema, "anyOf")
	for walk := wire.Into(schema); walk.Next(); {
		name := wire.Text(walk.Name)
		switch name {
		case "title":
			w.copy(name, walk.Value)
		case "description":
			if w.strict {
				w.copy(name, walk.Value)
			}
		case "$ref":
			if w.refers(walk.Value) {
				w.copy(name, walk.Value)
			}
		case "properties":
			if walk.Value.Kind() == '{' {
				w.key(name)
				w.each(walk.Value)
			}
		case "items":
			if !tuple && walk.Value.Kind() == '{' {
				w.key(name)
				w.schema(walk.Value)
			}
		case "additionalProperties":
			w.additional(walk.Value, patterns)
		case "allOf", "anyOf":
			w.list(name, walk.Value)
		case "oneOf":
			if !anyOf {
				w.list("anyOf", walk.Value)
			}
		case "type":
			if w.strict && !outermost {
				w.copy(name, walk.Value)
			}
		case "required", "enum", "const", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
			if w.strict {
				w.copy(name, walk.Value)
			}
		}
	}
}

func (w *outputWriter) copy(name string, value jsontext.Value) {
	w.key(name)
	w.dst = append(w.dst, value...)
}

// each writes the schemas that are the members of an object.
func (w *outputWriter) each(schemas jsontext.Value) {
	w.dst = append(w.dst, '{')
	for walk := wire.Into(schemas); walk.Next(); {
		if w.dst[len(w.dst)-1] != '{' {
			w.dst = append(w.dst, ',')
		}
		w.dst = append(append(w.dst, walk.Name...), ':')
		w.schema(walk.Value)
	}
	w.dst = append(w.dst, '}')
}

// list writes a keyword whose value is an array of schemas. It omits an empty array, which is not
// a valid schema.
func (w *outputWriter) list(name string, schemas jsontext.Value) {
	if schemas.Kind() != '[' || string(bytes.TrimSpace(schemas[1:len(schemas)-1])) == "" {
		return
	}
	w.key(name)
	w.dst = append(w.dst, '[')
	first := true
	for walk := wire.Into(schemas); walk.Next(); first = false {
		if !first {
			w.dst = append(w.dst, ',')
		}
		w.schema(walk.Value)
	}
	w.dst = append(w.dst, ']')
}

// additional writes additionalProperties, unless patternProperties, which is left out, changes which
// properties it applies to.
func (w *outputWriter) additional(value jsontext.Value, patterns bool) {
	switch {
	case patterns:
	case value.Kind() == '{':
		w.key("additionalProperties")
		w.schema(value)
	case value.Kind() == 'f' && w.strict:
		w.copy("additionalProperties", value)
	}
}

// refers reports whether the target of a $ref exists. Validators reject a schema with a dangling
// $ref.
func (w *outputWriter) refers(ref jsontext.Value) bool {
	name, ok := schemaview.DefinitionName(wire.Text(ref))
	return ok && wire.MemberOf(w.defs, name) != nil
}

// describe writes a description that includes the type.
func (w *outputWriter) describe(schema jsontext.Value) {
	kind := strings.Join(slices.Collect(schemaview.TypeNames(schema)), " or ")
	if format := wire.Text(wire.MemberOf(schema, "format")); format != "" {
		kind = strings.TrimSpace(kind + " (" + format + ")")
	}
	if enum := wire.MemberOf(schema, "enum"); enum.Kind() == '[' && len(enum) <= maxListedEnum {
		kind = strings.TrimSpace(kind + ", one of " + string(enum[1:len(enum)-1]))
	}
	description := wire.Text(wire.MemberOf(schema, "description"))
	switch {
	case kind == "" && description == "":
		return
	case kind != "" && description != "":
		kind += ". "
	}
	w.key("description")
	w.dst = wire.AppendString(w.dst, kind+description)
}

// maxListedEnum is the maximum size of the enum values in a description, in bytes.
const maxListedEnum = 512
