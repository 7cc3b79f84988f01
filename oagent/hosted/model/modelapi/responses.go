package modelapi

import (
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// NewResponses returns a Model behind OpenAI's Responses API: POST {base}/responses. Each request has the whole conversation, and
// the API stores nothing.
func NewResponses(options model.APIOptions) (*format, error) {
	options, err := options.WithDefaults(OpenAIBaseURL)
	if err != nil {
		return nil, err
	}
	return &format{
		Options: options, URL: strings.TrimRight(options.BaseURL, "/") + "/responses",
		SetKey: setOpenAIKey, Body: responsesBody, NewReader: func() responseReader { return new(responsesReader) },
	}, nil
}

// responsesRequest is the body of a request.
type responsesRequest struct {
	Model           string             `json:"model"`
	Instructions    string             `json:"instructions,omitzero"`
	Tools           []responsesTool    `json:"tools,omitempty"`
	Input           []any              `json:"input"` // responsesItem, or reasoning as the API sent it
	Store           bool               `json:"store"`
	Stream          bool               `json:"stream,omitzero"`
	MaxOutputTokens int                `json:"max_output_tokens,omitzero"`
	Temperature     *float64           `json:"temperature,omitempty"`
	Reasoning       *responsesThinking `json:"reasoning,omitempty"`
	Include         []string           `json:"include,omitempty"`
}

type responsesThinking struct {
	Effort string `json:"effort"`
}

// encryptedReasoning makes the API return the reasoning in a form that it understands later, although it stores nothing.
const encryptedReasoning = "reasoning.encrypted_content"

type responsesTool struct {
	Type string `json:"type"`
	functionDescription
	Strict bool `json:"strict"`
}

// responsesItem is an item of the input or of the output: a message, a function_call, or a function_call_output.
type responsesItem struct {
	Type      string         `json:"type"`
	Role      string         `json:"role,omitzero"`
	Content   jsontext.Value `json:"content,omitzero"` // of the input a string, of the output parts
	CallID    string         `json:"call_id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Arguments string         `json:"arguments,omitzero"`
	Output    *string        `json:"output,omitempty"`
}

// responsesBody returns the body of a request.
func responsesBody(o *model.APIOptions, request *model.Request, names *toolNames, stream bool) any {
	r := &responsesRequest{
		Model: o.Model, Instructions: request.System, Stream: stream, Temperature: o.Temperature,
		MaxOutputTokens: model.Limit(request.MaxTokens, o.MaxTokens),
	}
	if o.Effort != "" { // other models reject to include their reasoning
		r.Reasoning, r.Include = &responsesThinking{o.Effort}, []string{encryptedReasoning}
	}
	for i := range request.Tools {
		t := &request.Tools[i]
		r.Tools = append(r.Tools, responsesTool{Type: "function", functionDescription: functionDescription{names.ToAPI(t.Name), t.Description, t.Parameters()}})
	}
	for i := range request.Messages {
		r.Input = appendItems(r.Input, &request.Messages[i], names, o)
	}
	return r
}

// appendItems appends the items of a message.
func appendItems(to []any, message *model.Message, names *toolNames, o *model.APIOptions) []any {
	if message.Model == o.Model { // other models cannot read it
		for _, part := range message.Reasoning {
			to = append(to, part)
		}
	}
	if message.Text != "" {
		content, _ := jsontext.AppendQuote(nil, message.Text) // an error means invalid UTF-8, which it has replaced
		to = append(to, responsesItem{Type: "message", Role: string(message.Role), Content: content})
	}
	for i := range message.Calls {
		call := &message.Calls[i]
		to = append(to, responsesItem{Type: "function_call", CallID: call.ID, Name: names.ToAPI(call.Name), Arguments: string(call.Object())})
	}
	for _, result := range message.Results {
		content := result.Content
		if result.IsError {
			content = "Error: " + content // the API has no mark for it
		}
		to = append(to, responsesItem{Type: "function_call_output", CallID: result.CallID, Output: &content})
	}
	return to
}

// responsesDocument is a response. The last event of a stream has it too.
type responsesDocument struct {
	Status     string           `json:"status"`
	Output     []jsontext.Value `json:"output"` // responsesItem, or reasoning
	Error      jsontext.Value   `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
		Details      struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

// responsesReader reads a response. It implements responseReader.
type responsesReader struct{ document responsesDocument }

// ReadDocument implements responseReader.
func (a *responsesReader) ReadDocument(content []byte) error {
	if err := json.Unmarshal(content, &a.document); err != nil {
		return err
	}
	if a.document.Status == "failed" {
		return eventError(content)
	}
	return nil
}

// ReadEvent implements responseReader. The text arrives in pieces, and the last event has the whole response.
func (a *responsesReader) ReadEvent(data []byte) (added string, err error) {
	var e struct {
		Type     string         `json:"type"`
		Delta    jsontext.Value `json:"delta"`
		Response jsontext.Value `json:"response"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return plainText(e.Delta)
	case "response.completed", "response.incomplete", "response.failed":
		if err := a.ReadDocument(e.Response); err != nil {
			return "", err
		}
		return "", io.EOF
	case "error":
		return "", eventError(data)
	}
	return "", nil
}

// Response implements responseReader.
func (a *responsesReader) Response() (*model.Response, error) {
	d := &a.document
	if d.Status != "completed" && d.Status != "incomplete" {
		return nil, nil
	}
	r := &model.Response{Stop: model.StopEnd, Usage: model.Usage{
		InputTokens: d.Usage.InputTokens, OutputTokens: d.Usage.OutputTokens, CachedTokens: d.Usage.Details.CachedTokens,
	}}
	if d.Status == "incomplete" {
		r.Stop = model.StopLength
	}
	for _, raw := range d.Output {
		var item responsesItem
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, err
		}
		switch item.Type {
		case "reasoning":
			r.Reasoning = append(r.Reasoning, raw)
		case "function_call":
			r.Calls = append(r.Calls, model.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
		case "message":
			var parts []struct {
				Text    string `json:"text"`
				Refusal string `json:"refusal"`
			}
			if err := json.Unmarshal(item.Content, &parts); err != nil {
				return nil, err
			}
			for _, part := range parts {
				r.Text += part.Text + part.Refusal
				if part.Refusal != "" {
					r.Stop = model.StopRefused
				}
			}
		}
	}
	if d.Incomplete.Reason == "content_filter" {
		r.Stop = model.StopRefused
	}
	return r, nil
}
