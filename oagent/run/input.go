package run

import (
	"context"
	"slices"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/model"
)

// takeInput checks the first unread input of the user with the input guardrail, and adds it to the
// conversation: as the result of the question that it answers, or as a message.
func (e *execution) takeInput(ctx context.Context) error {
	in := e.state.Inputs[0]
	if ended, err := e.check(ctx, engagement.SideInput, in.Text); ended || err != nil {
		return err
	}
	return e.record(func(st *State) []entry {
		st.Inputs = slices.DeleteFunc(st.Inputs, func(i Input) bool { return i.ID == in.ID })
		if i := st.question(); i >= 0 {
			st.Calls[i].Status, st.Calls[i].Wait = CallDone, nil
			return []entry{{Kind: entryResult, Call: i, Result: &model.ToolResult{CallID: st.Calls[i].ID, Content: in.Text}}}
		}
		e.planner.advanceTurn(st)
		return []entry{{Kind: entryMessage, Message: &model.Message{Role: model.RoleUser, Text: in.Text}}}
	}, true)
}

// check checks a text with the agent's guardrail for that side. If the guardrail rejects the text,
// check ends the run (OpenAgentSpec v1, guardrails).
func (e *execution) check(ctx context.Context, side engagement.Side, text string) (ended bool, err error) {
	if e.agent.Guardrail(side) == nil {
		return false, nil
	}
	err = e.runner.options.Tools.CheckText(ctx, e.binding, side, text)
	if err == nil {
		return false, nil
	}
	refusal, ok := engagement.AsRefusal(err)
	if !ok || ctx.Err() != nil || refusal.Kind == engagement.KindStore {
		return false, err
	}
	return true, e.failRefused(refusal)
}

// failRefused ends the run because of a refusal.
func (e *execution) failRefused(r *engagement.Refusal) error {
	return e.fail(EndKind(r.Kind), r.Rule, r.Message)
}
