package model

// Usage is the number of tokens that a request took.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"` // including those that the API had cached
	OutputTokens int64 `json:"output_tokens"`

	// Estimated reports that the API did not say how many tokens it took. The numbers are
	// estimated from the texts then, so that limits of tokens apply nevertheless.
	Estimated bool `json:"estimated,omitzero"`
}

// Total returns the sum of input and output tokens.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }

// Add returns the sum of two usages.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		InputTokens:  u.InputTokens + other.InputTokens,
		OutputTokens: u.OutputTokens + other.OutputTokens,
		Estimated:    u.Estimated || other.Estimated,
	}
}

// bytesPerToken is a common average for English text and JSON.
const bytesPerToken = 4

// EstimateUsage estimates the tokens of a request and its response from their length.
func EstimateUsage(request *Request, response *Response) Usage {
	input := len(request.System)
	for i := range request.Messages {
		m := &request.Messages[i]
		input += len(m.Text) + lengthOfCalls(m.Calls)
		for _, result := range m.Results {
			input += len(result.Content)
		}
	}
	for i := range request.Tools {
		t := &request.Tools[i]
		input += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return Usage{
		InputTokens:  tokensOf(input),
		OutputTokens: tokensOf(len(response.Text) + lengthOfCalls(response.Calls)),
		Estimated:    true,
	}
}

func lengthOfCalls(calls []ToolCall) (length int) {
	for _, call := range calls {
		length += len(call.Name) + len(call.Arguments)
	}
	return length
}

func tokensOf(length int) int64 {
	return int64((length + bytesPerToken - 1) / bytesPerToken)
}
