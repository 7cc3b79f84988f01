package modelapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// OpenAIBaseURL is the API of OpenAI.
const OpenAIBaseURL = "https://api.openai.com/v1"

// openAI is a model behind an OpenAI-compatible API: POST {base}/chat/completions. OpenAI, vLLM, Ollama, llama.cpp,
// LiteLLM and many others serve it.
//
// The official SDK is not used: its client is one package with all of OpenAI's APIs. On linux/amd64 it adds 29 MB to a
// program of 98 MB, and reads settings from the environment.
type openAI struct {
	format

	// completionTokens is true if the limit of the response is sent as max_completion_tokens, not as max_tokens.
	completionTokens atomic.Bool
}

// NewOpenAI returns a Model.
func NewOpenAI(options model.APIOptions) (*openAI, error) {
	options, err := options.WithDefaults(OpenAIBaseURL)
	if err != nil {
		return nil, err
	}
	m := &openAI{format: format{
		Options: options, URL: strings.TrimRight(options.BaseURL, "/") + "/chat/completions",
		SetKey: setOpenAIKey, NewReader: func() responseReader { return new(chatReader) },
	}}
	m.completionTokens.Store(options.CompletionTokens || isOpenAI(options.BaseURL))
	return m, nil
}

// isOpenAI reports whether the API is OpenAI's own. Its newer models reject max_tokens, while
// compatible servers often know only that.
func isOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// Generate implements model.Model. If onText is not nil, the response is streamed. If the server rejects the
// member of the request that limits the response, the request is repeated with the other one.
func (m *openAI) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	completion := m.completionTokens.Load()
	response, err := m.generate(ctx, request, onText, completion)
	if !rejectsLimit(err, completion) {
		return response, err
	}
	if other, otherErr := m.generate(ctx, request, onText, !completion); otherErr == nil {
		m.completionTokens.Store(!completion)
		return other, nil
	}
	return nil, err
}

// rejectsLimit reports whether a server does not accept the member that limits the response.
func rejectsLimit(err error, completion bool) bool {
	e, ok := errors.AsType[*model.Error](err)
	return ok && e.Kind == model.KindRejected && strings.Contains(e.Message, limitMember(completion))
}

func limitMember(completion bool) string {
	if completion {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func (m *openAI) generate(ctx context.Context, request *model.Request, onText func(string), completion bool) (*model.Response, error) {
	api := m.format
	api.Body = func(o *model.APIOptions, request *model.Request, names *toolNames, stream bool) any {
		return openAIBody(o, request, names, stream, completion)
	}
	return api.Generate(ctx, request, onText)
}

func setOpenAIKey(header http.Header, key string) {
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
}

// Interface guard
var _ model.Model = (*openAI)(nil)

// chatRequest is the body of a request.
type chatRequest struct {
	Model         string         `json:"model"`
	Messages      []chatMessage  `json:"messages"`
	Tools         []chatTool     `json:"tools,omitempty"`
	Stream        bool           `json:"stream,omitzero"`
	StreamOptions *streamOptions `json:"stream_options,omitzero"`

	MaxTokens           int `json:"max_tokens,omitzero"`
	MaxCompletionTokens int `json:"max_completion_tokens,omitzero"`

	Temperature     *float64 `json:"temperature,omitempty"`
	ReasoningEffort string   `json:"reasoning_effort,omitzero"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role       string         `json:"role"`
	Content    *string        `json:"content,omitzero"`
	ToolCalls  []chatToolCall `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitzero"`
}

type chatToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string              `json:"type"`
	Function functionDescription `json:"function"`
}

type functionDescription struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

// openAIBody returns the body of a request. What does not change comes first and the messages follow in their order, so that the
// API finds the beginning of a longer conversation in its cache of prompts. With completion, the limit of the response is max_completion_tokens.
func openAIBody(o *model.APIOptions, request *model.Request, names *toolNames, stream, completion bool) *chatRequest {
	r := &chatRequest{Model: o.Model, Stream: stream, Temperature: o.Temperature, ReasoningEffort: o.Effort}
	if stream {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	limit := model.Limit(request.MaxTokens, o.MaxTokens)
	if completion {
		r.MaxCompletionTokens = limit
	} else {
		r.MaxTokens = limit
	}
	if request.System != "" {
		r.Messages = append(r.Messages, chatMessage{Role: "system", Content: &request.System})
	}
	for i := range request.Messages {
		r.Messages = appendMessages(r.Messages, &request.Messages[i], names)
	}
	for i := range request.Tools {
		t := &request.Tools[i]
		r.Tools = append(r.Tools, chatTool{"function", functionDescription{names.ToAPI(t.Name), t.Description, t.Parameters()}})
	}
	return r
}

// appendMessages appends a message. Each result of a tool is a message of its own in the API.
func appendMessages(to []chatMessage, m *model.Message, names *toolNames) []chatMessage {
	if m.Role == model.RoleTool {
		for _, result := range m.Results {
			content := result.Content
			if result.IsError {
				content = "Error: " + content // the API has no mark for it
			}
			to = append(to, chatMessage{Role: "tool", ToolCallID: result.CallID, Content: &content})
		}
		return to
	}
	out := chatMessage{Role: string(m.Role)}
	for i := range m.Calls {
		call := &m.Calls[i]
		out.ToolCalls = append(out.ToolCalls, chatToolCall{call.ID, "function", chatFunction{names.ToAPI(call.Name), string(call.Object())}})
	}
	if m.Text != "" || len(m.Calls) == 0 {
		out.Content = &m.Text
	}
	return append(to, out)
}
