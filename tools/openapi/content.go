package openapi

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A contentReader reads the request body and the responses of one operation.
type contentReader struct {
	*ledger
}

// body returns the request body of OpenAPI 3, or nil if there is none.
func (r contentReader) body(place Place) *Body {
	if place.Kind() == 0 || place.Kind() == 'n' {
		return nil
	}
	resolved, err := place.Resolve()
	if err == nil && resolved.Kind() != '{' {
		err = errNoObject(resolved)
	}
	if err != nil {
		r.fail("request body: %w", err)
		return nil
	}
	body := &Body{
		Required:    flag(resolved.Get("required")),
		Description: r.text(resolved.Get("description")),
		Content:     r.content("request body", resolved.At("content")),
	}
	switch {
	case len(body.Content) > 0:
		return body
	case body.Required:
		r.fail("request body: it is required and has no media type")
	default:
		r.warn("request body: left out, as it has no media type")
	}
	return nil
}

// content reads the media types of a body.
func (r contentReader) content(of string, content Place) []Media {
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
			Object:   media,
		})
	}
	return all
}

// encodings reads how the properties of a form are encoded.
func (r contentReader) encodings(encoding *Node) []Encoding {
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

// responses returns the responses of OpenAPI 3.
func (r contentReader) responses(list Place) []Response {
	var all []Response
	for response := range r.declaredResponses(list) {
		response.Content = r.content("response "+response.Status, response.At("content"))
		all = append(all, response)
	}
	return all
}

// declaredResponses yields the responses without their content. Responses that cannot be
// read are left out.
func (r contentReader) declaredResponses(list Place) iter.Seq[Response] {
	return func(yield func(Response) bool) {
		list, err := list.Resolve()
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
				return
			}
			response, err := r.response(m.Name, Place{m.Value, list.File})
			if err != nil {
				r.warn("response %s left out: %v", m.Name, err)
				continue
			}
			if !yield(response) {
				return
			}
		}
	}
}

// response reads the response with the status that name gives, without its content.
func (r contentReader) response(name string, place Place) (Response, error) {
	status, err := statusOf(name)
	if err == nil {
		place, err = place.Resolve()
	}
	if err == nil && place.Kind() != '{' {
		err = errNoObject(place)
	}
	if err != nil {
		return Response{}, err
	}
	return Response{Status: status, Description: r.text(place.Get("description")), Place: place}, nil
}

// statusOf returns the status of a response: "200", "2XX" or "default".
func statusOf(name string) (string, error) {
	status := strings.ToUpper(strings.TrimSpace(name))
	if status == "DEFAULT" {
		return "default", nil
	}
	if len(status) == 3 && status[0] >= '1' && status[0] <= '5' && (status[1:] == "XX" || isDigit(status[1]) && isDigit(status[2])) {
		return status, nil
	}
	return "", fmt.Errorf("%q is not a status: use a code such as 200, a range such as 2XX, or default", name)
}

func isDigit(c byte) bool {
	return c >= '0' && c <= '9'
}
