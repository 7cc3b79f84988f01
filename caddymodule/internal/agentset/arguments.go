package agentset

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
	inputArgumentNames  = [...]string{"input", "text", "message", "prompt", "content", "query", "question"}
	outputArgumentNames = [...]string{"output", "response", "completion", "answer"}
)

// textArguments names the arguments of a guardrail's tool that take the texts.
type textArguments struct {
	input, output string // "" for none
}

// inputArguments finds the argument of an input guardrail's tool that takes the user's text.
// It is the first of: an argument named input, text, message, prompt, content, query or
// question; the only argument; the only required argument.
func inputArguments(t *tools.Tool) (textArguments, error) {
	a := textArguments{input: namedArgument(t, inputArgumentNames[:])}
	if a.input == "" {
		a.input = onlyArgument(t)
	}
	if a.input == "" {
		return a, fmt.Errorf("the tool %s has no argument for the user's message; it must have only one string argument, or one named input, text, message or prompt", t.Name)
	}
	return a, a.check(t)
}

// outputArguments finds the argument of an output guardrail's tool that takes the model's text.
// It is the one named output, response, completion or answer. If there is one, an argument with
// an input name (see inputArguments) takes the user's last message. If there is none, the rules
// of inputArguments select the argument for the model's text.
func outputArguments(t *tools.Tool) (textArguments, error) {
	a := textArguments{output: namedArgument(t, outputArgumentNames[:])}
	if a.output == "" {
		input, err := inputArguments(t)
		return textArguments{output: input.input}, err
	}
	a.input = namedArgument(t, inputArgumentNames[:])
	return a, a.check(t)
}

func namedArgument(t *tools.Tool, names []string) string {
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
func onlyArgument(t *tools.Tool) string {
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
func (a textArguments) check(t *tools.Tool) error {
	for i := range t.Definition.Arguments {
		if name := t.Definition.Arguments[i].Name; t.Definition.Arguments[i].Required && !slices.Contains([]string{a.input, a.output}, name) {
			return fmt.Errorf("the tool %s requires the argument %s, which a guardrail cannot provide", t.Name, name)
		}
	}
	return nil
}

// JSON returns the arguments as an object.
func (a textArguments) JSON(input, output string) jsontext.Value {
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
