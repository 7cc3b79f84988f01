package content

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/schema"
)

// appendSchema appends a document's schema of the responses of a tool as an outputSchema. wrapped puts it into
// the property "result" of an object; objectOnly says that the revision allows only objects.
func appendSchema(dst []byte, rawSchema jsontext.Value, strict, wrapped, objectOnly bool) []byte {
	root, _ := schema.Parse(rawSchema)
	w := outputWriter{strict: strict, root: root}
	var object strictjson.ObjectBuilder
	switch {
	case wrapped:
		var properties strictjson.ObjectBuilder
		properties.Add("result", w.schema(root.Tree))
		object.Add("type", []byte(`"object"`))
		object.Add("properties", properties.Close())
		if strict {
			object.Add("required", []byte(`["result"]`))
		}
	case objectOnly:
		object.Add("type", []byte(`"object"`))
		w.keywords(&object, root.Tree, true)
	default:
		w.keywords(&object, root.Tree, false)
	}
	if defs := root.Parts("$defs"); defs != nil {
		object.Add("$defs", w.each(defs))
	}
	return append(dst, object.Close()...)
}

// An outputWriter writes a schema on which all validators agree. A client's validator may differ
// from this server's: it may not check formats, use another regular expression dialect, or support
// another draft.
//
//   - The strict form keeps only the keywords on which validators agree. It replaces or drops the others so that the schema accepts more: oneOf becomes anyOf.
//   - The loose form keeps only keywords that do not constrain values, and mentions types in the descriptions.
type outputWriter struct {
	root   *schema.Root
	strict bool
}

// schema returns a schema, always as an object: clients reject boolean schemas in properties.
func (w *outputWriter) schema(t *schema.Tree) []byte {
	var object strictjson.ObjectBuilder
	w.keywords(&object, t, false)
	return object.Close()
}

// keywords writes the members of a schema. A boolean schema has none: true accepts everything, and
// false is widened to that too. typed says that the type is already written.
func (w *outputWriter) keywords(object *strictjson.ObjectBuilder, t *schema.Tree, typed bool) {
	if !w.strict {
		w.describe(object, t)
	}
	for _, k := range t.Keywords {
		switch k.Name {
		case "title":
			object.Add(k.Name, k.Value)
		case "$ref":
			if name, ok := t.Ref(); ok && w.root.Definition(name) != nil { // validators reject other references
				object.Add(k.Name, k.Value)
			}
		case "properties":
			if k.Value.Kind() == '{' {
				object.Add(k.Name, w.each(k.Parts))
			}
		case "items":
			if t.Value("prefixItems") == nil && k.Value.Kind() == '{' {
				object.Add(k.Name, w.schema(k.Parts[0].Tree))
			}
		case "additionalProperties":
			switch {
			case t.Value("patternProperties") != nil: // left out, which changes the properties that this applies to
			case k.Value.Kind() == '{':
				object.Add(k.Name, w.schema(k.Parts[0].Tree))
			case k.Value.Kind() == 'f' && w.strict:
				object.Add(k.Name, k.Value)
			}
		case "allOf", "anyOf":
			w.list(object, k.Name, k.Parts)
		case "oneOf":
			if t.Value("anyOf") == nil {
				w.list(object, "anyOf", k.Parts)
			}
		case "type":
			if w.strict && !typed {
				object.Add(k.Name, k.Value)
			}
		case "description", "required", "enum", "const", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
			if w.strict {
				object.Add(k.Name, k.Value)
			}
		}
	}
}

// each returns an object of schemas.
func (w *outputWriter) each(parts []schema.Part) []byte {
	var object strictjson.ObjectBuilder
	for _, part := range parts {
		object.Add(part.Name, w.schema(part.Tree))
	}
	return object.Close()
}

// list writes a keyword whose value is an array of schemas. It omits an empty array, which is not
// a valid schema.
func (w *outputWriter) list(object *strictjson.ObjectBuilder, name string, parts []schema.Part) {
	if len(parts) == 0 {
		return
	}
	list := []byte{'['}
	for _, part := range parts {
		list = append(strictjson.Comma(list), w.schema(part.Tree)...)
	}
	object.Add(name, append(list, ']'))
}

// describe writes a description that includes the type.
func (w *outputWriter) describe(object *strictjson.ObjectBuilder, t *schema.Tree) {
	kind := strings.Join(t.Types(), " or ")
	if format := strictjson.Text(t.Value("format")); format != "" {
		kind = strings.TrimSpace(kind + " (" + format + ")")
	}
	if enum := t.Value("enum"); enum.Kind() == '[' && len(enum) <= maxListedEnum {
		kind = strings.TrimSpace(kind + ", one of " + string(enum[1:len(enum)-1]))
	}
	description := strictjson.Text(t.Value("description"))
	switch {
	case kind == "" && description == "":
		return
	case kind != "" && description != "":
		kind += ". "
	}
	object.Add("description", strictjson.AppendString(nil, kind+description))
}

// maxListedEnum is the maximum size of the enum values in a description, in bytes.
const maxListedEnum = 512
