package modelserver

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// messages is the format of Anthropic's messages.
type messages struct{}

// maxMarks is the maximum number of blocks with cache_control.
const maxMarks = 4

// signature is that of a thinking block.
const signature = "c2lnbmF0dXJl"

// contentBlock is a part of a message in a request.
type contentBlock struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID string         `json:"tool_use_id"`
	Content   jsontext.Value `json:"content"`
	IsError   bool           `json:"is_error"`
	Thinking  string         `json:"thinking"`
	Signature string         `json:"signature"`

	CacheControl object `json:"cache_control"`
}

func (messages) read(r *Request) error {
	var body struct {
		Model     string         `json:"model"`
		Stream    bool           `json:"stream"`
		MaxTokens int            `json:"max_tokens"`
		System    []contentBlock `json:"system"`
		Messages  []struct {
			Role    string         `json:"role"`
			Content []contentBlock `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			InputSchema jsontext.Value `json:"input_schema"`
		} `json:"tools"`
		Temperature  *float64 `json:"temperature"`
		OutputConfig struct {
			Effort string `json:"effort"`
		} `json:"output_config"`
	}
	if err := json.Unmarshal(r.Body, &body, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	r.Model, r.Stream, r.MaxTokens, r.Temperature, r.Effort = body.Model, body.Stream, body.MaxTokens, body.Temperature, body.OutputConfig.Effort
	for _, block := range body.System {
		r.System += block.Text
		r.mark("system", &block)
	}
	for _, m := range body.Messages {
		message := Message{Role: m.Role}
		for _, block := range m.Content {
			r.mark(m.Role, &block)
			switch block.Type {
			case "text":
				if block.Text == "" {
					return errors.New("text content blocks must be non-empty")
				}
				message.Text += block.Text
			case "tool_use":
				message.Calls = append(message.Calls, Call{ID: block.ID, Name: block.Name, Arguments: string(block.Input)})
			case "tool_result":
				text, err := resultText(block.Content)
				if err != nil {
					return err
				}
				r.Messages = append(r.Messages, Message{Role: "tool", Text: text, CallID: block.ToolUseID, IsError: block.IsError})
			case "thinking":
				if block.Signature != signature {
					return errors.New("invalid signature in thinking block")
				}
			default:
				return errors.New("unknown type of block: " + block.Type)
			}
		}
		if message.Text != "" || len(message.Calls) > 0 {
			r.Messages = append(r.Messages, message)
		}
	}
	for _, t := range body.Tools {
		r.Tools = append(r.Tools, Tool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	if len(r.Marks) > maxMarks {
		return errors.New("a maximum of 4 blocks with cache_control may be provided")
	}
	if r.Model == "" || r.MaxTokens == 0 || len(r.Messages) == 0 {
		return errors.New("model, max_tokens and messages are required")
	}
	if r.Header.Get("Anthropic-Version") == "" {
		return errors.New("the header anthropic-version is required")
	}
	return nil
}

// mark notes that the API keeps the request up to a block in its cache.
func (r *Request) mark(role string, block *contentBlock) {
	if block.CacheControl != nil {
		r.Marks = append(r.Marks, role+" "+block.Type)
	}
}

// resultText returns the text of a tool's result: a string, or blocks of text.
func resultText(content jsontext.Value) (text string, err error) {
	if content.Kind() != '[' {
		err = json.Unmarshal(content, &text)
		return text, err
	}
	var blocks []contentBlock
	err = json.Unmarshal(content, &blocks)
	for _, block := range blocks {
		text += block.Text
	}
	return text, err
}

func (messages) errorOf(step *Step) object {
	return object{"type": "error", "error": object{"type": step.ErrorCode, "message": step.Error}}
}

func (m messages) writeError(w io.Writer, step *Step) {
	_, _ = io.WriteString(w, encode(m.errorOf(step)))
}

func (messages) stop(step *Step) string {
	return step.stop("tool_use", "end_turn")
}

// usage returns the usage. A part of the input was in the cache, which is counted separately.
func (messages) usage(step *Step) object {
	if step.NoUsage {
		return object{}
	}
	cached := step.InputTokens / 2
	return object{
		"input_tokens": step.InputTokens - cached, "cache_read_input_tokens": cached,
		"cache_creation_input_tokens": 0, "output_tokens": step.OutputTokens,
	}
}

func (m messages) writeDocument(w io.Writer, r *Request, step *Step) {
	content := []object{}
	if step.Thinking != "" {
		content = append(content, object{"type": "thinking", "thinking": step.Thinking, "signature": signature})
	}
	if step.Text != "" || step.Padding > 0 {
		content = append(content, object{"type": "text", "text": step.Text + paddingMark})
	}
	for _, call := range step.Calls {
		content = append(content, object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": jsontext.Value(call.Arguments)})
	}
	document := encode(object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": r.Model, "content": content,
		"stop_reason": m.stop(step), "stop_sequence": nil, "usage": m.usage(step),
	})
	writePadded(w, document, step.Padding)
}

func (m messages) writeStream(w *eventWriter, r *Request, step *Step) {
	usage := m.usage(step)
	if !step.NoUsage {
		usage["output_tokens"] = 1
	}
	w.event("message_start", object{"type": "message_start", "message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": r.Model, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}})
	w.event("ping", object{"type": "ping"})
	index := 0
	block := func(start object, deltas func(delta func(object))) {
		w.event("content_block_start", object{"type": "content_block_start", "index": index, "content_block": start})
		deltas(func(d object) {
			w.event("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": d})
		})
		w.event("content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	if step.Thinking != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""}, func(delta func(object)) {
			for _, piece := range pieces(step.Thinking, step.Pieces) {
				delta(object{"type": "thinking_delta", "thinking": piece})
			}
			delta(object{"type": "signature_delta", "signature": signature})
		})
	}
	if step.Text != "" || step.Padding > 0 {
		block(object{"type": "text", "text": ""}, func(delta func(object)) {
			w.texts(step, func(piece string) { delta(object{"type": "text_delta", "text": piece}) })
		})
	}
	if step.FailMidStream {
		w.event("error", m.errorOf(step))
		return
	}
	if !wait(w.ctx, step.WaitMidStream) {
		return
	}
	for _, call := range step.Calls {
		block(object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": object{}}, func(delta func(object)) {
			for _, piece := range pieces(call.Arguments, step.Pieces) {
				delta(object{"type": "input_json_delta", "partial_json": piece})
			}
		})
	}
	event := object{"type": "message_delta", "delta": object{"stop_reason": m.stop(step), "stop_sequence": nil}}
	if !step.NoUsage {
		event["usage"] = object{"output_tokens": step.OutputTokens}
	}
	w.event("message_delta", event)
	w.event("message_stop", object{"type": "message_stop"})
}
