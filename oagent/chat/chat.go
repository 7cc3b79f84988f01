// Package chat reads the traffic of model APIs as far as guardrails need it
// (OpenAgentSpec v1, guardrails): what the user says in a request, and what the
// model says in an answer. It knows neither Caddy nor who decides.
//
// FormatOf tells the API by its path. ReadRequest finds the user's texts in a
// request (request.go), Arguments puts a text to the tool that looks at it
// (arguments.go), and ReadAnswer collects all text that a model has written, from
// one JSON document or from a stream of events (answer.go, text.go, events.go).
// AppendError says a refusal in the words of the API (fault.go).
//
// What it cannot read is an error, never an empty text: whatever it does not know
// may be what a guardrail is there for.
package chat

import "strings"

// Format is an API that models are asked by.
type Format int

// Formats.
const (
	Completions Format = iota + 1 // OpenAI's chat completions: POST …/chat/completions
	Responses                     // OpenAI's responses: POST …/responses
	Messages                      // Anthropic's messages: POST …/messages
)

// FormatOf tells the API by the end of a path; it is 0 for another.
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

// String returns the name of the API.
func (f Format) String() string {
	switch f {
	case Completions:
		return "chat completions"
	case Responses:
		return "responses"
	case Messages:
		return "messages"
	}
	return "unknown"
}
