package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parameterPlaces returns the members of a parameter list. A single parameter, or an
// object of parameters by name, is accepted as a list.
func parameterPlaces(list Place) []Place {
	if list.Get("in").Kind() == '"' || list.IsRef() {
		return []Place{list}
	}
	var places []Place
	for _, item := range list.Items() {
		places = append(places, Place{item, list.File})
	}
	for _, m := range list.Members() {
		places = append(places, Place{m.Value, list.File})
	}
	return places
}

// A declaration is a parameter object of any OpenAPI version, with its $ref resolved.
type declaration struct {
	Place              // the parameter object itself
	name, in    string // in may also be Swagger 2.0's "body" or "formData"
	description string
	required    bool
}

// A key identifies a parameter of an operation. Header names are case-insensitive.
type key struct {
	in, name string
}

func (d declaration) key() key {
	if d.in == "header" {
		return key{d.in, strings.ToLower(d.name)}
	}
	return key{d.in, d.name}
}

// A parameterReader reads the parameters of one operation.
type parameterReader struct {
	*ledger
}

// declared returns the parameters of the operation: first those of its path, each
// replaced by an operation parameter of the same name and location, then the remaining
// operation parameters. Parameters that cannot be resolved are left out.
func (r parameterReader) declared(shared, list Place) []declaration {
	switch list.Kind() {
	case '{':
		r.warn("parameters must be a list and is an object")
	case 0, '[', 'n':
	default:
		r.warn("parameters must be a list and is %s: left out", list.Kind())
	}
	all := r.declarations(shared)
	inherited := make(map[key]int, len(all))
	for i, d := range all {
		inherited[d.key()] = i
	}
	for _, own := range r.declarations(list) {
		if i, overrides := inherited[own.key()]; overrides {
			all[i] = own
		} else {
			all = append(all, own)
		}
	}
	return all
}

// declarations reads one list of parameters and rejects duplicates.
func (r parameterReader) declarations(list Place) []declaration {
	if n := max(len(list.Items()), len(list.Members())); n > maxParameters {
		r.fail("it has %d parameters; the limit is %d", n, maxParameters)
		return nil
	}
	places := parameterPlaces(list)
	var all []declaration
	seen := make(map[key]bool, len(places))
	for _, place := range places {
		d, err := r.declaration(place)
		switch {
		case err != nil && d.required:
			r.fail("required parameter: %w", err)
		case err != nil:
			r.warn("parameter left out: %v", err)
		case d.in == "header" && isOwnHeader(d.name):
		case seen[d.key()]:
			r.warn("%s parameter %q: declared twice, the first is used", d.in, d.name)
		default:
			seen[d.key()] = true
			all = append(all, d)
		}
	}
	return all
}

func (r parameterReader) declaration(place Place) (declaration, error) {
	d := declaration{required: flag(place.Get("required"))}
	if !r.part() {
		return d, errTooMuch
	}
	resolved, err := place.Resolve()
	if err != nil {
		return d, err
	}
	if resolved.Kind() != '{' {
		return d, errNoObject(resolved)
	}
	d.Place = resolved
	d.name = r.text(resolved.Get("name"))
	d.in = r.text(resolved.Get("in"))
	d.required = flag(resolved.Get("required"))
	// In OpenAPI 3.1, a reference may have its own description.
	if d.description = r.text(place.Get("description")); d.description == "" {
		d.description = r.text(resolved.Get("description"))
	}
	if d.name == "" {
		return d, errors.New("it has no name")
	}
	if !isLocation(d.in, resolved.File.Version) {
		return d, fmt.Errorf("parameter %.100q: in must be path, query, header or cookie, not %.100q", d.name, d.in)
	}
	return d, nil
}

func isLocation(in string, version Version) bool {
	switch in {
	case "path", "query", "header":
		return true
	case "cookie":
		return version != Swagger20
	case "body", "formData":
		return version == Swagger20
	}
	return false
}

// isOwnHeader reports whether OpenAPI describes the header by other means. A parameter
// with such a name is ignored (OpenAPI 3.1, Parameter Object).
func isOwnHeader(name string) bool {
	switch strings.ToLower(name) {
	case "accept", "content-type", "authorization":
		return true
	}
	return false
}

// read returns the parameters of OpenAPI 3.
func (r parameterReader) read(declared []declaration) []Parameter {
	all := make([]Parameter, 0, len(declared))
	for _, d := range declared {
		p := Parameter{
			Name:          d.name,
			In:            d.in,
			Description:   d.description,
			Required:      r.requires(d),
			Deprecated:    flag(d.Get("deprecated")),
			AllowReserved: flag(d.Get("allowReserved")),
			Schema:        d.At("schema"),
			Object:        d.Place,
			Examples:      d.Place,
		}
		if content := d.Get("content").Members(); p.Schema.Node == nil && len(content) > 0 {
			if len(content) > 1 {
				r.warn("%s parameter %q: has more than one media type, the first is used", p.In, p.Name)
			}
			p.ContentType = strings.TrimSpace(content[0].Name)
			p.Examples = Place{content[0].Value, d.File}
			p.Schema = p.Examples.At("schema")
		} else {
			p.Style, p.Explode = r.style(d)
		}
		all = append(all, p)
	}
	return all
}

// requires reports whether a parameter is required. Path parameters always are.
func (r parameterReader) requires(d declaration) bool {
	if d.in == "path" && !d.required {
		r.warn("path parameter %q: not marked as required, taken as such", d.name)
		return true
	}
	return d.required
}

// style returns the style and explode of a parameter, or the defaults of its
// location (OpenAPI 3.1, Parameter Object).
func (r parameterReader) style(d declaration) (style string, explode bool) {
	style = defaultStyle(d.in)
	if own := d.Get("style"); own != nil {
		if slices.Contains(stylesOf(d.in), own.Text()) {
			style = own.Text()
		} else {
			r.warn("%s parameter %q: the style %s is not one for it, taken as %s", d.in, d.name, own.Raw(), style)
		}
	}
	return style, explodes(style, d.Get("explode"))
}

// explodes returns explode or its default. For deepObject, only the exploded form is
// defined.
func explodes(style string, explode *Node) bool {
	switch {
	case style == "deepObject":
		return true
	case explode == nil:
		return style == "form"
	}
	return flag(explode)
}

func defaultStyle(in string) string {
	if in == "path" || in == "header" {
		return "simple"
	}
	return "form"
}

func stylesOf(in string) []string {
	switch in {
	case "path":
		return []string{"simple", "label", "matrix"}
	case "query":
		return []string{"form", "spaceDelimited", "pipeDelimited", "deepObject"}
	case "header":
		return []string{"simple"}
	}
	return []string{"form"}
}
