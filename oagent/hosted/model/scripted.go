package model

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// scriptedNotice begins each answer that is not JSON.
const scriptedNotice = "[This answer is scripted. No model was called.] "

// noConversation is the answer if the script has none for the user's message.
const noConversation = "The script has no answer to this message."

// scripted is a Model that plays a script, for examples and demonstrations that must run
// without a key. It says in each answer that it is scripted, except in one that is JSON, which programs read.
//
// A script is a YAML file (script.go). The user's last message selects a conversation, and the
// number of the model's messages since then selects the step (choose). Texts and arguments may
// quote the user and the results of tools (placeholder.go). Scripted has no state: the same
// conversation has the same next message after a restart and on every node.
type scripted struct {
	conversations []conversation
}

// NewScripted returns a Scripted that plays the script. Errors name the line.
func NewScripted(script []byte) (*scripted, error) {
	conversations, err := readScript(script)
	if err != nil {
		return nil, err
	}
	return &scripted{conversations}, nil
}

// Generate implements Model. It reports text word by word.
func (m *scripted) Generate(ctx context.Context, request *Request, onText func(string)) (*Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := request.Check(); err != nil {
		return nil, Errorf(KindRequest, "%v", err)
	}
	response := &Response{Stop: StopEnd}
	v := valuesOf(request.Messages)
	s := m.choose(v)
	response.Text = v.replace(s.text)
	for i, c := range s.calls {
		arguments, err := v.arguments(c.arguments)
		if err != nil {
			return nil, Errorf(KindMalformed, "the script: line %d: %v", c.arguments.Line, err)
		}
		response.Calls = append(response.Calls, ToolCall{
			ID: fmt.Sprintf("call_%d_%d", len(request.Messages), i), Name: c.name, Arguments: string(arguments),
		})
		response.Stop = StopTools
	}
	if len(response.Calls) == 0 && !strictjson.Valid([]byte(response.Text)) {
		response.Text = scriptedNotice + response.Text
	}
	response.Usage = EstimateUsage(request, response)
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
func (m *scripted) choose(v *values) step {
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
var _ Model = (*scripted)(nil)
