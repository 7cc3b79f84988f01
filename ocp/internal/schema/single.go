package schema

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

// Single returns the only value that a schema allows, from const or an enum of one value.
// It returns nil if the schema allows more values, or if the value is not a string, number
// or boolean.
func Single(place openapi.Place) jsontext.Value {
	only := first(place, func(p openapi.Place) (*openapi.Node, bool) {
		if value := p.Get("const"); value != nil {
			return value, true
		}
		values := p.Get("enum").Items()
		if len(values) == 1 {
			return values[0], true
		}
		return nil, len(values) > 1
	})
	switch only.Kind() {
	case '"', '0', 't', 'f':
		return only.AppendJSON(nil)
	}
	return nil
}
