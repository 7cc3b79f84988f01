package result

// A tool protocol cannot pass on a raw stream, so a Reducer turns it into two things: events that are
// reported as they arrive, and one result at the end.
//
// The event name determines the kind of an event. If an event has no name, its
// JSON value determines it. The lines of NDJSON never have a name.
//
//	progress    event: progress      {"type":"progress",…}, {"progress":1,"total":5,"message":"…"}
//	log         event: log           {"type":"log",…}, {"level":"info","logger":"…","data":…}
//	result      event: result        {"type":"result","result":…}
//	MCP result  event: mcp-result    {"type":"mcp-result","result":{…}}
//	content     all others
//
// An object without "type" is progress or a log line only if it has no members
// other than those shown. With more members it is an object of the API that
// happens to use one of these names, and so it is content.
//
// A result event is the whole result: content events are then not part of it.
// Without a result event, the result is made of the content events. A single one
// is the result unchanged; several become lines of text.

import "github.com/go-json-experiment/json/jsontext"

// Kind is the kind of an Event.
type Kind int

// The kinds of events that are reported as they arrive. A result is not reported
// as an event: it is what the call returns.
const (
	Progress Kind = iota + 1 // how far the API has progressed
	Log                      // a line of the API's log
	Content                  // a part of the response
)

// An Event is one event of a stream, reported before the stream ends. Its byte
// slices are valid only until the listener returns.
type Event struct {
	Kind Kind

	// Progress and Total are JSON numbers.
	//
	// Progress is the number that the stream sent. If the stream sends no numbers,
	// Progress counts the steps instead: each content event, and each progress
	// event without a number, is one step. Progress is nil if the stream sends
	// numbers but this event has none.
	//
	// Total is nil if the stream did not send one.
	Progress, Total jsontext.Value

	// Message is a human-readable description of the progress.
	Message string

	// Level is the severity of a log event: "debug", "info", "notice", "warning",
	// "error", "critical", "alert" or "emergency" (RFC 5424, in MCP's spelling).
	// Logger is the name of the log's source, or "".
	Level, Logger string

	// Data is the JSON value of a log or content event, on one line. Text that is
	// not JSON becomes a JSON string.
	Data jsontext.Value
}
