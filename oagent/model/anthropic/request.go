package anthropic

import (
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/fairwayhq/fairway/oagent/model"
)

// params returns the parameters of a request.
func (m *Model) params(request *model.Request, names *model.Names) anthropic.MessageNewParams {
	params := anthropic.MessageNewParams{
		Model:     m.options.Model,
		MaxTokens: int64(model.Limit(request.MaxTokens, m.options.MaxTokens)),
	}
	if request.System != "" {
		params.System = []anthropic.TextBlockParam{{Text: request.System}}
	}
	lastUser := 0
	for i := range request.Messages {
		if request.Messages[i].Role == model.RoleUser {
			lastUser = i
		}
	}
	for i := range request.Messages {
		// The API ignores the reasoning before the user's last message.
		blocks := contentBlocks(&request.Messages[i], names, i > lastUser)
		switch {
		case len(blocks) == 0: // the API rejects empty messages
		case request.Messages[i].Role == model.RoleAssistant:
			params.Messages = append(params.Messages, anthropic.NewAssistantMessage(blocks...))
		default:
			params.Messages = append(params.Messages, anthropic.NewUserMessage(blocks...))
		}
	}
	for i := range request.Tools {
		t := &request.Tools[i]
		described := &anthropic.ToolParam{
			Name:        names.ToAPI(t.Name),
			InputSchema: param.Override[anthropic.ToolInputSchemaParam](json.RawMessage(t.Parameters())),
		}
		if t.Description != "" {
			described.Description = param.NewOpt(t.Description)
		}
		params.Tools = append(params.Tools, anthropic.ToolUnionParam{OfTool: described})
	}
	return params
}

// contentBlocks returns the blocks of a message.
func contentBlocks(m *model.Message, names *model.Names, withReasoning bool) (blocks []anthropic.ContentBlockParamUnion) {
	if withReasoning {
		for _, part := range m.Reasoning {
			blocks = append(blocks, param.Override[anthropic.ContentBlockParamUnion](json.RawMessage(part)))
		}
	}
	if m.Text != "" {
		blocks = append(blocks, anthropic.NewTextBlock(m.Text))
	}
	for i := range m.Calls {
		call := &m.Calls[i]
		blocks = append(blocks, anthropic.NewToolUseBlock(call.ID, json.RawMessage(call.Object()), names.ToAPI(call.Name)))
	}
	for _, result := range m.Results {
		blocks = append(blocks, anthropic.NewToolResultBlock(result.CallID, result.Content, result.IsError))
	}
	return blocks
}
