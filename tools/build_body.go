package tools

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// bodyBuilder makes the arguments of the request body of one operation.
type bodyBuilder struct {
	*toolBuilder
	files   map[string]build.FileUse // the properties of a multipart form that are files
	object  *schema.Object           // the body, if its properties are arguments
	example bodyExample
}

// addBody adds the arguments of the request body: one argument for each property of an
// object, or a single argument for the whole body.
func (t *bodyBuilder) addBody() error {
	if t.operation.Body == nil || len(t.operation.Body.Content) == 0 {
		return nil
	}
	media := build.PreferredBody(t.operation.Body.Content)
	object, flat := schema.ObjectOf(media.Schema)
	encoder, err := t.bodyEncoder(media, object)
	if err != nil {
		if t.operation.Body.Required {
			return err
		}
		t.warn(err.Error() + "; it is left out")
		return nil
	}
	if flat = flat && encoder.TakesObject(); !flat {
		object = nil
	}
	if flat && httpheader.MediaType(media.Type) == "multipart/form-data" {
		t.files = build.FileProperties(object)
	}
	t.plan.Body = &request.BodyPlan{Encoder: encoder, Required: t.operation.Body.Required, Whole: -1}
	if flat {
		t.example = exampleOf(media)
		fills := t.operation.Body.Required || slices.ContainsFunc(object.Properties, isRequiredChoice)
		t.plan.Arguments = slices.Grow(t.plan.Arguments, len(object.Properties))
		t.plan.Encodings = slices.Grow(t.plan.Encodings, len(object.Properties))
		for i := range object.Properties {
			t.addProperty(&object.Properties[i], fills)
		}
	} else {
		t.addWholeBody(media)
	}
	if choices := build.BodyTypes(t.operation.Body.Content, media); choices != nil {
		if err := t.addBodyType(choices); err != nil {
			return err
		}
	}
	t.object = object
	return nil
}

// fields returns how each property of a form is serialized.
func (t *bodyBuilder) fields(media *openapi.Media, object *schema.Object) map[string]request.Field {
	fields := make(map[string]request.Field)
	var names []string
	if object != nil && len(media.Encoding) > 0 {
		for _, p := range object.Properties {
			names = append(names, p.Name)
		}
	}
	for _, e := range media.Encoding {
		fields[e.Name] = request.Field{
			ContentType: e.ContentType, Style: request.Style(e.Style), Explode: e.Explode,
			AllowReserved: e.AllowReserved, HasStyle: e.HasStyle || e.HasExplode || e.AllowReserved,
			Reserved: names,
		}
	}
	if object == nil || httpheader.MediaType(media.Type) != "multipart/form-data" {
		return fields
	}
	files := build.FileProperties(object)
	for _, p := range object.Properties {
		if use := files[p.Name]; use != build.NoFile {
			field := fields[p.Name]
			field.File, field.FileOrText = use == build.DeclaredFile, use == build.LikelyFile
			fields[p.Name] = field
		}
	}
	return fields
}

// isRequiredChoice reports whether every body must have a value for the property that the
// caller chooses.
func isRequiredChoice(p schema.Property) bool {
	return p.Required && !p.ReadOnly && singleValue(true, p.Place) == nil
}

// addProperty adds an argument for a property. If fills is true and the document allows
// only one value, the gateway fills the argument. Fills is false for an optional body
// without other required properties: such a property is listed, because a caller that
// omits all other properties could not send the body otherwise.
func (t *bodyBuilder) addProperty(p *schema.Property, fills bool) {
	if p.ReadOnly {
		return
	}
	a := Argument{
		WireName:    p.Name,
		In:          InBody,
		Required:    p.Required && t.operation.Body.Required,
		Description: t.description(p.Place),
	}
	plan := request.Argument{NeededInBody: p.Required}
	if value := singleValue(p.Required && fills, p.Place); value != nil {
		plan.Filled, plan.Fill = true, value
		a.Schema = schema.Const(plan.Fill)
	} else {
		a.Schema = t.propertySchema(p)
	}
	t.addArgument(a, plan, p.Place)
	if t.files[p.Name] == build.LikelyFile {
		t.plan.Arguments[len(t.plan.Arguments)-1].types = []string{"object", "string"}
	}
}

// propertySchema translates the schema of a property. In multipart forms, a file is
// described as base64 content with a filename and a media type.
func (t *bodyBuilder) propertySchema(p *schema.Property) jsontext.Value {
	switch t.files[p.Name] {
	case build.DeclaredFile:
		text := t.fileSchema(p.Place)
		if _, many := build.IsFile(p.Place); many {
			text = `{"type":"array","items":` + text + `}`
		}
		return (&schema.InputSource{Description: schema.Description(p.Place)}).Annotate(jsontext.Value(text))
	case build.LikelyFile:
		return (&schema.InputSource{Description: schema.Description(p.Place)}).Annotate(jsontext.Value(`{"anyOf":[` + t.fileSchema(p.Place) + `,{"type":"string"}]}`))
	}
	return t.translateAs(p.Place, &schema.InputSource{Examples: t.example.of(p)})
}

// fileSchema returns the schema of a file. If callers can upload it, x-mcp-file (SEP-2631) has what the schema at the place says of
// its media type and its size.
func (t *bodyBuilder) fileSchema(place openapi.Place) string {
	if !t.options.Uploads {
		return request.FileSchema
	}
	var limits strictjson.ObjectBuilder
	resolved, _ := place.Resolve() // nothing after an error, which the schema reports
	if media := resolved.Get("contentMediaType"); media.Kind() == '"' {
		limits.Add("accept", slices.Concat([]byte("["), media.Raw(), []byte("]")))
	}
	if size := resolved.Get("maxLength"); size.Kind() == '0' {
		limits.Add("maxSize", size.Raw())
	}
	return `{"anyOf":[` + schema.UploadSchema + `,` + request.FileSchema + `,` + schema.HostFileSchema + `],"x-mcp-file":` + string(limits.Close()) + "}"
}

// description returns the description of a schema. Operations that share the schema also
// share the string.
func (s *toolSource) description(place openapi.Place) string {
	known, ok := s.descriptions[place.Node]
	if !ok {
		known = schema.Description(place)
		s.descriptions[place.Node] = known
	}
	return known
}

// translate returns the schema at the place.
func (t *toolBuilder) translate(place openapi.Place) jsontext.Value {
	return t.translateAs(place, new(schema.InputSource))
}

// translateAs returns the schema at the place with other annotations.
func (t *toolBuilder) translateAs(place openapi.Place, source *schema.InputSource) jsontext.Value {
	source.Schema = t.input.Translate(place)
	t.translated = source
	return source.Annotate(source.Schema.Text())
}

// takeSource assigns the latest translation to the argument at position i.
func (t *toolBuilder) takeSource(i int) {
	if t.translated != nil {
		t.sources[i], t.translated = t.translated, nil
	}
}

// openBody allows additional properties if the document clearly allows them in the body. If it does not say so, they are not listed.
func (t *bodyBuilder) openBody() {
	object := t.object
	switch object.Additional {
	case schema.AdditionalAllowed:
		t.closed = jsontext.Value("true")
	case schema.AdditionalTyped:
		t.closed = t.translate(object.AdditionalPlace)
		t.closedSource, t.translated = t.translated, nil
	case schema.AdditionalUnsaid:
		t.plan.Undeclared.Sent = t.plan.Method != http.MethodGet && t.plan.Method != http.MethodHead
	}
	t.plan.Undeclared.Open = t.closed[0] != 'f'
	for _, p := range object.Properties {
		if !t.names.Taken[p.Name] {
			t.plan.Undeclared.take(p.Name)
		}
	}
}

// addWholeBody makes the whole body a single argument.
func (t *bodyBuilder) addWholeBody(media *openapi.Media) {
	t.plan.Body.Whole = len(t.plan.Arguments)
	t.addArgument(Argument{
		In:          InBody,
		Required:    t.operation.Body.Required,
		Description: t.operation.Body.Description,
		Schema:      t.wholeSchema(media),
	}, request.Argument{NeededInBody: true}, media.Schema)
}

func (t *bodyBuilder) wholeSchema(media *openapi.Media) jsontext.Value {
	source := &schema.InputSource{Description: t.operation.Body.Description}
	switch kind := t.plan.Body.Encoder.Kind(); {
	case kind == request.Text || kind == request.XML:
		return source.Annotate(jsontext.Value(`{"type":"string"}`))
	case kind == request.Binary:
		return source.Annotate(jsontext.Value(t.fileSchema(media.Schema)))
	case media.Schema.Node == nil:
		return source.Annotate(jsontext.Value("{}"))
	}
	source.Examples = schema.Examples(media.Schema, examplesOf(media.Object, 1)...)
	return t.translateAs(media.Schema, source)
}

// bodyEncoder returns the encoder for the media type. If the type is a range, it records
// that Fairway guessed the format of the body.
func (t *bodyBuilder) bodyEncoder(media *openapi.Media, object *schema.Object) (*request.Encoder, error) {
	kind, isRange := build.RangeKind(media)
	if !isRange {
		return request.NewEncoder(media.Type, t.fields(media, object))
	}
	encoder, err := request.NewRangeEncoder(media.Type, kind)
	if err != nil {
		return nil, err
	}
	sentAs := "a file of any type"
	if kind == request.JSON {
		sentAs = "application/json"
	}
	t.guess("request body: the document declares only the range " + httpheader.MediaType(media.Type) + "; the body is sent as " + sentAs)
	return encoder, nil
}

// guess records a decision that Fairway made because the document leaves it open.
func (t *toolBuilder) guess(reason string) {
	t.report.Guesses = append(t.report.Guesses, Warning{Operation: t.tool.Operation(), Reason: reason})
}

// addBodyType adds the argument that chooses the media type of the body. The request
// carries it in the Content-Type header.
func (t *bodyBuilder) addBodyType(choices []*openapi.Media) error {
	content := t.plan.Body
	content.Encoders = make(map[string]*request.Encoder, len(choices))
	list := []byte{'['}
	for i, media := range choices {
		encoder := content.Encoder
		if i > 0 {
			var err error
			if encoder, err = request.NewEncoder(media.Type, nil); err != nil {
				return err
			}
			list = append(list, ',')
		}
		base := httpheader.MediaType(media.Type)
		content.Encoders[base] = encoder
		list = strictjson.AppendString(list, base)
	}
	standard := strictjson.AppendString(nil, httpheader.MediaType(choices[0].Type))
	const description = "The format of the request body, which says how the API applies it."
	text := []byte(`{"type":"string","enum":`)
	text = append(append(text, list...), `],"default":`...)
	text = append(append(text, standard...), `,"description":`...)
	text = append(strictjson.AppendString(text, description), '}')

	content.TypeArgument = len(t.plan.Arguments)
	t.addArgument(Argument{
		Name:        "content_type",
		WireName:    contentTypeHeader,
		In:          InHeader,
		Description: description,
		Schema:      text,
	}, request.Argument{Fill: jsontext.Value(standard)}, openapi.Place{})
	a := &t.plan.Arguments[content.TypeArgument]
	a.Default, a.types = standard, []string{"string"}
	t.own[content.TypeArgument] = ""
	t.plan.Encodings[content.TypeArgument].DropNull = true
	return nil
}

const contentTypeHeader = "Content-Type"
