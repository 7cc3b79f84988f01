package openapi

import (
	"cmp"
	"slices"
	"strings"
)

const (
	jsonType       = "application/json"
	urlencodedType = "application/x-www-form-urlencoded"
	multipartType  = "multipart/form-data"
)

// maxKeywords is the maximum number of members of a parameter that become part of its schema.
const maxKeywords = 100

// A swaggerReader reads the parameters, the body and the responses of an operation of
// Swagger 2.0.
type swaggerReader struct {
	*ledger
	parameters parameterReader
	contents   contentReader
	operation  Place
	root       Place // of the document
}

// split returns the parameters, and the request body that the parameters in body and
// formData make.
func (r *swaggerReader) split(declared []declaration) (parameters []Parameter, body *Body) {
	var bodies, fields []declaration
	for _, d := range declared {
		switch d.in {
		case "body":
			bodies = append(bodies, d)
		case "formData":
			fields = append(fields, d)
		default:
			parameters = append(parameters, r.parameter(d))
		}
	}
	if len(bodies) > 1 {
		r.warn("body parameter: declared %d times, the first is used", len(bodies))
	}
	switch {
	case len(bodies) > 0:
		if len(fields) > 0 {
			r.warn("formData parameters: left out, as there is a body parameter")
		}
		body = r.body(bodies[0])
	case len(fields) > 0:
		body = r.form(fields)
	}
	return parameters, body
}

func (r *swaggerReader) parameter(d declaration) Parameter {
	p := Parameter{
		Name:        d.name,
		In:          d.in,
		Description: d.description,
		Required:    r.parameters.requires(d),
		Schema:      swaggerSchema(d),
		Object:      d.Place,
		Examples:    d.Place,
	}
	p.Style, p.Explode = r.collection(d)
	return p
}

// swaggerSchema returns the schema that a parameter object contains directly, for parameters
// other than the body.
func swaggerSchema(d declaration) Place {
	if d.Get("schema").Kind() == '{' { // not allowed by Swagger 2.0, but the intent is clear
		return d.At("schema")
	}
	return Place{object(schemaMembers(d.Place)), d.File}
}

func schemaMembers(parameter Place) []Member {
	var members []Member
	for _, m := range parameter.Members()[:min(len(parameter.Members()), maxKeywords)] {
		switch m.Name {
		case "name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema":
		default:
			members = append(members, m)
		}
	}
	return members
}

// collection returns the style for a collectionFormat. The default is csv.
func (r *swaggerReader) collection(d declaration) (style string, explode bool) {
	style = defaultStyle(d.in)
	if d.Get("type").Text() != "array" {
		return style, style == "form"
	}
	format := d.Get("collectionFormat").Text()
	if format == "" || format == "csv" {
		return style, false
	}
	switch {
	case format == "multi" && style == "form":
		return style, true
	case format == "ssv":
		return "spaceDelimited", false
	case format == "pipes":
		return "pipeDelimited", false
	case format == "tsv" && d.in != "header": // no header can have a tab between its items
		return "tabDelimited", false
	}
	r.warn("%s parameter %q: the collectionFormat %q cannot be sent there, its items are separated by commas", d.in, d.name, format)
	return style, false
}

// body returns the request body that a body parameter describes.
func (r *swaggerReader) body(d declaration) *Body {
	body := &Body{Required: d.required, Description: d.description}
	schema := d.At("schema")
	if schema.Node == nil && d.Get("type") != nil {
		schema = swaggerSchema(d)
	}
	for _, mediaType := range r.mediaTypes("consumes") {
		if r.part() {
			body.Content = append(body.Content, Media{Type: mediaType, Schema: schema})
		}
	}
	return body
}

// form returns the request body that formData parameters describe: an object with one
// property per parameter.
func (r *swaggerReader) form(fields []declaration) *Body {
	properties := make([]Member, 0, len(fields))
	var encoding []Encoding
	var required []*Node
	file := false
	for _, d := range fields {
		properties = append(properties, Member{d.name, fieldSchema(d)})
		if d.required {
			required = append(required, Text(d.name))
		}
		if d.Get("type").Text() == "array" {
			style, explode := r.collection(d)
			encoding = append(encoding, Encoding{Name: d.name, Style: style, Explode: explode, HasStyle: true, HasExplode: true})
		}
		file = file || isFile(d.Node)
	}
	members := []Member{{"type", Text("object")}, {"properties", object(properties)}}
	if len(required) > 0 {
		members = append(members, Member{"required", List(required...)})
	}
	body := &Body{Required: len(required) > 0}
	for _, mediaType := range formTypes(r.mediaTypes("consumes"), file) {
		body.Content = append(body.Content, Media{
			Type:     mediaType,
			Schema:   Place{object(members), r.operation.File},
			Encoding: encoding,
		})
	}
	return body
}

// fieldSchema returns the schema of a form property, with its description.
func fieldSchema(d declaration) *Node {
	schema := swaggerSchema(d)
	if d.description == "" || schema.IsRef() {
		return schema.Node
	}
	return object(append(slices.Clone(schema.Members()), Member{"description", Text(d.description)}))
}

// isFile reports whether a parameter had the type file, which modernise converts to a string
// with format binary.
func isFile(parameter *Node) bool {
	return parameter.Get("type").Text() == "string" && parameter.Get("format").Text() == "binary"
}

// formTypes returns the media types that are valid for a form. Files require multipart.
func formTypes(consumes []string, file bool) []string {
	if file {
		return []string{multipartType}
	}
	var forms []string
	for _, mediaType := range consumes {
		base, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
		if base = strings.TrimSpace(base); base == urlencodedType || base == multipartType {
			forms = append(forms, mediaType)
		}
	}
	if len(forms) == 0 {
		return []string{urlencodedType}
	}
	return forms
}

// mediaTypes returns the media types that the operation consumes or produces, or else those
// of the document. The default is JSON.
func (r *swaggerReader) mediaTypes(name string) []string {
	list := cmp.Or(r.operation.Get(name), r.operation.File.Root.Get(name), r.root.Get(name))
	if types := r.texts(list); len(types) > 0 {
		return types
	}
	return []string{jsonType}
}

// responses returns the responses.
func (r *swaggerReader) responses() []Response {
	produces := r.mediaTypes("produces")
	var all []Response
	for response := range r.contents.declaredResponses(r.operation.At("responses")) {
		if schema := response.At("schema"); schema.Node != nil {
			for _, mediaType := range produces {
				if !r.part() {
					break
				}
				response.Content = append(response.Content, Media{Type: mediaType, Schema: schema})
			}
		}
		all = append(all, response)
	}
	return all
}
