// Package scripted is a Model that plays a script, for examples and demonstrations that must run
// without a key. It says in each answer that it is scripted.
//
// A script is a YAML file (script.go). The user's last message selects a conversation, and the
// number of the model's messages since then selects the step (choose). Texts and arguments may
// quote the user and the results of tools (placeholder.go). The Model has no state: the same
// conversation has the same next message after a restart and on every node.
package scripted

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// Notice begins each answer.
const Notice = "[This answer is scripted. No model was called.] "

// noConversation is the answer if the script has none for the user's message.
const noConversation = "The script has no answer to this message."

// Model plays a script.
type Model struct {
	conversations []conversation
}

// New returns a Model that plays the script. Errors name the line.
func New(script []byte) (*Model, error) {
	conversations, err := readScript(script)
	if err != nil {
		return nil, err
	}
	return &Model{conversations}, nil
}

// Generate implements model.Model. It reports text word by word.
func (m *Model) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := request.Check(); err != nil {
		return nil, model.Errorf(model.KindRequest, "%v", err)
	}
	response := &model.Response{Stop: model.StopEnd}
	v := valuesOf(request.Messages)
	s := m.choose(v)
	response.Text = v.replace(s.text)
	for i, c := range s.calls {
		arguments, err := v.arguments(c.arguments)
		if err != nil {
			return nil, model.Errorf(model.KindMalformed, "the script: line %d: %v", c.arguments.Line, err)
		}
		response.Calls = append(response.Calls, model.ToolCall{
			ID: fmt.Sprintf("call_%d_%d", len(request.Messages), i), Name: c.name, Arguments: string(arguments),
		})
		response.Stop = model.StopTools
	}
	if len(response.Calls) == 0 {
		response.Text = Notice + response.Text
	}
	response.Usage = model.EstimateUsage(request, response)
	if onText != nil {
		for word := range strings.SplitAfterSeq(response.Text, " ") {
			if word != "" {
				onText(word)
			}
		}
	}
	return response, nil
}

// choose returns the step for a conversation.
func (m *Model) choose(v *values) step {
	input := strings.ToLower(v.input)
	for i := range m.conversations {
		c := &m.conversations[i]
		if !strings.Contains(input, c.when) {
			continue
		}
		return c.steps[min(v.step, len(c.steps)-1)]
	}
	return step{text: noConversation}
}

// Interface guard
var _ model.Model = (*Model)(nil)
