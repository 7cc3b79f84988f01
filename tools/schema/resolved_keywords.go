package schema

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// first returns the first result of find. It tries place, then the schemas that its $ref,
// or an allOf with a single part, leads to.
func first[T any](place openapi.Place, find func(openapi.Place) (T, bool)) T {
	for range maxSteps {
		if found, ok := find(place); ok {
			return found
		}
		switch parts := place.At("allOf"); {
		case place.Ref() != "":
			to, _, err := place.Follow()
			if err != nil {
				break
			}
			place = to
			continue
		case len(parts.Items()) == 1:
			place = parts.Item(parts.Items()[0])
			continue
		}
		break
	}
	var none T
	return none
}

// Description returns the description of a schema, or "".
func Description(place openapi.Place) string {
	return first(place, func(p openapi.Place) (string, bool) {
		text := p.Get("description").Text()
		return text, text != ""
	})
}

// Default returns the default value of a schema as JSON, or nil.
func Default(place openapi.Place) jsontext.Value {
	n := first(place, func(p openapi.Place) (*openapi.Node, bool) { return p.Get("default"), p.Get("default") != nil })
	if n == nil {
		return nil
	}
	value, outside := defaultOf(n, place)
	if outside {
		return nil
	}
	return value
}

// IsFile reports whether a schema describes binary data:
//
//   - the type file of Swagger 2.0;
//   - the format binary of OpenAPI 3.0;
//   - a contentMediaType without a contentEncoding, as in OpenAPI 3.1;
//   - the contentEncoding binary.
//
// A schema without any of these can still be a file if the media type of the body says so;
// the caller checks that.
func IsFile(place openapi.Place) bool {
	return first(place, func(p openapi.Place) (bool, bool) {
		types := statedTypes(p.Get("type"))
		text := types&stringType != 0
		switch {
		case string(plainText(p.Get("type"))) == "file":
			return true, true
		case text && string(plainText(p.Get("format"))) == "binary":
			return true, true
		case text && p.Get("contentMediaType").Kind() == '"' && p.Get("contentEncoding") == nil:
			return true, true
		case text && string(plainText(p.Get("contentEncoding"))) == "binary": // RFC 2045: unencoded bytes
			return true, true
		}
		return false, types != anyType
	})
}

// Single returns the only value that a schema allows, from const or an enum of one value.
// It returns nil if the schema allows more values, or if the value is not a string, number
// or boolean.
func Single(place openapi.Place) jsontext.Value {
	only := first(place, func(p openapi.Place) (*openapi.Node, bool) {
		if value := p.Get("const"); value != nil {
			return value, true
		}
		if values := enumValues(p.Get("enum"), Types(place), false); len(values) != 1 {
			return nil, len(values) > 1
		}
		return p.Get("enum").Items()[0], true
	})
	switch only.Kind() {
	case '"', '0', 't', 'f':
		return literal(only, Types(place))
	}
	return nil
}
