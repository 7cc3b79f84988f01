package chat

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// Names of the arguments of a guardrail's tool that take the text, in order of preference.
var (
	inputNames  = [...]string{"input", "text", "message", "prompt", "content", "query", "question"}
	outputNames = [...]string{"output", "response", "completion", "answer"}
)

// Arguments names the arguments of a guardrail's tool that take the texts.
type Arguments struct {
	input, output string // "" for none
}

// InputArguments finds the argument of an input guardrail's tool that takes the user's text.
// It is the first of: an argument named input, text, message, prompt, content, query or
// question; the only argument; the only required argument.
func InputArguments(t *tools.Tool) (Arguments, error) {
	a := Arguments{input: find(t, inputNames[:])}
	if a.input == "" {
		a.input = only(t)
	}
	if a.input == "" {
		return a, fmt.Errorf("the tool %s has no argument for the user's message; it must have only one string argument, or one named input, text, message or prompt", t.Name)
	}
	return a, a.check(t)
}

// OutputArguments finds the argument of an output guardrail's tool that takes the model's text.
// It is the one named output, response, completion or answer. If there is one, an argument with
// an input name (see InputArguments) takes the user's last message. If there is none, the rules
// of InputArguments select the argument for the model's text.
func OutputArguments(t *tools.Tool) (Arguments, error) {
	a := Arguments{output: find(t, outputNames[:])}
	if a.output == "" {
		input, err := InputArguments(t)
		return Arguments{output: input.input}, err
	}
	a.input = find(t, inputNames[:])
	return a, a.check(t)
}

func find(t *tools.Tool, names []string) string {
	for _, name := range names {
		for i := range t.Definition.Arguments {
			if t.Definition.Arguments[i].Name == name && takesText(&t.Definition.Arguments[i]) {
				return name
			}
		}
	}
	return ""
}

// only returns the only possible argument, or "" if there are several.
func only(t *tools.Tool) string {
	var all, required []string
	for i := range t.Definition.Arguments {
		if a := &t.Definition.Arguments[i]; takesText(a) {
			all = append(all, a.Name)
			if a.Required {
				required = append(required, a.Name)
			}
		}
	}
	switch {
	case len(required) == 1:
		return required[0]
	case len(all) == 1:
		return all[0]
	}
	return ""
}

// takesText reports whether the argument may be a string. It checks only the type at the top
// level of the schema.
func takesText(a *tools.Argument) bool {
	for walk := strictjson.Into(a.Schema); walk.Next(); {
		if walk.Is("type") {
			return bytes.Contains(walk.Value, []byte(`"string"`))
		}
	}
	return true
}

// check returns an error if the tool requires other arguments.
func (a Arguments) check(t *tools.Tool) error {
	for i := range t.Definition.Arguments {
		if name := t.Definition.Arguments[i].Name; t.Definition.Arguments[i].Required && !slices.Contains([]string{a.input, a.output}, name) {
			return fmt.Errorf("the tool %s requires the argument %s, which a guardrail cannot provide", t.Name, name)
		}
	}
	return nil
}

// JSON returns the arguments as an object.
func (a Arguments) JSON(input, output string) jsontext.Value {
	object := []byte{'{'}
	for _, member := range [...]struct{ name, text string }{{a.input, input}, {a.output, output}} {
		if member.name == "" {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(strictjson.AppendString(object, member.name), ':')
		object = strictjson.AppendString(object, member.text)
	}
	return append(object, '}')
}
