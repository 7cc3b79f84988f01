package elicit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// Non-inferrable arguments are arguments that a model must not make up (OTC 1.0, Input Schema:
// non-inferrable). They are left out of the tool's inputSchema, and a call that contains them is
// rejected. If a call needs one and its other arguments are valid, the server asks the user with an
// elicitation. One form also contains the optional non-inferrable arguments.

// argumentsKey is the key of that form in inputRequests.
const argumentsKey = "fairway_arguments"

// completeArguments returns the arguments of the call together with the user's values. If values are
// missing, the reply has InputRequired or a Failure.
func (c *call) completeArguments() ([]byte, Reply, *protocol.Fault) {
	if !c.needs.NonInferrable {
		return c.Arguments, Reply{}, nil
	}
	if made := inventedArguments(c.tool, c.Arguments); len(made) > 0 {
		return nil, failed(c.tool, tools.InvalidArguments, fmt.Sprintf(
			"a model must not set %s of %s; omit it, and the user is asked for it if the call requires it", strings.Join(made, ", "), c.tool.Name)), nil
	}
	if c.round.Answers == nil {
		if r, f := c.obtainAnswers(); f != nil || r.Failure != nil || r.InputRequired != nil {
			return nil, r, f
		}
	}
	return fillArguments(c.tool, c.Arguments, c.round.Answers), Reply{}, nil
}

// obtainAnswers obtains the values that the user must give. If it returns neither InputRequired nor a
// Failure, c.round.Answers is nil only if no value is needed.
func (c *call) obtainAnswers() (Reply, *protocol.Fault) {
	wanted, err := c.tool.FromUser(c.Arguments)
	if err != nil {
		r := failed(c.tool, tools.InvalidArguments, err.Error())
		if failure, ok := errors.AsType[*tools.Failure](err); ok {
			r.Failure = failure
		}
		return r, nil
	}
	if len(wanted.Needed) == 0 && !c.round.Asked {
		return Reply{}, nil
	}
	form, err := newForm(c.tool, wanted, c.Revision)
	if err != nil {
		return failed(c.tool, tools.InvalidArguments, err.Error()), nil
	}
	if len(form.fields) == 0 { // the tool has changed since the user was asked
		return Reply{}, nil
	}
	if c.round.Asked {
		if r, again := form.readResponse(&c.round, strictjson.MemberOf(c.round.responses, argumentsKey)); !again {
			return r, nil
		}
	}
	return c.askUser(form)
}

// inventedArguments returns the non-inferrable arguments that the model has given.
func inventedArguments(tool *tools.Tool, arguments jsontext.Value) []string {
	return slices.DeleteFunc(tool.NonInferrable(), func(name string) bool {
		kind := strictjson.MemberOf(arguments, name).Kind()
		return kind == 0 || kind == 'n'
	})
}

// askUser sends the form to the user: before 2026-07-28 as a request of the server, from then on as
// the result of the client's request.
func (c *call) askUser(form *argumentForm) (Reply, *protocol.Fault) {
	if f := c.checkSupported(protocol.CanElicit); f != nil {
		return Reply{}, f
	}
	if !c.supported().Has(protocol.CanElicit) {
		return failed(c.tool, tools.InvalidArguments, fmt.Sprintf("%s needs %s from the user, not from the model; %s",
			c.tool.Name, form.requiredNames(), c.unsupportedMessage(protocol.CanElicit))), nil
	}
	if c.Revision.Stateless() {
		c.round.Asked, c.round.Answers = true, nil
		r, f := c.elicit(argumentsKey, form.params)
		r.uncalled = true
		return r, f
	}
	result, err := c.Ask(MethodElicit, form.params)
	if err != nil {
		return failed(c.tool, tools.InvalidArguments, fmt.Sprintf("%s was not called: %s", c.tool.Name, noResponseMessage(MethodElicit, err))), nil
	}
	r, again := form.readResponse(&c.round, result)
	if again {
		r = failed(c.tool, tools.InvalidArguments, fmt.Sprintf("%s was not called: the user did not give %s", c.tool.Name, form.requiredNames()))
	}
	return r, nil
}

// fillArguments returns the model's arguments with the user's values. The model's values for
// non-inferrable arguments can only be null here, which counts as absent.
func fillArguments(tool *tools.Tool, arguments, answers jsontext.Value) []byte {
	asked := tool.NonInferrable()
	filled := strictjson.AppendWithout([]byte{'{'}, arguments, func(w *strictjson.Walk) bool { return slices.Contains(asked, strictjson.Text(w.Name)) })
	for walk := strictjson.Into(answers); walk.Next(); {
		filled = append(append(append(strictjson.Comma(filled), walk.Name...), ':'), walk.Value...)
	}
	return append(filled, '}')
}
