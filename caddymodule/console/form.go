package console

import (
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Kinds of inputs.
const (
	inputText   = "text"
	inputNumber = "number"
	inputSelect = "select"
	inputArea   = "area" // several lines
	inputJSON   = "json" // JSON in several lines
)

// input is a field of the form for an argument.
type input struct {
	argument
	ID      string
	Field   string // name of the field
	Kind    string
	Options []option // of a select
	Value   string   // as the user wrote it
	Hint    string
}

// option is a value that an input offers.
type option struct {
	Value    string // JSON
	Text     string
	Selected bool
}

// inputs returns the fields for the arguments, with the values of a form.
func inputs(arguments []argument, form url.Values) []input {
	all := make([]input, len(arguments))
	for i, a := range arguments {
		in := input{argument: a, Field: "arg." + a.Name, Kind: inputText}
		in.ID = "a-" + a.Name
		in.Value = form.Get(in.Field)
		switch {
		case len(a.Enum) > 0:
			in.Kind = inputSelect
			in.Options = options(a.Enum, in.Value)
		case a.Type == "boolean":
			in.Kind = inputSelect
			in.Options = options([]string{"true", "false"}, in.Value)
		case a.Type == "integer" || a.Type == "number":
			in.Kind = inputNumber
		case a.Type == "object" || a.Type == "array" || a.Type == "":
			in.Kind = inputJSON
		case longTexts(a.schema):
			in.Kind = inputArea
		}
		in.Hint = inputHint(&a)
		all[i] = in
	}
	return all
}

// options returns the options of a select.
func options(values []string, selected string) []option {
	all := make([]option, len(values))
	for i, value := range values {
		all[i] = option{value, value, value == selected}
		if text := strictjson.Text(jsontext.Value(value)); text != "" {
			all[i].Text = text
		}
	}
	return all
}

// longTexts reports whether the texts of a schema can have several lines.
func longTexts(t *schema.Tree) bool {
	length := string(t.Value("maxLength"))
	return len(length) > len("200") || length > "200" && len(length) == len("200")
}

// inputHint describes what an argument takes.
func inputHint(a *argument) string {
	var parts []string
	if a.Default != nil {
		parts = append(parts, "Default: "+string(a.Default))
	}
	if a.Example != nil {
		example := string(a.Example)
		if text := strictjson.Text(a.Example); text != "" {
			example = text
		}
		parts = append(parts, "Example: "+example)
	}
	return strings.Join(parts, " · ")
}

// formArguments returns the arguments object of a form. Empty fields are not sent.
func formArguments(all []input) []byte {
	object := []byte{'{'}
	for i := range all {
		in := &all[i]
		if in.Value == "" {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(strictjson.AppendString(object, in.Name), ':')
		object = in.appendValue(object)
	}
	return append(object, '}')
}

// appendValue appends the value as JSON. What is no JSON of the expected type is sent as a string, which
// the tool then reports.
func (in *input) appendValue(object []byte) []byte {
	asJSON := in.Kind == inputSelect || in.Kind == inputNumber || in.Kind == inputJSON
	if value := strings.TrimSpace(in.Value); asJSON && strictjson.Check([]byte(value)) == nil {
		return append(object, value...)
	}
	return strictjson.AppendString(object, strings.ReplaceAll(in.Value, "\r\n", "\n"))
}
