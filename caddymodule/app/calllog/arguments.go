package calllog

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// omitted stands for a value that is too large to be recorded.
const omitted = `"…"`

// choose returns the members of a JSON object whose names are allowed, with at most MaxArguments bytes.
// It returns nil if there are none, or if the text is not an object.
func choose(object []byte, allowed map[string]bool) jsontext.Value {
	chosen := []byte{'{'}
	err := strictjson.Split(object, func(name, value jsontext.Value) {
		plain, err := jsontext.AppendUnquote(nil, name)
		if err != nil || !allowed[string(plain)] {
			return
		}
		if len(chosen)+len(name)+len(value)+2 > MaxArguments || !utf8.Valid(value) {
			value = jsontext.Value(omitted)
		}
		if len(chosen)+len(name)+len(value)+2 > MaxArguments {
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
	return append(chosen, '}')
}

// Choose returns the members of recorded arguments whose names are given, nil if there are none.
func Choose(arguments jsontext.Value, names []string) jsontext.Value {
	if len(arguments) == 0 || len(names) == 0 {
		return nil
	}
	allowed := make(map[string]bool, len(names))
	for _, name := range names {
		allowed[name] = true
	}
	return choose(arguments, allowed)
}
