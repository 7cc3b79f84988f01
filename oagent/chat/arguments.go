package chat

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// Names of arguments that a guardrail's tool may have, in the order in which they
// are looked for.
var (
	inputNames  = [...]string{"input", "text", "message", "prompt", "content", "query", "question"}
	outputNames = [...]string{"output", "response", "completion", "answer"}
)

// Arguments are those by which a tool is told what to look at.
type Arguments struct {
	input, output string // names; "" for none
}

// InputArguments finds the argument of the tool that takes what the user says: it
// is named input, text, message, prompt, content, query or question, or is the
// only one that there is, or the only one required.
func InputArguments(t *ocp.Tool) (Arguments, error) {
	a := Arguments{input: find(t, inputNames[:])}
	if a.input == "" {
		a.input = only(t)
	}
	if a.input == "" {
		return a, fmt.Errorf("the tool %s has no argument for what the user says: it must have one string named input, text, message or prompt, or only one", t.Name)
	}
	return a, a.check(t)
}

// OutputArguments finds the argument of the tool that takes what the model has
// answered: it is named output, response, completion or answer. If it has none of
// these it is found as for InputArguments; else that one takes what the user said
// last, if there is one by its name.
func OutputArguments(t *ocp.Tool) (Arguments, error) {
	a := Arguments{output: find(t, outputNames[:])}
	if a.output == "" {
		input, err := InputArguments(t)
		return Arguments{output: input.input}, err
	}
	a.input = find(t, inputNames[:])
	return a, a.check(t)
}

func find(t *ocp.Tool, names []string) string {
	for _, name := range names {
		for i := range t.Arguments {
			if t.Arguments[i].Name == name && takesText(&t.Arguments[i]) {
				return name
			}
		}
	}
	return ""
}

// only returns the one argument that can be meant, "" if there are several.
func only(t *ocp.Tool) string {
	var all, required []string
	for i := range t.Arguments {
		if a := &t.Arguments[i]; takesText(a) {
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

// takesText reports whether the argument may be a string, as far as its schema
// says so directly.
func takesText(a *ocp.Argument) bool {
	for walk := wire.Into(a.Schema); walk.Next(); {
		if walk.Is("type") {
			return bytes.Contains(walk.Value, []byte(`"string"`))
		}
	}
	return true
}

// check returns an error if the tool needs more than it is told.
func (a Arguments) check(t *ocp.Tool) error {
	for i := range t.Arguments {
		if name := t.Arguments[i].Name; t.Arguments[i].Required && !slices.Contains([]string{a.input, a.output}, name) {
			return fmt.Errorf("the tool %s needs the argument %s, which a guardrail does not have", t.Name, name)
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
		object = append(wire.AppendString(object, member.name), ':')
		object = wire.AppendString(object, member.text)
	}
	return append(object, '}')
}
