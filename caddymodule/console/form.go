package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Kinds of inputs.
const (
	inputText   = "text"
	inputAny    = "any"   // a text, or JSON of another type that the argument takes
	inputLines  = "lines" // a list with one item a line
	inputNumber = "number"
	inputSelect = "select"
	inputArea   = "area" // several lines
	inputJSON   = "json" // JSON in several lines
)

// input is a field of the form for an argument.
type input struct {
	argument
	ID       string
	Field    string // name of the field
	Kind     string
	Options  []option // of a select
	Value    string   // as the user wrote it
	Hint     string
	Skeleton string // JSON that people fill in, "" if there is none
	Problem  string // why the value does not fit
}

// option is a value that an input offers.
type option struct {
	Value    string // JSON
	Text     string
	Selected bool
}

// isScalar reports whether values of a type are written in one line.
func isScalar(name string) bool { return name != "object" && name != "array" }

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
		case a.Type == "array" && len(a.items) > 0 && (isScalar(a.items[0]) && len(a.items) == 1 || slices.Contains(a.items, "string")):
			in.Kind = inputLines
		case a.Type == "" && slices.Contains(a.types, "string"):
			in.Kind = inputAny
		case a.Type == "object" || a.Type == "array" || a.Type == "":
			in.Kind = inputJSON
		case longTexts(a.schema):
			in.Kind = inputArea
		}
		if in.Kind == inputJSON {
			in.Skeleton = skeleton(&in.argument)
		}
		in.Hint = inputHint(&in)
		all[i] = in
	}
	return all
}

// options returns the options of a select.
func options(values []string, selected string) []option {
	all := make([]option, len(values))
	for i, value := range values {
		all[i] = option{value, value, value == selected}
		if shown := strictjson.Text(jsontext.Value(value)); shown != "" {
			all[i].Text = shown
		}
	}
	return all
}

// longTexts reports whether the texts of a schema can have several lines.
func longTexts(t *schema.Tree) bool {
	length := string(t.Value("maxLength"))
	return len(length) > len("200") || length > "200" && len(length) == len("200")
}

// inputHint describes what a field takes.
func inputHint(in *input) string {
	var parts []string
	switch in.Kind {
	case inputLines:
		parts = append(parts, "One item a line")
	case inputAny:
		if others := slices.DeleteFunc(slices.Clone(in.types), func(name string) bool { return name == "string" }); len(others) > 0 {
			parts = append(parts, "Text, or JSON of the type "+strings.Join(others, " or ")+`. Write "5" for the text 5`)
		}
	}
	a := &in.argument
	if a.Default != nil {
		parts = append(parts, "Default: "+string(a.Default))
	}
	if a.Example != nil {
		example := string(a.Example)
		if shown := strictjson.Text(a.Example); shown != "" {
			example = shown
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
	switch in.Kind {
	case inputSelect, inputNumber, inputJSON:
		if value := strings.TrimSpace(in.Value); strictjson.Check([]byte(value)) == nil {
			return append(object, value...)
		}
	case inputAny:
		return appendAny(object, in.Value, in.types)
	case inputLines:
		if value := strings.TrimSpace(in.Value); strings.HasPrefix(value, "[") && strictjson.Check([]byte(value)) == nil {
			return append(object, value...)
		}
		return in.appendLines(object)
	}
	return strictjson.AppendString(object, strings.ReplaceAll(in.Value, "\r\n", "\n"))
}

// appendLines appends a list with an item for each line that is not empty.
func (in *input) appendLines(object []byte) []byte {
	object = append(object, '[')
	first := true
	for line := range strings.Lines(in.Value) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !first {
			object = append(object, ',')
		}
		first = false
		object = appendAny(object, line, in.items)
	}
	return append(object, ']')
}

// appendAny appends a text as JSON of one of the types: as it is, if it is JSON of a type that is not a string or a JSON string
// in quotes; else as a string.
func appendAny(object []byte, value string, types []string) []byte {
	value = strings.ReplaceAll(value, "\r\n", "\n")
	written := jsontext.Value(strings.TrimSpace(value))
	if strictjson.Check(written) == nil && slices.ContainsFunc(types, func(name string) bool { return fits(written, name, len(types)) }) {
		return append(object, written...)
	}
	return strictjson.AppendString(object, value)
}

// fits reports whether JSON is a value of a type. A string is written in quotes only if the value can have several types.
func fits(value jsontext.Value, name string, types int) bool {
	switch value.Kind() {
	case '0':
		return name == "integer" || name == "number"
	case 't', 'f':
		return name == "boolean"
	case 'n':
		return name == "null"
	case '{':
		return name == "object"
	case '[':
		return name == "array"
	case '"':
		return name == "string" && types > 1
	}
	return false
}

// setProblems sets the problems of the arguments at their fields.
func setProblems(all []input, problems []tools.Problem) {
	for i := range all {
		var messages []string
		for _, p := range problems {
			if rest, ok := strings.CutPrefix(p.Path, text.Pointer(all[i].Name)); ok && (rest == "" || rest[0] == '/') {
				messages = append(messages, strings.TrimSpace(strings.TrimPrefix(rest, "/")+" "+p.Message))
			}
		}
		all[i].Problem = strings.Join(messages, "; ")
	}
}
