package run

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/model"
)

// toolbox holds the tools that the model of a run may call.
type toolbox struct {
	described []model.Tool
	byName    map[string]*Tool // without questionTool
}

// newToolbox describes the tools of an agent. A tool that is not a capability is dropped and
// reported.
func newToolbox(agent *oagent.Agent, tools Tools, report func(error)) *toolbox {
	b := &toolbox{byName: make(map[string]*Tool)}
	for _, t := range tools.Describe(agent) {
		if _, ok := agent.Capability(t.Name); !ok {
			report(fmt.Errorf("the tool %s is not a capability of the agent %s", t.Name, agent.Name))
			continue
		}
		if b.byName[t.Name] == nil {
			b.byName[t.Name] = &t
			b.described = append(b.described, t.Tool)
		}
	}
	if b.isQuestion(questionTool.Name) {
		b.described = append(b.described, questionTool)
	}
	return b
}

// offers reports whether the model was offered a tool of that name.
func (b *toolbox) offers(name string) bool { return b.byName[name] != nil || b.isQuestion(name) }

// questionTool lets the model ask the user. It is part of the loop and not of the agent's
// document, so it is no call of the Engagement. If the agent has a capability of this name,
// the model gets that instead.
var questionTool = model.Tool{
	Name:        "ask-user",
	Description: "Asks the user a question, and waits for the answer. Use it only if you cannot go on without it.",
	Schema:      jsontext.Value(`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"],"additionalProperties":false}`),
}

func (b *toolbox) isQuestion(name string) bool {
	return name == questionTool.Name && b.byName[name] == nil
}

// plan returns the calls of a response, and the results of the calls that cannot be made: of unknown
// tools, with arguments that are not an object, or cut off.
func (b *toolbox) plan(r *model.Response) (calls []Call, results []entry) {
	for i := range r.Calls {
		made := &r.Calls[i]
		c := Call{ID: made.ID, Name: text.Cut(made.Name, text.MaxQuoted), Status: CallPlanned}
		if problem := b.checkCall(made, r.Stop); problem != "" {
			c.Status = CallDone
			results = append(results, entry{Kind: entryResult, Call: i, Name: c.Name, Result: serverResult(made, problem)})
		} else {
			c.Name = made.Name
			c.Idempotent = b.isIdempotent(made.Name)
		}
		calls = append(calls, c)
	}
	return calls, results
}

// checkCall returns why a call cannot be made, for the model; "" if it can.
func (b *toolbox) checkCall(c *model.ToolCall, stop model.Stop) string {
	switch {
	case stop == model.StopLength:
		return "This call was not made: your message reached the limit of tokens, and its calls may be incomplete. Write a shorter message."
	case !b.offers(c.Name):
		return fmt.Sprintf("This call was not made: there is no tool %s. Use one of the available tools.", quoteName(c.Name))
	}
	if _, err := argumentsOf(c); err != nil {
		return err.Error()
	}
	return ""
}

// isIdempotent reports whether a call may be repeated. A question may: it has no effect before the
// run waits.
func (b *toolbox) isIdempotent(name string) bool {
	t := b.byName[name]
	return t == nil || t.Idempotent
}
