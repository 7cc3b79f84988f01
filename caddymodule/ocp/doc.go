// Package ocp is the directive `ocp`, an Open Context Protocol layer (Level 2) in front of an
// API.
//
// The Handler (handler.go) reads the OCP headers of a request, drops invalid ones, and forwards
// the others (forward.go).
//
//   - If the context is valid, the contextWriter (context_writer.go) is the response writer of the
//     request. It adds the reply to the response header. A JSON response that gets further
//     properties is held until its end (buffered_response.go, etag.go).
//   - If the context is not valid, the response passes unchanged, except for Vary (vary.go).
//
// Inner requests of tool calls start after this handler. The handler leaves a layer for them,
// so that they pass a contextWriter of their own (tool_call.go).
//
// The package also has the matcher `ocp` (matcher.go) and the discovery document (discovery.go). The command
// `caddy ocp` is the package command below it.
package ocp
