package mcpadapter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// Arguments that a model must not make up (OTC 1.0, Input Schema: non-inferrable)
// are not shown to it, and refused if it gives them all the same. Where a call
// cannot do without one the user is asked for it, by elicitation, in one form with
// those that are optional.

// argumentsKey is the key of that form among the requests to the client.
const argumentsKey = `"fairway_arguments"`

func hasNonInferrable(tool *ocp.Tool) bool {
	for i := range tool.Arguments {
		if tool.Arguments[i].NonInferrable {
			return true
		}
	}
	return false
}

// completeArguments returns the arguments of an invocation with what the user has
// given. A reply that has asks, or a Failure, says what is missing.
func (x *exchange) completeArguments(tool *ocp.Tool, i invocation, now *round) ([]byte, reply, *fault) {
	if !hasNonInferrable(tool) {
		return i.arguments, reply{}, nil
	}
	if made := madeUp(tool, i.arguments); made != nil {
		return nil, failed(tool, ocp.InvalidArguments, fmt.Sprintf(
			"%s of %s must not be made up: leave it out, and the user is asked for it where the call needs it", strings.Join(made, ", "), tool.Name)), nil
	}
	if now.asked {
		if r, again := x.takeArguments(tool, now); again || r.Failure != nil {
			if again {
				return nil, x.askAgain(tool, i, now), nil
			}
			return nil, r, nil
		}
	}
	if now.answers == nil && needsUser(tool) {
		r, f := x.askArguments(tool, i, now)
		if f != nil || r.Failure != nil || r.asks != nil {
			return nil, r, f
		}
	}
	return fillArguments(tool, i.arguments, now.answers), reply{}, nil
}

// madeUp returns the names of the arguments that are there and must not be.
func madeUp(tool *ocp.Tool, arguments jsontext.Value) (names []string) {
	for i := range tool.Arguments {
		a := &tool.Arguments[i]
		if !a.NonInferrable {
			continue
		}
		if kind := member(arguments, a.Name).Kind(); kind != 0 && kind != 'n' {
			names = append(names, a.Name)
		}
	}
	return names
}

// needsUser reports whether a call needs an argument that only the user can give.
func needsUser(tool *ocp.Tool) bool {
	for i := range tool.Arguments {
		if tool.Arguments[i].NonInferrable && tool.Arguments[i].Required {
			return true
		}
	}
	return false
}

// askArguments asks the user for the arguments: at once, or since 2026-07-28 with
// the result of this request.
func (x *exchange) askArguments(tool *ocp.Tool, i invocation, now *round) (reply, *fault) {
	params, err := x.formOfArguments(tool)
	if err != nil {
		return failed(tool, ocp.InvalidArguments, err.Error()), nil
	}
	if !x.askable().has(canElicit) {
		return failed(tool, ocp.InvalidArguments, fmt.Sprintf("%s needs %s from the user and must not be called with a value that a model made up; %s",
			tool.Name, strings.Join(askedNames(tool), ", "), x.cannotAsk(tool, canElicit))), nil
	}
	if x.version.selfDescribing() {
		return x.askAgain(tool, i, now), nil
	}
	result, err := x.ask(methodElicit, params)
	if err != nil {
		return failed(tool, ocp.InvalidArguments, fmt.Sprintf("%s was not called: %s", tool.Name, unansweredAsk(methodElicit, err))), nil
	}
	now.responses = append(append([]byte("{"+argumentsKey+":"), result...), '}')
	r, again := x.takeArguments(tool, now)
	if again {
		r = failed(tool, ocp.InvalidArguments, fmt.Sprintf("%s was not called: the user gave no %s", tool.Name, strings.Join(askedNames(tool), ", ")))
	}
	return r, nil
}

// askAgain returns the reply that asks for the arguments. That they can be asked
// for has been seen before.
func (x *exchange) askAgain(tool *ocp.Tool, i invocation, now *round) reply {
	params, err := x.formOfArguments(tool)
	if err != nil {
		return failed(tool, ocp.InvalidArguments, err.Error())
	}
	now.asked, now.answers = true, nil
	requests := []byte("{" + argumentsKey + `:{"method":"` + methodElicit + `","params":`)
	requests = append(append(requests, params...), "}}"...)
	return reply{Outcome: ocp.Outcome{Tool: tool}, asks: x.appendAsks(nil, requests, i, &now.memory)}
}

// takeArguments takes from the responses what the user gave. Again is set if there
// is nothing to take, or a required one is missing.
func (x *exchange) takeArguments(tool *ocp.Tool, now *round) (r reply, again bool) {
	response := member(now.responses, argumentsKey[1:len(argumentsKey)-1])
	now.responses = nil
	if response.Kind() != '{' {
		return reply{}, true
	}
	switch action := text(member(response, "action")); action {
	case "accept":
	case "decline", "cancel":
		return failed(tool, ocp.InvalidArguments, fmt.Sprintf("%s was not called: the user was asked for %s and did not give it (%s)",
			tool.Name, strings.Join(askedNames(tool), ", "), action)), false
	default:
		return reply{}, true
	}
	content := member(response, "content")
	answers := []byte{'{'}
	for i := range tool.Arguments {
		a := &tool.Arguments[i]
		if !a.NonInferrable {
			continue
		}
		value := member(content, a.Name)
		if kind := value.Kind(); kind == 0 || kind == 'n' {
			if a.Required {
				return reply{}, true
			}
			continue
		}
		if len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = append(append(wire.AppendString(answers, a.Name), ':'), value...)
	}
	now.asked, now.answers = false, append(answers, '}')
	return reply{}, false
}

// askedNames returns the names of what a form asks for.
func askedNames(tool *ocp.Tool) (names []string) {
	for i := range tool.Arguments {
		if tool.Arguments[i].NonInferrable {
			names = append(names, tool.Arguments[i].Name)
		}
	}
	return names
}

// fillArguments returns the arguments with the answers of the user. What the model
// gives for those arguments can only be null, which counts as left out.
func fillArguments(tool *ocp.Tool, arguments, answers jsontext.Value) []byte {
	asked := askedNames(tool)
	filled := []byte{'{'}
	if arguments.Kind() == '{' {
		filled = appendWithout(filled, arguments, func(w *wire.Walk) bool { return slices.Contains(asked, text(w.Name)) })
	}
	for walk := wire.Into(answers); walk.Next(); {
		if len(filled) > 1 {
			filled = append(filled, ',')
		}
		filled = append(append(append(filled, walk.Name...), ':'), walk.Value...)
	}
	return append(filled, '}')
}

// appendVisibleSchema appends a tool's input schema as a model sees it: without
// the arguments that it must not make up.
func appendVisibleSchema(dst []byte, tool *ocp.Tool) []byte {
	if len(tool.InputSchema) == 0 {
		return append(dst, `{"type":"object"}`...)
	}
	if !hasNonInferrable(tool) {
		return append(dst, tool.InputSchema...)
	}
	hidden := make(map[string]bool)
	for _, name := range askedNames(tool) {
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
			dst = appendWithout(append(dst, '{'), walk.Value, func(w *wire.Walk) bool { return hidden[text(w.Name)] })
			dst = append(dst, '}')
		case walk.Is("required") && walk.Value.Kind() == '[':
			dst = appendWithout(append(dst, '['), walk.Value, func(w *wire.Walk) bool { return hidden[text(w.Value)] })
			dst = append(dst, ']')
		default:
			dst = append(dst, walk.Value...)
		}
	}
	return append(dst, '}')
}

// appendWithout appends the elements of an array, or the members of an object,
// that are not left out.
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
