// Package tools makes tools from an API's OpenAPI document and turns tool calls into HTTP
// requests.
//
// From a document to tools: [Build] reads a document and makes a [Tool] from each operation, in phases (build.go),
// with one flat object of arguments and one JSON Schema for it. A Tool has three parts: its [Definition] is
// listed, its [Plan] makes the request of a call, and its [Output] says what the caller gets of the response. The
// result is an immutable [Toolset]. Package loader rebuilds the Toolset when the document changes. A [Merger] makes
// one Toolset of those of several documents, with [Join] (merge.go, names.go).
//
// From a call to an outcome: a protocol adapter passes the tool's name and the raw arguments
// to a [Caller], which runs [Execute]. Execute finds the tool, validates the arguments and
// binds them to a [Call], sends the request that [Call.Request] builds through an [Invoker],
// and returns the [Result] in an [Outcome]. The adapter writes the Outcome in the format of
// its protocol. [HTTPInvoker] sends requests directly to an API, for programs that have no handler chain.
// [PreviewOf] shows the request of a call without sending it and without its secrets.
package tools
