package calllog

import (
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// allArguments in Config.Arguments allows the values of all arguments.
const allArguments = "*"

// Omitted replaces the value of an argument that is too large to be kept.
const Omitted = `"…"`

// choose returns the members of a JSON object whose names are allowed, with at most keptcall.MaxArguments bytes and without white space.
// It returns nil if there are none, or if the text is not an object.
func choose(object []byte, allowed []string) jsontext.Value {
	chosen, all := []byte{'{'}, slices.Contains(allowed, allArguments)
	err := strictjson.Split(object, func(name, value jsontext.Value) {
		plain, err := jsontext.AppendUnquote(nil, name)
		if err != nil || !all && !slices.Contains(allowed, string(plain)) {
			return
		}
		if len(chosen)+len(name)+len(value)+2 > keptcall.MaxArguments || !utf8.Valid(value) {
			value = jsontext.Value(Omitted)
		}
		if len(chosen)+len(name)+len(value)+2 > keptcall.MaxArguments {
			return
		}
		if len(chosen) > 1 {
			chosen = append(chosen, ',')
		}
		chosen = append(append(append(chosen, name...), ':'), value...)
	})
	if err != nil || len(chosen) == 1 {
		return nil
	}
	compact := jsontext.Value(append(chosen, '}'))
	if compact.Compact(jsontext.AllowDuplicateNames(true)) != nil {
		return nil
	}
	return compact
}
