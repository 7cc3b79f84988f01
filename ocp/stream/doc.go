// Package stream reads streamed responses: event streams (WHATWG HTML, section
// 9.2, Server-sent events) and newline-delimited JSON (NDJSON). A tool protocol
// cannot pass on a raw stream, so the package turns it into two things: events
// that are reported as they arrive, and one result at the end.
//
// Data passes through it in four steps:
//
//  1. The caller passes the response's Content-Type to [FormatOf].
//  2. It writes the received bytes, in chunks of any size, to a [Reducer].
//  3. The Reducer splits the bytes into events and classifies each one. It reports
//     progress, logs and content to a listener, and collects the result in a buffer.
//  4. [Reducer.Finish] returns the media type of the result in the buffer.
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
package stream
