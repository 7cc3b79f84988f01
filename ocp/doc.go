// Package ocp makes tools from an API's OpenAPI document and turns tool calls into HTTP
// requests. It also implements the context headers of the Open Context Protocol (OCP). It
// does not depend on Caddy.
//
// From a document to tools: [Build] reads a document (package ocp/internal/openapi) and makes a
// [Tool] from each operation, with one flat object of arguments and one JSON Schema for it
// (package ocp/internal/schema). The result is an immutable [Toolset]. A [Loader] rebuilds the
// Toolset when the document changes.
//
// From a call to an outcome: a protocol adapter passes the tool's name and the raw
// arguments to a [Caller], which runs [Execute]. Execute finds the tool, validates the
// arguments and binds them to a [Call], sends the request that [Call.Request] builds
// (packages ocp/internal/style and ocp/internal/body) through an [Invoker], and returns the [Result] in an
// [Outcome]. The adapter writes the Outcome in the format of its protocol.
//
// From a request to a tool: [Routes] finds the operation of a plain REST request, and
// [Tool.ReadRequest] reads the arguments back from it.
//
// The agent's context: [ReadIncoming] reads the OCP headers of a request and decodes the
// [Session] only when its [Context] is needed. [Incoming.Reply] makes the context of the
// response. On the agent's side, a [Discovery] finds tools and a [Client] calls them; a
// [Transport] adds OCP to any http.Client. Both send a [SharedContext] with each request
// and merge the context of the response into it.
package ocp
