package app

import (
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
)

// toolFraming is the approximate size in bytes of a tool's JSON without its texts and
// schema: member names, annotations and punctuation.
const toolFraming = 120

// EstimateTokens estimates how many tokens of a model's input the list of tools takes, without response
// schemas: whether a toolset has these depends on all its endpoints, and few lists show them.
func EstimateTokens(toolset *tools.Toolset) int {
	total := 0
	for _, tool := range toolset.Tools() {
		total += ToolTokens(tool)
	}
	return total
}

// ToolTokensBefore estimates the tokens of one tool as it was before shapes and shortened descriptions.
func ToolTokensBefore(tool *tools.Tool) int {
	return (tool.Unshaped.Size + toolFraming) / result.BytesPerToken
}

// ResponseTokens estimates the tokens of the response schemas, for a list that shows them.
func ResponseTokens(toolset *tools.Toolset) int {
	total := 0
	for _, tool := range toolset.Tools() {
		total += len(tool.Output.Schema) / result.BytesPerToken
	}
	return total
}

// ToolTokens estimates the tokens of one tool, as EstimateTokens counts it.
func ToolTokens(tool *tools.Tool) int {
	return (len(tool.Name) + len(tool.Definition.Title) + len(tool.Definition.Description) + len(tool.Definition.InputSchema) + toolFraming) / result.BytesPerToken
}
