// Package chat reads the requests and responses of model APIs for guardrails (OpenAgentSpec
// v1, guardrails): the user's input in a request, and the model's output in a response. It
// does not depend on Caddy, and it decides nothing.
//
// Data passes through it in this order:
//
//   - FormatOf derives the API from the request's path.
//   - ReadRequest extracts the user's texts from a request (request*.go).
//   - ReadAnswer extracts all text of the model from a response, which is a JSON document or a
//     stream of events (answer.go, text*.go, events.go).
//   - AppendError formats a refusal as an error of the API (fault.go).
//
// It fails closed: content that it cannot parse is an error, never an empty text, because
// unknown content may be exactly what a guardrail must block.
package chat

import "strings"

// Format is the protocol of a model API.
type Format int

// Formats.
const (
	Completions Format = iota + 1 // OpenAI's chat completions: POST …/chat/completions
	Responses                     // OpenAI's responses: POST …/responses
	Messages                      // Formats.
)

// FormatOf returns the format for the end of a path, or 0 for any other path.
func FormatOf(path string) Format {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Completions
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Messages
	}
	return 0
}
