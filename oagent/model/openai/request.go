package openai

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/model"
)

// chatRequest is the body of a request.
type chatRequest struct {
	Model         string         `json:"model"`
	Messages      []message      `json:"messages"`
	Tools         []tool         `json:"tools,omitempty"`
	Stream        bool           `json:"stream,omitzero"`
	StreamOptions *streamOptions `json:"stream_options,omitzero"`

	MaxTokens           int `json:"max_tokens,omitzero"`
	MaxCompletionTokens int `json:"max_completion_tokens,omitzero"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content,omitzero"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitzero"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string      `json:"type"`
	Function description `json:"function"`
}

type description struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

// encode returns the body of a request.
func (m *Model) encode(request *model.Request, names *model.Names, stream bool) ([]byte, error) {
	r := chatRequest{Model: m.options.Model, Stream: stream}
	if stream {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	limit := model.Limit(request.MaxTokens, m.options.MaxTokens)
	if m.limitMember == "max_tokens" {
		r.MaxTokens = limit
	} else {
		r.MaxCompletionTokens = limit
	}
	if request.System != "" {
		r.Messages = append(r.Messages, message{Role: "system", Content: &request.System})
	}
	for i := range request.Messages {
		r.Messages = appendMessages(r.Messages, &request.Messages[i], names)
	}
	for i := range request.Tools {
		t := &request.Tools[i]
		r.Tools = append(r.Tools, tool{"function", description{names.ToAPI(t.Name), t.Description, t.Parameters()}})
	}
	return json.Marshal(&r, jsontext.AllowInvalidUTF8(true)) // of the results of tools
}

// appendMessages appends a message. Each result of a tool is a message of its own in the API.
func appendMessages(to []message, m *model.Message, names *model.Names) []message {
	if m.Role == model.RoleTool {
		for _, result := range m.Results {
			content := result.Content
			if result.IsError {
				content = "Error: " + content // the API has no mark for it
			}
			to = append(to, message{Role: "tool", ToolCallID: result.CallID, Content: &content})
		}
		return to
	}
	out := message{Role: string(m.Role)}
	for i := range m.Calls {
		call := &m.Calls[i]
		out.ToolCalls = append(out.ToolCalls, toolCall{call.ID, "function", function{names.ToAPI(call.Name), string(call.Object())}})
	}
	if m.Text != "" || len(m.Calls) == 0 {
		out.Content = &m.Text
	}
	return append(to, out)
}
