package anthropic

import (
	"errors"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/model/internal/httpapi"
)

var (
	errNoMessage = errors.New("it is not a message with a stop_reason")
	errBlock     = errors.New("a content block does not begin where it should")
)

// readMessage converts a response that is one JSON document.
func readMessage(message *anthropic.Message) (*model.Response, error) {
	if message.StopReason == "" {
		return nil, errNoMessage
	}
	a := assembly{stop: message.StopReason, usage: usageOf(&message.Usage)}
	for i := range message.Content {
		read := &message.Content[i]
		if err := a.begin(int64(i), &block{kind: read.Type, id: read.ID, name: read.Name, data: read.Data}); err != nil {
			return nil, err
		}
		b := a.blocks[i]
		switch read.Type {
		case "text":
			b.text.WriteString(read.Text)
		case "thinking":
			b.text.WriteString(read.Thinking)
			b.signature.WriteString(read.Signature)
		case "tool_use":
			b.text.Write(read.Input)
		}
	}
	return a.response()
}

// readStream converts a streamed response. The SDK's own accumulator is not used: it replaces
// arguments that are not JSON, and its time grows with the square of the length.
func readStream(call *httpapi.Call, stream *ssestream.Stream[anthropic.MessageStreamEventUnion], onText func(string)) (*model.Response, error) {
	var a assembly
	for stream.Next() {
		event := stream.Current()
		switch event.Type {
		case "message_start":
			a.usage = usageOf(&event.Message.Usage)
		case "content_block_start":
			start := &event.ContentBlock
			if err := a.begin(event.Index, &block{kind: start.Type, id: start.ID, name: start.Name, data: start.Data}); err != nil {
				return nil, err
			}
		case "content_block_delta":
			if event.Index < 0 || event.Index >= int64(len(a.blocks)) {
				return nil, errBlock
			}
			b, delta := a.blocks[event.Index], &event.Delta
			b.text.WriteString(delta.Text)
			b.text.WriteString(delta.Thinking)
			b.text.WriteString(delta.PartialJSON)
			b.signature.WriteString(delta.Signature)
			if delta.Text != "" {
				onText(delta.Text)
			}
		case "message_delta":
			a.stop = event.Delta.StopReason
			a.updateUsage(&event.Usage)
		case "message_stop":
			return a.response()
		}
	}
	if a.stop != "" {
		return a.response() // all content has arrived
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return nil, call.Incomplete()
}

// usageOf returns the usage of a message. The API counts what was in the cache separately.
func usageOf(u *anthropic.Usage) model.Usage {
	return model.Usage{InputTokens: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, OutputTokens: u.OutputTokens}
}

// updateUsage sets the usage to the totals at the end of a stream. The number of input tokens may
// be missing there.
func (a *assembly) updateUsage(u *anthropic.MessageDeltaUsage) {
	a.usage.OutputTokens = u.OutputTokens
	if u.JSON.InputTokens.Valid() {
		a.usage.InputTokens = u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
	}
}

// assembly builds a response from the blocks of the API.
type assembly struct {
	blocks []*block
	stop   anthropic.StopReason
	usage  model.Usage
}

// block is a content block. text is its text, the reasoning, or the JSON of a call's arguments.
type block struct {
	kind, id, name, data string

	text, signature strings.Builder
}

// maxBlocks limits the blocks of a response: each call may have a text and reasoning before it.
const maxBlocks = 3*model.MaxCalls + 2

// begin adds a block.
func (a *assembly) begin(index int64, b *block) error {
	if index != int64(len(a.blocks)) {
		return errBlock
	}
	if index >= maxBlocks {
		return model.Errorf(model.KindTooLarge, "the response has more than %d content blocks", maxBlocks)
	}
	a.blocks = append(a.blocks, b)
	return nil
}

// response returns what has been built.
func (a *assembly) response() (*model.Response, error) {
	r := &model.Response{Usage: a.usage, Stop: stopOf(a.stop)}
	var text strings.Builder
	var parts []any // of the reasoning
	for _, b := range a.blocks {
		content := b.text.String()
		switch b.kind {
		case "text":
			text.WriteString(content)
		case "tool_use":
			r.Calls = append(r.Calls, model.ToolCall{ID: b.id, Name: b.name, Arguments: content})
		case "thinking":
			parts = append(parts, thinking{"thinking", content, b.signature.String()})
		case "redacted_thinking":
			parts = append(parts, redacted{"redacted_thinking", b.data})
		}
	}
	r.Text = text.String()
	for _, part := range parts {
		encoded, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		r.Reasoning = append(r.Reasoning, encoded)
	}
	return r, nil
}

// thinking is a block of reasoning, as the API expects it back.
type thinking struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// redacted is a block of encrypted reasoning, as the API expects it back.
type redacted struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// stopOf converts the reason to stop. An unknown reason counts as the end.
func stopOf(reason anthropic.StopReason) model.Stop {
	switch reason {
	case anthropic.StopReasonToolUse:
		return model.StopTools
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return model.StopLength
	case anthropic.StopReasonRefusal:
		return model.StopRefused
	}
	return model.StopEnd
}
