package mcpadapter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Non-inferrable arguments are arguments that a model must not make up (OTC 1.0, Input Schema:
// non-inferrable). They are left out of the tool's inputSchema, and a call that contains them is
// rejected. If a call needs one and its other arguments are valid, the server asks the user with an
// elicitation. One form also contains the optional non-inferrable arguments.

// argumentsKey is the key of that form in inputRequests.
const argumentsKey = `"fairway_arguments"`

func hasNonInferrable(tool *tool.Tool) bool {
	for i := range tool.Arguments {
		if tool.Arguments[i].NonInferrable {
			return true
		}
	}
	return false
}

// completeArguments returns the arguments of an invocation together with the user's values. If
// values are missing, the reply has asks or a Failure.
func (x *exchange) completeArguments(t *tool.Tool, i invocation, now *round) ([]byte, reply, *jsonrpc.Fault) {
	if !hasNonInferrable(t) {
		return i.arguments, reply{}, nil
	}
	if made := inventedArguments(t, i.arguments); made != nil {
		return nil, failed(t, tool.InvalidArguments, fmt.Sprintf(
			"%s of %s must not be made up: leave it out, and the user is asked for it where the call needs it", strings.Join(made, ", "), t.Name)), nil
	}
	if now.answers == nil {
		if r, f := x.completeRound(t, i, now); f != nil || r.Failure != nil || r.inputRequired != nil {
			return nil, r, f
		}
	}
	return fillArguments(t, i.arguments, now.answers), reply{}, nil
}

// completeRound obtains the values that the user must give. If it returns neither asks nor a
// Failure, now.answers is nil only if no value is needed.
func (x *exchange) completeRound(t *tool.Tool, i invocation, now *round) (reply, *jsonrpc.Fault) {
	wanted, err := t.FromUser(i.arguments)
	if err != nil {
		return refused(t, err), nil
	}
	if len(wanted.Needed) == 0 && !now.asked {
		return reply{}, nil
	}
	form, err := x.formOf(t, wanted)
	if err != nil {
		return failed(t, tool.InvalidArguments, err.Error()), nil
	}
	if len(form.fields) == 0 { // the tool has changed since the user was asked
		return reply{}, nil
	}
	if now.asked {
		if r, again := form.readResponse(now); !again {
			return r, nil
		}
	}
	return x.askUser(form, i, now)
}

// refused returns the reply for a tool that was not called because its arguments are invalid.
func refused(t *tool.Tool, err error) reply {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return reply{Outcome: tool.Outcome{Tool: t, Failure: failure}, uncalled: true}
	}
	return failed(t, tool.InvalidArguments, err.Error())
}

// inventedArguments returns the non-inferrable arguments that the model has given.
func inventedArguments(tool *tool.Tool, arguments jsontext.Value) (names []string) {
	for i := range tool.Arguments {
		a := &tool.Arguments[i]
		if !a.NonInferrable {
			continue
		}
		if kind := wire.MemberOf(arguments, a.Name).Kind(); kind != 0 && kind != 'n' {
			names = append(names, a.Name)
		}
	}
	return names
}

// askUser sends the form to the user: before 2026-07-28 as a request of the server, from then on as
// the result of this request.
func (x *exchange) askUser(form *argumentForm, i invocation, now *round) (reply, *jsonrpc.Fault) {
	t := form.tool
	if f := x.checkSupported(canElicit); f != nil {
		return reply{}, f
	}
	if !x.supportedRequests().has(canElicit) {
		return failed(t, tool.InvalidArguments, fmt.Sprintf("%s needs %s from the user and must not be called with a value that a model made up; %s",
			t.Name, form.requiredNames(), x.unsupportedMessage(t, canElicit))), nil
	}
	if x.version.Stateless() {
		now.asked, now.answers = true, nil
		requests := []byte("{" + argumentsKey + `:{"method":"` + methodElicit + `","params":`)
		requests = append(append(requests, form.params...), "}}"...)
		return reply{Outcome: tool.Outcome{Tool: t}, inputRequired: x.appendAsks(nil, requests, i, &now.roundState), uncalled: true}, nil
	}
	result, err := x.ask(methodElicit, form.params)
	if err != nil {
		return failed(t, tool.InvalidArguments, fmt.Sprintf("%s was not called: %s", t.Name, noResponseMessage(methodElicit, err))), nil
	}
	now.responses = append(append([]byte("{"+argumentsKey+":"), result...), '}')
	r, again := form.readResponse(now)
	if again {
		r = failed(t, tool.InvalidArguments, fmt.Sprintf("%s was not called: the user gave no %s", t.Name, form.requiredNames()))
	}
	return r, nil
}

// nonInferrable returns the names of the tool's non-inferrable arguments.
func nonInferrable(tool *tool.Tool) (names []string) {
	for i := range tool.Arguments {
		if tool.Arguments[i].NonInferrable {
			names = append(names, tool.Arguments[i].Name)
		}
	}
	return names
}

// fillArguments returns the model's arguments with the user's values. The model's values for
// non-inferrable arguments can only be null here, which counts as absent.
func fillArguments(tool *tool.Tool, arguments, answers jsontext.Value) []byte {
	asked := nonInferrable(tool)
	filled := []byte{'{'}
	if arguments.Kind() == '{' {
		filled = appendWithout(filled, arguments, func(w *wire.Walk) bool { return slices.Contains(asked, wire.Text(w.Name)) })
	}
	for walk := wire.Into(answers); walk.Next(); {
		if len(filled) > 1 {
			filled = append(filled, ',')
		}
		filled = append(append(append(filled, walk.Name...), ':'), walk.Value...)
	}
	return append(filled, '}')
}

// appendVisibleSchema appends a tool's input schema without the non-inferrable arguments.
func appendVisibleSchema(dst []byte, tool *tool.Tool) []byte {
	if len(tool.InputSchema) == 0 {
		return append(dst, `{"type":"object"}`...)
	}
	if !hasNonInferrable(tool) {
		return append(dst, tool.InputSchema...)
	}
	hidden := make(map[string]bool)
	for _, name := range nonInferrable(tool) {
		hidden[name] = true
	}
	dst = append(dst, '{')
	for walk := wire.Into(tool.InputSchema); walk.Next(); {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(dst, walk.Name...), ':')
		switch {
		case walk.Is("properties") && walk.Value.Kind() == '{':
			dst = appendWithout(append(dst, '{'), walk.Value, func(w *wire.Walk) bool { return hidden[wire.Text(w.Name)] })
			dst = append(dst, '}')
		case walk.Is("required") && walk.Value.Kind() == '[':
			dst = appendWithout(append(dst, '['), walk.Value, func(w *wire.Walk) bool { return hidden[wire.Text(w.Value)] })
			dst = append(dst, ']')
		default:
			dst = append(dst, walk.Value...)
		}
	}
	return append(dst, '}')
}

// appendWithout appends the elements of an array, or the members of an object, for which out returns
// false.
func appendWithout(dst []byte, value jsontext.Value, out func(*wire.Walk) bool) []byte {
	first := true
	for walk := wire.Into(value); walk.Next(); {
		if out(&walk) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if walk.Name != nil {
			dst = append(append(dst, walk.Name...), ':')
		}
		dst = append(dst, walk.Value...)
	}
	return dst
}
