package modelapi

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

var errBlock = errors.New("a content block does not begin where it should")

// messagesResponse is a response that is one JSON document, or the beginning of a stream.
type messagesResponse struct {
	Content    []responseBlock `json:"content"`
	StopReason string          `json:"stop_reason"`
	Usage      anthropicUsage  `json:"usage"`
}

// responseBlock is a content block of a response, or a piece of one.
type responseBlock struct {
	Type        string         `json:"type"`
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Data        string         `json:"data"`
	Text        string         `json:"text"`
	Thinking    string         `json:"thinking"`
	Signature   string         `json:"signature"`
	Input       jsontext.Value `json:"input"`        // of a whole block
	PartialJSON string         `json:"partial_json"` // of a piece
}

// anthropicUsage counts tokens. What was in the cache is counted separately.
type anthropicUsage struct {
	InputTokens              *int64 `json:"input_tokens"` // may be missing at the end of a stream
	CacheReadInputTokens     int64  `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64  `json:"cache_creation_input_tokens"`
	OutputTokens             int64  `json:"output_tokens"`
}

// anthropicEvent is an event of a stream.
type anthropicEvent struct {
	Type         string           `json:"type"`
	Message      messagesResponse `json:"message"` // message_start
	Index        int              `json:"index"`
	ContentBlock responseBlock    `json:"content_block"` // content_block_start
	Usage        anthropicUsage   `json:"usage"`         // message_delta
	Delta        struct {
		responseBlock        // content_block_delta
		StopReason    string `json:"stop_reason"` // message_delta
	} `json:"delta"`
}

// anthropicReader builds a response from the blocks of the API. It implements responseReader.
type anthropicReader struct {
	blocks []*partialBlock
	stop   string // "" until the response is complete
	usage  model.Usage
}

// partialBlock is a content block. text is its text, the reasoning, or the JSON of a call's arguments.
type partialBlock struct {
	kind, id, name, data string

	text, signature strings.Builder
}

// maxBlocks limits the blocks of a response: each call may have a text and reasoning before it.
const maxBlocks = 3*model.MaxCalls + 2

// ReadDocument implements responseReader.
func (a *anthropicReader) ReadDocument(content []byte) error {
	var message messagesResponse
	if err := json.Unmarshal(content, &message); err != nil {
		return err
	}
	for i := range message.Content {
		read := &message.Content[i]
		if err := a.begin(i, read); err != nil {
			return err
		}
		if read.Type == "tool_use" {
			a.blocks[i].text.Write(read.Input)
		}
		a.blocks[i].add(read)
	}
	a.stop = message.StopReason
	a.count(&message.Usage)
	return nil
}

// ReadEvent implements responseReader.
func (a *anthropicReader) ReadEvent(data []byte) (text string, err error) {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	switch e.Type {
	case "message_start":
		a.count(&e.Message.Usage)
	case "content_block_start":
		return "", a.begin(e.Index, &e.ContentBlock)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(a.blocks) {
			return "", errBlock
		}
		a.blocks[e.Index].add(&e.Delta.responseBlock)
		return e.Delta.Text, nil
	case "message_delta":
		a.stop = e.Delta.StopReason
		a.count(&e.Usage)
	case "message_stop":
		return "", io.EOF
	case "error":
		return "", eventError(data)
	}
	return "", nil
}

// begin adds a block.
func (a *anthropicReader) begin(index int, b *responseBlock) error {
	if index != len(a.blocks) {
		return errBlock
	}
	if index >= maxBlocks {
		return model.Errorf(model.KindTooLarge, "the response has more than %d content blocks", maxBlocks)
	}
	a.blocks = append(a.blocks, &partialBlock{kind: b.Type, id: b.ID, name: b.Name, data: b.Data})
	return nil
}

// add adds a piece to a block.
func (b *partialBlock) add(piece *responseBlock) {
	b.text.WriteString(piece.Text)
	b.text.WriteString(piece.Thinking)
	b.text.WriteString(piece.PartialJSON)
	b.signature.WriteString(piece.Signature)
}

// count sets the usage to the totals of u.
func (a *anthropicReader) count(u *anthropicUsage) {
	a.usage.OutputTokens = u.OutputTokens
	if u.InputTokens != nil {
		a.usage.InputTokens = *u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		a.usage.CachedTokens = u.CacheReadInputTokens
	}
}

// Response implements responseReader.
func (a *anthropicReader) Response() (*model.Response, error) {
	if a.stop == "" {
		return nil, nil
	}
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
			parts = append(parts, thinkingBlock{"thinking", content, b.signature.String()})
		case "redacted_thinking":
			parts = append(parts, redactedBlock{"redacted_thinking", b.data})
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

// thinkingBlock is a block of reasoning, as the API expects it back.
type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// redactedBlock is a block of encrypted reasoning, as the API expects it back.
type redactedBlock struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// stopOf converts the reason to stop. An unknown reason counts as the end.
func stopOf(reason string) model.Stop {
	switch reason {
	case "tool_use":
		return model.StopTools
	case "max_tokens", "model_context_window_exceeded", "pause_turn":
		return model.StopLength
	case "refusal":
		return model.StopRefused
	}
	return model.StopEnd
}
