package anthropic

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/model/internal/httpapi"
)

var errBlock = errors.New("a content block does not begin where it should")

// response is a response that is one JSON document, or the beginning of a stream.
type response struct {
	Content    []responseBlock `json:"content"`
	StopReason string          `json:"stop_reason"`
	Usage      usage           `json:"usage"`
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

// usage counts tokens. What was in the cache is counted separately.
type usage struct {
	InputTokens              *int64 `json:"input_tokens"` // may be missing at the end of a stream
	CacheReadInputTokens     int64  `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64  `json:"cache_creation_input_tokens"`
	OutputTokens             int64  `json:"output_tokens"`
}

// event is an event of a stream.
type event struct {
	Type         string        `json:"type"`
	Message      response      `json:"message"` // message_start
	Index        int           `json:"index"`
	ContentBlock responseBlock `json:"content_block"` // content_block_start
	Usage        usage         `json:"usage"`         // message_delta
	Delta        struct {
		responseBlock        // content_block_delta
		StopReason    string `json:"stop_reason"` // message_delta
	} `json:"delta"`
}

// reader builds a response from the blocks of the API. It implements httpapi.Reader.
type reader struct {
	blocks []*block
	stop   string // "" until the response is complete
	usage  model.Usage
}

// block is a content block. text is its text, the reasoning, or the JSON of a call's arguments.
type block struct {
	kind, id, name, data string

	text, signature strings.Builder
}

// maxBlocks limits the blocks of a response: each call may have a text and reasoning before it.
const maxBlocks = 3*model.MaxCalls + 2

// ReadDocument implements httpapi.Reader.
func (a *reader) ReadDocument(content []byte) error {
	var message response
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

// ReadEvent implements httpapi.Reader.
func (a *reader) ReadEvent(data []byte) (text string, err error) {
	var e event
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
		return "", httpapi.Fault(data)
	}
	return "", nil
}

// begin adds a block.
func (a *reader) begin(index int, b *responseBlock) error {
	if index != len(a.blocks) {
		return errBlock
	}
	if index >= maxBlocks {
		return model.Errorf(model.KindTooLarge, "the response has more than %d content blocks", maxBlocks)
	}
	a.blocks = append(a.blocks, &block{kind: b.Type, id: b.ID, name: b.Name, data: b.Data})
	return nil
}

// add adds a piece to a block.
func (b *block) add(piece *responseBlock) {
	b.text.WriteString(piece.Text)
	b.text.WriteString(piece.Thinking)
	b.text.WriteString(piece.PartialJSON)
	b.signature.WriteString(piece.Signature)
}

// count sets the usage to the totals of u.
func (a *reader) count(u *usage) {
	a.usage.OutputTokens = u.OutputTokens
	if u.InputTokens != nil {
		a.usage.InputTokens = *u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
	}
}

// Response implements httpapi.Reader.
func (a *reader) Response() (*model.Response, error) {
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
