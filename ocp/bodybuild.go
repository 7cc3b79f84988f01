package ocp

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/ocp/body"
	"github.com/fairwayhq/fairway/ocp/openapi"
	"github.com/fairwayhq/fairway/ocp/schema"
	"github.com/fairwayhq/fairway/ocp/style"
)

// addBody makes the request body arguments: the properties of an object, or one
// argument for the whole.
func (t *toolBuilder) addBody() error {
	if t.operation.Body == nil || len(t.operation.Body.Content) == 0 {
		return nil
	}
	media := preferred(t.operation.Body.Content)
	object, flat := schema.ObjectOf(media.Schema)
	encoder, err := body.New(media.Type, t.fields(media, object))
	if err != nil {
		if t.operation.Body.Required {
			return err
		}
		t.warn(Warning{Operation: t.tool.where(), Reason: err.Error() + "; it is left out"})
		return nil
	}
	if flat = flat && encoder.TakesObject(); !flat {
		object = nil
	}
	t.tool.body = &bodyPlan{encoder: encoder, required: t.operation.Body.Required, whole: -1}
	if !flat {
		t.addWholeBody(media)
		return nil
	}
	for i := range object.Properties {
		t.addProperty(&object.Properties[i], media)
	}
	t.openBody(object)
	return nil
}

// preferred returns the media type that says most about a body, JSON first.
func preferred(content []openapi.Media) *openapi.Media {
	best := &content[0]
	for i := range content {
		if rank(content[i].Type) < rank(best.Type) {
			best = &content[i]
		}
	}
	return best
}

func rank(contentType string) int {
	switch m := mediaType(contentType); {
	case m == "application/json":
		return 0
	case strings.HasSuffix(m, "+json") || m == "*/*" || m == "application/*":
		return 1
	case m == "application/x-www-form-urlencoded":
		return 2
	case m == "multipart/form-data":
		return 3
	case strings.HasPrefix(m, "text/"):
		return 4
	}
	return 5
}

// fields says how the properties of a form are written.
func (t *toolBuilder) fields(media *openapi.Media, object *schema.Object) map[string]body.Field {
	fields := make(map[string]body.Field)
	var names []string
	if object != nil && len(media.Encoding) > 0 {
		for _, p := range object.Properties {
			names = append(names, p.Name)
		}
	}
	for _, e := range media.Encoding {
		fields[e.Name] = body.Field{
			ContentType: e.ContentType, Style: style.Style(e.Style), Explode: e.Explode,
			AllowReserved: e.AllowReserved, HasStyle: e.HasStyle || e.HasExplode || e.AllowReserved,
			Reserved: names,
		}
	}
	if object == nil || mediaType(media.Type) != "multipart/form-data" {
		return fields
	}
	for _, p := range object.Properties {
		if file, _ := isFile(p.Place); file {
			field := fields[p.Name]
			field.File = true
			fields[p.Name] = field
		}
	}
	return fields
}

// isFile reports whether a property is a file, or an array of files.
func isFile(place openapi.Place) (file, many bool) {
	if schema.IsFile(place) {
		return true, false
	}
	resolved, err := place.Resolve()
	if err != nil || resolved.Get("items") == nil {
		return false, false
	}
	return schema.IsFile(resolved.At("items")), true
}

func (t *toolBuilder) addProperty(p *schema.Property, media *openapi.Media) {
	if p.ReadOnly {
		return
	}
	t.addArgument(Argument{
		WireName:    p.Name,
		In:          InBody,
		Required:    p.Required && t.operation.Body.Required,
		Description: schema.Description(p.Place),
		Schema:      t.propertySchema(p.Place, media),
	}, argumentPlan{neededInBody: p.Required}, p.Place)
}

// propertySchema translates a property; in multipart forms a file becomes its
// bytes in base64 with a name and a type.
func (t *toolBuilder) propertySchema(place openapi.Place, media *openapi.Media) jsontext.Value {
	if file, many := isFile(place); file && mediaType(media.Type) == "multipart/form-data" {
		text := jsontext.Value(body.FileSchema)
		if many {
			text = jsontext.Value(`{"type":"array","items":` + body.FileSchema + `}`)
		}
		return annotate(text, schema.Description(place), false)
	}
	return t.translate(place)
}

// translate returns the schema at the place, and sees to the $defs it needs.
func (t *toolBuilder) translate(place openapi.Place) jsontext.Value {
	translated := t.input.Translate(place)
	t.shared = append(t.shared, translated)
	return translated.AppendTo(nil)
}

// openBody lets further properties through where the document plainly says that
// the body takes them.
func (t *toolBuilder) openBody(object *schema.Object) {
	switch object.Additional {
	case schema.AdditionalAllowed:
		t.closed = jsontext.Value("true")
	case schema.AdditionalTyped:
		t.closed = t.translate(object.AdditionalPlace)
	default:
		return
	}
	t.tool.openBody = true
	t.tool.taken = make(map[string]bool)
	for _, p := range object.Properties {
		if _, argument := t.tool.index[p.Name]; !argument {
			t.tool.taken[p.Name] = true
		}
	}
}

// addWholeBody makes the body one argument.
func (t *toolBuilder) addWholeBody(media *openapi.Media) {
	t.tool.body.whole = len(t.tool.Arguments)
	t.addArgument(Argument{
		In:          InBody,
		Required:    t.operation.Body.Required,
		Description: t.operation.Body.Description,
		Schema:      annotate(t.wholeSchema(media), t.operation.Body.Description, false),
	}, argumentPlan{neededInBody: true}, media.Schema)
}

func (t *toolBuilder) wholeSchema(media *openapi.Media) jsontext.Value {
	switch kind := t.tool.body.encoder.Kind(); {
	case kind == body.Text || kind == body.XML:
		return jsontext.Value(`{"type":"string"}`)
	case kind == body.Binary:
		return jsontext.Value(body.FileSchema)
	case media.Schema.Node == nil:
		return jsontext.Value("{}")
	}
	return t.translate(media.Schema)
}
