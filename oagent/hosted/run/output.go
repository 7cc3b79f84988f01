package run

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// outputRule precedes the output schema of the agent in the system text.
const outputRule = "\n\nYour final answer is read by a program. Write only one JSON value, without any other text, that is valid for this JSON Schema:\n"

// repairNote precedes the problems of an answer, in a message to the model.
const repairNote = "[This server rejected your answer, because it is not valid for the JSON Schema of your instructions. " +
	"Write the corrected JSON value, without any other text.]"

// checkedAnswer is an answer that must be valid for the output schema of the agent.
type checkedAnswer struct {
	value    jsontext.Value
	problems []string // nil if it is valid
}

// checkAnswer checks a response without calls against an output schema.
func checkAnswer(schema *oagent.OutputSchema, response *model.Response) *checkedAnswer {
	value, problems := schema.Read(response.Text)
	return &checkedAnswer{value, problems}
}

// recordChecked changes the state after an answer. If the answer is not valid, the model gets the problems and can write it
// again, once for each input of the user. Then the run fails. It returns the entries for the log, with that of the answer.
func (e *execution) recordChecked(st *State, checked *checkedAnswer, answer entry) []entry {
	if checked.problems == nil {
		st.Phase, st.Answer, st.Cut, st.IsValue, st.Repaired = phaseAnswer, string(checked.value), false, true, false
		return []entry{answer}
	}
	repair := entry{Kind: entryMessage, Message: &model.Message{Role: model.RoleUser, Text: repairNote + "\n" + strings.Join(checked.problems, "\n")}}
	if st.Repaired {
		st.end(StatusError, invalidOutput(e.agent, checked.problems))
	} else {
		st.Repaired = true
		e.planner.advanceTurn(st)
	}
	return []entry{answer, repair}
}

// invalidOutput returns why the run ends. The problems can quote the answer, which no output guardrail has checked.
func invalidOutput(agent *oagent.Agent, problems []string) *Ending {
	why := &Ending{Kind: EndOutput, Rule: oagent.OutputSchemaRule, Message: "the answer of the model is not valid for the output schema of the agent"}
	if !agent.Enforces(engagement.SideOutput) {
		why.Message += ": " + strings.Join(problems, "; ")
	}
	return why
}

// value returns the latest answer as JSON; nil if the agent has no output schema.
func (o *Output) value() jsontext.Value {
	if !o.IsValue || o.Text == "" || !strictjson.Valid([]byte(o.Text)) {
		return nil
	}
	return jsontext.Value(o.Text)
}
