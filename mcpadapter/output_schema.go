package mcpadapter

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// appendOutputSchema appends a tool's outputSchema, if it is to be listed.
func (s *Server) appendOutputSchema(dst []byte, tool *ocp.Tool, v revision) []byte {
	o := s.outputOf(tool, v)
	if !o.listed {
		return dst
	}
	w := outputWriter{strict: o.strict, dst: append(dst, `,"outputSchema":{`...)}
	defs := member(tool.Answer.Schema, "$defs")
	w.defs = defs
	switch {
	case o.wrapped:
		w.dst = append(w.dst, `"type":"object","properties":{"result":`...)
		w.schema(tool.Answer.Schema)
		w.dst = append(w.dst, '}')
		if o.strict {
			w.dst = append(w.dst, `,"required":["result"]`...)
		}
	case v.describesObjects():
		w.dst = append(w.dst, `"type":"object"`...)
		w.untyped = true
		w.keywords(tool.Answer.Schema)
	default:
		w.keywords(tool.Answer.Schema)
	}
	if defs.Kind() == '{' {
		w.key("$defs")
		w.each(defs)
	}
	return append(w.dst, '}')
}

// An outputWriter writes a schema so that every validator judges alike what passes
// here. A client has another one than this server, which may know formats as no
// more than remarks, patterns in another dialect, or keywords of another draft
// only. So the strict form has the keywords on which all agree, and turns what
// would say more without the others, such as oneOf, into what says less. The loose
// form has those that say nothing of a value, and the types as part of the
// descriptions.
type outputWriter struct {
	dst     []byte
	defs    jsontext.Value
	strict  bool
	untyped bool // the type of the outermost schema is written
}

// key begins a member.
func (w *outputWriter) key(name string) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(append(append(w.dst, '"'), name...), `":`...)
}

// schema writes a schema. In properties clients take objects only.
func (w *outputWriter) schema(schema jsontext.Value) {
	w.dst = append(w.dst, '{')
	w.keywords(schema)
	w.dst = append(w.dst, '}')
}

// keywords writes the members of a schema. Booleans have none: true demands
// nothing, and that nothing fits false is not for a client to judge.
func (w *outputWriter) keywords(schema jsontext.Value) {
	outermost := w.untyped
	w.untyped = false
	if !w.strict {
		w.describe(schema)
	}
	patterns, tuple, anyOf := hasMember(schema, "patternProperties"), hasMember(schema, "prefixItems"), hasMember(schema, "anyOf")
	for walk := wire.Into(schema); walk.Next(); {
		name := text(walk.Name)
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

// each writes the schemas of an object.
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

// additional writes additionalProperties, if it speaks of the same properties
// without the keywords that are left out.
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

// refers reports whether a $ref leads somewhere: to one that does not, validators
// refuse to be made.
func (w *outputWriter) refers(ref jsontext.Value) bool {
	name, ok := strings.CutPrefix(text(ref), "#/$defs/")
	return ok && member(w.defs, name) != nil
}

// describe writes a description that has the type in it.
func (w *outputWriter) describe(schema jsontext.Value) {
	kind := text(member(schema, "type"))
	for walk := wire.Into(member(schema, "type")); walk.Next(); {
		if kind != "" {
			kind += " or "
		}
		kind += text(walk.Value)
	}
	if format := text(member(schema, "format")); format != "" {
		kind = strings.TrimSpace(kind + " (" + format + ")")
	}
	if enum := member(schema, "enum"); enum.Kind() == '[' && len(enum) <= maxListedEnum {
		kind = strings.TrimSpace(kind + ", one of " + string(enum[1:len(enum)-1]))
	}
	description := text(member(schema, "description"))
	switch {
	case kind == "" && description == "":
		return
	case kind != "" && description != "":
		kind += ". "
	}
	w.key("description")
	w.dst = wire.AppendString(w.dst, kind+description)
}

// maxListedEnum is how many bytes of values a description lists.
const maxListedEnum = 512
