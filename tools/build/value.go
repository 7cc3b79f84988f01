package build

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/request"
)

// ConvertValue returns a value of the configuration as a value of one of the JSON types. A string is read
// as JSON if the types do not include string: "20" is 20 for an integer. If types is empty, every value
// fits.
func ConvertValue(value jsontext.Value, types []string) (jsontext.Value, error) {
	if request.Fits(value, types) {
		return value, nil
	}
	wanted := strings.Join(types, " or ")
	if value.Kind() != '"' {
		return nil, fmt.Errorf("must be %s and is %s", wanted, strictjson.KindName(value.Kind()))
	}
	parsed := jsontext.Value(strings.TrimSpace(strictjson.Text(value)))
	if len(parsed) == 0 || strictjson.Check(parsed) != nil || !request.Fits(parsed, types) {
		return nil, fmt.Errorf("must be %s", wanted)
	}
	return parsed, nil
}

// placeholder matches the placeholders of Caddy.
var placeholder = regexp.MustCompile(`\{[^{}\s"]+\}`)

// Placeholders returns the placeholders in the strings of the value, with their braces.
func Placeholders(value jsontext.Value) (found []string) {
	_, _ = ReplaceTexts(value, func(text string) (string, error) {
		found = append(found, placeholder.FindAllString(text, -1)...)
		return text, nil
	})
	return found
}

// hasOtherBraces reports whether a string in the value contains a placeholder and an opening brace that
// does not begin one.
func hasOtherBraces(value jsontext.Value) (found bool) {
	_, _ = ReplaceTexts(value, func(text string) (string, error) {
		found = found || strings.Contains(placeholder.ReplaceAllLiteralString(text, ""), "{")
		return text, nil
	})
	return found
}

// ReplaceTexts returns the value with the placeholders in its strings replaced. A string that becomes empty
// is an error.
func ReplaceTexts(value jsontext.Value, replace func(text string) (string, error)) (jsontext.Value, error) {
	switch value.Kind() {
	case '"':
		text := strictjson.Text(value)
		if !placeholder.MatchString(text) {
			return value, nil
		}
		replaced, err := replace(text)
		if err == nil && replaced == "" {
			err = errors.New("its placeholders are empty")
		}
		if err != nil {
			return nil, err
		}
		return strictjson.AppendString(nil, replaced), nil
	case '[', '{':
		return replaceInside(value, replace)
	}
	return value, nil
}

// replaceInside replaces the placeholders in an array or an object.
func replaceInside(value jsontext.Value, replace func(text string) (string, error)) (jsontext.Value, error) {
	changed := []byte{byte(value.Kind())}
	for walk := strictjson.Into(value); walk.Next(); {
		changed = strictjson.Comma(changed)
		if value.Kind() == '{' {
			changed = append(append(changed, walk.Name...), ':')
		}
		item, err := ReplaceTexts(walk.Value, replace)
		if err != nil {
			return nil, err
		}
		changed = append(changed, item...)
	}
	if value.Kind() == '{' {
		return append(changed, '}'), nil
	}
	return append(changed, ']'), nil
}
