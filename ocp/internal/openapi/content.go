package openapi

import (
	"fmt"
	"slices"
	"strings"
)

// body reads the request body of OpenAPI 3.
func (r *reader) body() {
	place := r.At("requestBody")
	if place.Kind() == 0 || place.Kind() == 'n' {
		return
	}
	resolved, err := place.Resolve()
	if err == nil && resolved.Kind() != '{' {
		err = errNoObject(resolved)
	}
	if err != nil {
		r.fail("request body: %w", err)
		return
	}
	body := &Body{
		Required:    flag(resolved.Get("required")),
		Description: r.text(resolved.Get("description")),
		Content:     r.content("request body", resolved.At("content")),
	}
	switch {
	case len(body.Content) > 0:
		r.Body = body
	case body.Required:
		r.fail("request body: it is required and has no media type")
	default:
		r.warn("request body: left out, as it has no media type")
	}
}

// content reads the media types of a body.
func (r *reader) content(of string, content Place) []Media {
	if content.Kind() != '{' && content.Kind() != 0 {
		r.warn("%s: content %v", of, errNoObject(content))
	}
	var all []Media
	for _, m := range content.Members() {
		if !r.part() {
			break
		}
		media, err := Place{m.Value, content.File}.Resolve()
		if err != nil {
			r.warn("%s: media type %s left out: %v", of, m.Name, err)
			continue
		}
		all = append(all, Media{
			Type:     strings.TrimSpace(m.Name),
			Schema:   media.At("schema"),
			Encoding: r.encodings(media.Get("encoding")),
		})
	}
	return all
}

// encodings reads how the properties of a form are encoded.
func (r *reader) encodings(encoding *Node) []Encoding {
	var all []Encoding
	for _, m := range encoding.Members() {
		if !r.part() {
			break
		}
		style, explode := m.Value.Get("style"), m.Value.Get("explode")
		e := Encoding{
			Name:          m.Name,
			ContentType:   r.text(m.Value.Get("contentType")),
			Style:         "form",
			AllowReserved: flag(m.Value.Get("allowReserved")),
			HasExplode:    explode != nil,
		}
		if slices.Contains(stylesOf("query"), style.Text()) {
			e.Style, e.HasStyle = style.Text(), true
		}
		e.Explode = explodes(e.Style, explode)
		all = append(all, e)
	}
	return all
}

// EncodingOf returns the encoding of the named property, and whether the document
// declares one.
func (m Media) EncodingOf(property string) (Encoding, bool) {
	for _, e := range m.Encoding {
		if e.Name == property {
			return e, true
		}
	}
	return Encoding{Name: property, Style: "form", Explode: true}, false
}

// responses reads the responses of OpenAPI 3.
func (r *reader) responses() {
	r.eachResponse(func(response Response) Response {
		response.Content = r.content("response "+response.Status, response.At("content"))
		return response
	})
}

// eachResponse adds the operation's responses. Complete fills in the rest of each one.
// Responses that cannot be read are left out.
func (r *reader) eachResponse(complete func(Response) Response) {
	list, err := r.At("responses").Resolve()
	if err == nil && list.Kind() != '{' && list.Kind() != 0 && list.Kind() != 'n' {
		err = errNoObject(list)
	}
	if err != nil {
		r.warn("responses left out: %v", err)
		return
	}
	for _, m := range list.Members() {
		if strings.HasPrefix(m.Name, "x-") {
			continue
		}
		if !r.part() {
			break
		}
		status, err := statusOf(m.Name)
		place := Place{m.Value, list.File}
		if err == nil {
			place, err = place.Resolve()
		}
		if err == nil && place.Kind() != '{' {
			err = errNoObject(place)
		}
		if err != nil {
			r.warn("response %s left out: %v", m.Name, err)
			continue
		}
		r.Responses = append(r.Responses, complete(Response{
			Status:      status,
			Description: r.text(place.Get("description")),
			Place:       place,
		}))
	}
}

// statusOf returns the status of a response: "200", "2XX" or "default".
func statusOf(name string) (string, error) {
	status := strings.ToUpper(strings.TrimSpace(name))
	if status == "DEFAULT" {
		return "default", nil
	}
	if len(status) != 3 || status[0] < '1' || status[0] > '5' {
		return "", fmt.Errorf("%q is no status", name)
	}
	if status[1:] == "XX" || isDigit(status[1]) && isDigit(status[2]) {
		return status, nil
	}
	return "", fmt.Errorf("%q is no status", name)
}

func isDigit(c byte) bool {
	return c >= '0' && c <= '9'
}
