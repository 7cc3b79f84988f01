// Package stream reads answers that arrive bit by bit: event streams (WHATWG
// HTML, section 9.2, Server-sent events) and JSON by lines (NDJSON). It makes of
// them the two things that a tool protocol can pass on: events that are told as
// they arrive, and one result in the end.
//
// Data passes through it like this. Whoever receives an answer asks [FormatOf] its
// Content-Type, and writes the bytes as they come into a [Reducer]. That cuts them
// into events, decides of each what it is, tells a listener of progress, logs and
// content, and keeps in a buffer what belongs to the result. Finish says what
// the buffer then holds.
//
// What an event is, its name decides, or, where an event of a stream has none and
// in lines of JSON, its value:
//
//	progress    event: progress      {"type":"progress",…}, {"progress":1,"total":5,"message":"…"}
//	log         event: log           {"type":"log",…}, {"level":"info","logger":"…","data":…}
//	result      event: result        {"type":"result","result":…}
//	MCP result  event: mcp-result    {"type":"mcp-result","result":{…}}
//	content     all others
//
// An object without "type" is progress or a log only if it has no members but
// these: one that has more is an object of the API which happens to have a member
// of that name. A result is the whole result, and what else there was of content
// is none of it. Without one, a single event of content is the result as it is, and
// several are lines of text.
package stream
