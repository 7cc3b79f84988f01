package stream

import "github.com/go-json-experiment/json/jsontext"

// Kind says what an Event tells.
type Kind int

// The kinds of events that are told as they arrive. A result is not told: it is
// what the call returns.
const (
	Progress Kind = iota + 1 // how far the API has got
	Log                      // a line of its log
	Content                  // a part of the answer
)

// An Event is what a streaming answer says before its end. What its values point
// to is good only until the listener returns.
type Event struct {
	Kind Kind

	// Progress and Total are JSON numbers. Progress is what the stream says. A
	// stream that says none is counted: content, and progress without a number,
	// is one step each. It is nil where the stream counts itself and this event
	// has no number, and Total where the stream does not tell one.
	Progress, Total jsontext.Value

	// Message is what a person may read about the progress.
	Message string

	// Level of a log event is "debug", "info", "notice", "warning", "error",
	// "critical", "alert" or "emergency" (RFC 5424 as MCP writes it), Logger the
	// name of its source or "".
	Level, Logger string

	// Data is the JSON value of a log or content event, on one line; of text that
	// is not JSON, it is a JSON string.
	Data jsontext.Value
}
