// Package tool makes tools from an API's OpenAPI document and turns tool calls into HTTP
// requests.
//
// From a document to tools: [Build] reads a document and makes a [Tool] from each operation,
// with one flat object of arguments and one JSON Schema for it. The result is an immutable
// [Toolset]. Package loader rebuilds the Toolset when the document changes. Package merge
// makes one Toolset of those of several documents, with [Join].
//
// From a call to an outcome: a protocol adapter passes the tool's name and the raw arguments
// to a [Caller], which runs [Execute]. Execute finds the tool, validates the arguments and
// binds them to a [Call], sends the request that [Call.Request] builds through an [Invoker],
// and returns the [Result] in an [Outcome]. The adapter writes the Outcome in the format of
// its protocol.
package tool
