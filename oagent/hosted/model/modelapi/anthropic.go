package modelapi

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// AnthropicBaseURL is the API of Anthropic.
const AnthropicBaseURL = "https://api.anthropic.com"

// anthropicVersion is the version of the API. Its format is that of this file and anthropic_response.go.
const anthropicVersion = "2023-06-01"

// NewAnthropic returns a Model behind Anthropic's Messages API: POST {base}/v1/messages. The base URL may end in /v1 or not.
func NewAnthropic(options model.APIOptions) (*format, error) {
	options, err := options.WithDefaults(AnthropicBaseURL)
	if err != nil {
		return nil, err
	}
	return &format{
		Options: options, URL: strings.TrimSuffix(strings.TrimRight(options.BaseURL, "/"), "/v1") + "/v1/messages",
		SetKey: setAnthropicKey, Body: anthropicBody, NewReader: func() responseReader { return new(anthropicReader) },
	}, nil
}

func setAnthropicKey(header http.Header, key string) {
	header.Set("Anthropic-Version", anthropicVersion)
	if key != "" {
		header.Set("X-Api-Key", key)
	}
}

// messagesRequest is the body of a request.
type messagesRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	Stream    bool               `json:"stream,omitzero"`
	System    []contentBlock     `json:"system,omitempty"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     []anthropicTool    `json:"tools,omitempty"`

	Temperature  *float64      `json:"temperature,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type anthropicMessage struct {
	Role    string `json:"role"`    // user or assistant
	Content []any  `json:"content"` // contentBlock, or one of the reasoning as the API sent it
}

// contentBlock is a block of a request: a text, a tool_use, or a tool_result.
type contentBlock struct {
	Type      string         `json:"type"`
	Text      string         `json:"text,omitzero"`
	ID        string         `json:"id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Input     jsontext.Value `json:"input,omitzero"`
	ToolUseID string         `json:"tool_use_id,omitzero"`
	Content   []contentBlock `json:"content,omitempty"`
	IsError   bool           `json:"is_error,omitzero"`

	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// cacheControl makes the API keep the request up to this block in its cache of prompts, for about five minutes. The next
// request that begins in the same way is read from it.
type cacheControl struct {
	Type string `json:"type"`
}

func cached() *cacheControl { return &cacheControl{"ephemeral"} }

type anthropicTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
}

func textBlock(text string) contentBlock { return contentBlock{Type: "text", Text: text} }

// anthropicBody returns the body of a request.
func anthropicBody(o *model.APIOptions, request *model.Request, names *toolNames, stream bool) any {
	r := &messagesRequest{Model: o.Model, MaxTokens: model.Limit(request.MaxTokens, o.MaxTokens), Stream: stream}
	r.Temperature = o.Temperature
	if o.Effort != "" {
		r.OutputConfig = &outputConfig{o.Effort}
	}
	if request.System != "" {
		block := textBlock(request.System)
		block.CacheControl = cached() // with the tools, which are before it
		r.System = []contentBlock{block}
	}
	lastUser := 0
	for i := range request.Messages {
		if request.Messages[i].Role == model.RoleUser {
			lastUser = i
		}
	}
	for i := range request.Messages {
		role := "user"
		if request.Messages[i].Role == model.RoleAssistant {
			role = "assistant"
		}
		// The API ignores the reasoning before the user's last message, and rejects empty messages.
		blocks := contentBlocks(&request.Messages[i], names, i > lastUser && isOwn(&request.Messages[i], o))
		if n := len(blocks); n > 0 {
			if last, ok := blocks[n-1].(contentBlock); ok && i == len(request.Messages)-1 {
				last.CacheControl = cached() // the next request repeats this one, and adds messages
				blocks[n-1] = last
			}
			r.Messages = append(r.Messages, anthropicMessage{role, blocks})
		}
	}
	for i := range request.Tools {
		t := &request.Tools[i]
		r.Tools = append(r.Tools, anthropicTool{names.ToAPI(t.Name), t.Description, t.Parameters()})
	}
	return r
}

// isOwn reports whether this model generated a message, whose reasoning other models cannot read.
func isOwn(message *model.Message, o *model.APIOptions) bool {
	return message.Model == "" || message.Model == o.Model
}

// contentBlocks returns the blocks of a message.
func contentBlocks(m *model.Message, names *toolNames, withReasoning bool) (blocks []any) {
	if withReasoning {
		for _, part := range m.Reasoning {
			blocks = append(blocks, part)
		}
	}
	if m.Text != "" {
		blocks = append(blocks, textBlock(m.Text))
	}
	for i := range m.Calls {
		call := &m.Calls[i]
		blocks = append(blocks, contentBlock{Type: "tool_use", ID: call.ID, Name: names.ToAPI(call.Name), Input: call.Object()})
	}
	for _, result := range m.Results {
		block := contentBlock{Type: "tool_result", ToolUseID: result.CallID, IsError: result.IsError}
		if result.Content != "" { // the API rejects empty texts
			block.Content = []contentBlock{textBlock(result.Content)}
		}
		blocks = append(blocks, block)
	}
	return blocks
}
