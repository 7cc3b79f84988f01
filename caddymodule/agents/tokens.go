package agents

import (
	"github.com/fairwayhq/fairway/internal/answer"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// toolFraming is the approximate size in bytes of a tool's JSON without its texts and
// schema: member names, annotations and punctuation.
const toolFraming = 120

// EstimateTokens estimates how many tokens of a model's input the list of tools takes.
func EstimateTokens(toolset *tool.Toolset) int {
	total := 0
	for _, tool := range toolset.Tools() {
		total += ToolTokens(tool)
	}
	return total
}

// ToolTokensBefore estimates the tokens of one tool as it was before shapes and shortened descriptions.
func ToolTokensBefore(tool *tool.Tool) int {
	return (tool.Unshaped.Size + len(tool.Response.Schema) + toolFraming) / answer.BytesPerToken
}

// ToolTokens estimates the tokens of one tool. The response schema counts if the toolset has
// it, because only then is it listed.
func ToolTokens(tool *tool.Tool) int {
	return (len(tool.Name) + len(tool.Title) + len(tool.Description) + len(tool.InputSchema) + len(tool.Response.Schema) + toolFraming) / answer.BytesPerToken
}
