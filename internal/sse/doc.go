// Package sse reads and writes streams of server-sent events (WHATWG HTML, section 9.2), for MCP, the APIs of models,
// runs of agents and streamed responses of APIs.
//
// A stream is a sequence of lines that end with CR, LF or CRLF. An event is a group of lines "field: value", which an
// empty line ends. A line that begins with a colon is a comment.
//
//   - [Parser] takes a stream in pieces, as they arrive. [Events] reads one from an io.Reader.
//   - [Writer] sends events as the response of an HTTP request. [AppendEvent] encodes one.
//
// Readers limit the size of an event. They ignore the fields id and retry, which are for clients that reconnect:
// the gateway does not repeat a request whose response has begun.
package sse
