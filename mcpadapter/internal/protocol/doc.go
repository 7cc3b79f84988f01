// Package protocol has what MCP prescribes for each message, without the methods:
//
//   - the published revisions and their features, and the one that a message uses (revision.go)
//   - the capabilities that a client declares (capabilities.go), and the headers that repeat arguments
//     (argument_header.go)
//   - the envelopes of JSON-RPC 2.0, and its error responses with their HTTP status: Fault (fault.go)
//   - which HTTP requests are served: method, media types, origin, host, size, scopes (request.go, pages.go,
//     scopes.go)
//   - text in HTTP headers: =?base64?…?= (headervalue.go; MCP 2026-07-28, Streamable HTTP, Value Encoding)
//   - messages to the client: server-sent events, lines, progress and log messages at a limited rate
//     (reporter.go, package internal/sse)
package protocol
