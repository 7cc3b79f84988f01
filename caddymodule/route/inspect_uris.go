package route

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/result"
)

// contentURIs are the URIs of the contents of a native ReadResourceResult or GetPromptResult, in order. Clients name
// resources by them, so inspectors get the result with "" in their place.
type contentURIs []jsontext.Value

var noURI = []byte(`""`)

// cutURIs returns a body as inspectors get it, and the URIs that were cut out of it, nil if there are none.
func cutURIs(phase inspect.Phase, mediaType string, body []byte) ([]byte, contentURIs) {
	isContents := phase == inspect.Resources || phase == inspect.Prompts
	if !isContents || mediaType != result.NativeType || !strictjson.Valid(body) {
		return body, nil
	}
	var uris contentURIs
	cut := appendWithURIs(nil, body, func(uri jsontext.Value) []byte {
		uris = append(uris, uri)
		return noURI
	})
	if uris == nil {
		return body, nil
	}
	return cut, uris
}

// restore returns a masked body with the URIs again.
func (u contentURIs) restore(masked []byte) ([]byte, error) {
	at, changed := 0, !strictjson.Valid(masked)
	restored := appendWithURIs(nil, masked, func(uri jsontext.Value) []byte {
		at++
		if changed = changed || at > len(u) || string(uri) != string(noURI); changed {
			return noURI
		}
		return u[at-1]
	})
	if changed || at != len(u) {
		return nil, errors.New("an inspector added or removed contents")
	}
	return restored, nil
}

// pathToURI are the members of results that contents are in.
var pathToURI = []string{"contents", "messages", "content", "resource"}

// appendWithURIs appends a result. Each URI of its contents becomes what replace returns.
func appendWithURIs(dst []byte, value jsontext.Value, replace func(uri jsontext.Value) []byte) []byte {
	kind := value.Kind()
	if kind != '[' && kind != '{' {
		return append(dst, value...)
	}
	dst = append(dst, byte(kind))
	first := true
	for walk := strictjson.Into(value); walk.Next(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		if kind == '{' {
			dst = append(append(dst, walk.Name...), ':')
		}
		switch {
		case kind == '{' && walk.Value.Kind() == '"' && walk.Is("uri"):
			dst = append(dst, replace(walk.Value)...)
		case kind == '[' || slices.ContainsFunc(pathToURI, walk.Is):
			dst = appendWithURIs(dst, walk.Value, replace)
		default:
			dst = append(dst, walk.Value...)
		}
	}
	return append(dst, byte(kind)+2) // the closing bracket
}
