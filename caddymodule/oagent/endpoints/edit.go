package endpoints

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// mayEdit reports whether the decider may approve a review with other inputs.
func (v reviewRequest) mayEdit(r *review.Review, by decider) bool {
	return r.Editable && r.Status == engagement.ReviewPending && by.agent == nil && v.q.Options.Reviewers.MayEdit(r.Reviewer)
}

// editedInputs returns the inputs with which a reviewer approves a call, in the form in which the Guard gets them: with defaults, and
// with the arguments that the gateway fills. If they are not possible, it sends an error response and returns false.
func (v reviewRequest) editedInputs(r *review.Review, by decider, decision string, given jsontext.Value) (jsontext.Value, error) {
	refuse := func(status int, title, detail string) (jsontext.Value, error) {
		return nil, NewProblem(status, title, text.Sentence(detail))
	}
	op := v.operation(r)
	switch {
	case decision != reviewers.Approve:
		return refuse(http.StatusBadRequest, "Invalid decision", "inputs are for the decision approve")
	case by.agent != nil || !v.q.Options.Reviewers.MayEdit(r.Reviewer):
		return refuse(http.StatusForbidden, "Not allowed", "the reviewer "+r.Reviewer+" has no option may_edit, so the arguments cannot be changed")
	case !r.Editable:
		return refuse(http.StatusConflict, "Arguments cannot be changed", "a reviewer can change the arguments of a tool call that was not made, and only if no inspector has masked values in them. This is another request: approve or deny it as it is")
	case op == nil:
		return refuse(http.StatusConflict, "Arguments cannot be changed", "the document of the API is not loaded, or no longer has this tool")
	}
	inputs, err := inputsOf(op, r.Inputs, given)
	if err == nil {
		err = v.inspectEdited(op, r, inputs)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "Invalid arguments", err.Error())
	}
	return inputs, nil
}

// operation returns the operation of the call under review; nil if it is not known.
func (v reviewRequest) operation(r *review.Review) *agentset.Operation {
	if a := v.q.Options.Set().Agents[r.Agent]; a != nil {
		for op, capability := range a.Capabilities {
			if capability.Reference.Name == r.Name && !capability.Reference.Agent {
				return op
			}
		}
	}
	return nil
}

// inputsOf reads the arguments of a reviewer as the tool does. before are the inputs under review.
func inputsOf(op *agentset.Operation, before, given jsontext.Value) (jsontext.Value, error) {
	given, err := oagent.CheckInputs(given)
	if err != nil {
		return nil, err
	}
	own, filled := op.Tool.CallerArguments(before), make(map[string]jsontext.Value)
	var arguments, inputs strictjson.ObjectBuilder
	members, _ := strictjson.Members(nil, before)
	for _, m := range members {
		if !strictjson.HasMember(own, m.Name) {
			filled[m.Name] = m.Value
			inputs.Add(m.Name, m.Value)
		}
	}
	members, _ = strictjson.Members(nil, given)
	for _, m := range members {
		if value := filled[m.Name]; value == nil || !review.Equal(value, m.Value) { // the tool rejects other values
			arguments.Add(m.Name, m.Value)
		}
	}
	_, read, err := op.Tool.Read(arguments.Close())
	if err != nil {
		return nil, err
	}
	call, err := op.Tool.Bind(read) // Read lets values pass that the API might accept
	if err != nil {
		return nil, err
	}
	members, _ = strictjson.Members(nil, call.AppendArguments(nil))
	for _, m := range members {
		inputs.Add(m.Name, m.Value)
	}
	return inputs.Close(), nil
}

// inspectEdited returns an error if inspectors of the toolset reject or mask the inputs of a reviewer: the record has them as they are.
func (v reviewRequest) inspectEdited(op *agentset.Operation, r *review.Review, inputs jsontext.Value) error {
	i := route.Inspection{
		Chain: op.Toolset.Inspect, Tool: op.Tool, Toolset: op.Toolset.Name, Protocol: "review", Agent: r.Agent, User: r.User.ID, Logger: v.q.Options.Logger,
	}
	passed, required, failure := i.Arguments(v.q.R.Context(), r.Name, inputs)
	switch {
	case failure != nil:
		return failure
	case required != nil:
		passed = required.Shown
	}
	if !review.Equal(passed, inputs) {
		return errors.New("an inspector of the toolset masks values of these arguments")
	}
	return nil
}
