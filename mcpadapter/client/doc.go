// Package client calls MCP servers that toolsets are made from.
//
// A [Server] is one such server. It lists its tools ([Server.Discover]), from which [Discovery.Document] makes an
// OpenAPI document, and calls them ([Server.Call]). The server may speak any revision (negotiate.go):
//
//   - Up to 2025-11-25 a session is opened with initialize. If the server keeps state, each owner of calls has a
//     session of its own; otherwise all share one (sessions.go).
//   - From 2026-07-28 on, requests describe themselves.
//
// A link carries messages: Streamable HTTP (http.go), HTTP+SSE (http_sse.go) or the standard streams of a process
// (stdio.go, pipe.go).
//
// A server may need something from the client before it has a result. From 2026-07-28 on it returns input_required.
// Before, it sends a request while the call is in progress: the call is parked, the caller gets input_required with a
// reference to it, and the call goes on when the responses arrive (parked.go). A parked call is on one node.
//
// The transports of the official Go SDK are not used. They do not tell which call a message of the server belongs to,
// they read bodies without a limit, and one response that cannot be read ends all calls of the connection.
package client
