package agents

import "github.com/fairwayhq/fairway/ocp"

const (
	// bytesPerToken is what a token of English JSON has on average.
	bytesPerToken = 4

	// toolFraming is about what a tool's JSON has beside its texts and schema,
	// in bytes: the names of members, annotations, punctuation.
	toolFraming = 120
)

// estimateTokens returns about how many tokens a model pays for the list of a
// toolset's tools.
func estimateTokens(toolset *ocp.Toolset) int {
	total := 0
	for _, tool := range toolset.Tools() {
		total += toolTokens(tool)
	}
	return total
}

// toolTokens counts the schema of answers where there is one: the toolset has it only
// if the list has.
func toolTokens(tool *ocp.Tool) int {
	return (len(tool.Name) + len(tool.Title) + len(tool.Description) + len(tool.InputSchema) + len(tool.Answer.Schema) + toolFraming) / bytesPerToken
}
