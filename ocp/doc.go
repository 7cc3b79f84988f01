// Package ocp turns an API's OpenAPI document into the tools of the Open Context
// Protocol, and calls of those tools into HTTP requests. It knows no Caddy.
//
// Data passes through it like this. [Build] reads a document (package
// ocp/openapi), makes every operation a [Tool] with one flat object of arguments
// and one JSON Schema for it (package ocp/schema), and returns an immutable
// [Toolset]. A [Loader] keeps one Toolset current while its document changes.
//
// A protocol adapter hands a tool's name and its raw arguments to a [Caller].
// [Execute] is what a Caller does: it finds the tool, binds the arguments to a
// [Call] (defaults, validation), lets an [Invoker] send the request that
// [Call.Request] builds (packages ocp/style and ocp/body), and judges the
// [Result] in an [Outcome] that every protocol can put in its own words.
//
// The other half of the protocol is what an agent says of itself. [ReadIncoming]
// takes the OCP headers of a request, each for itself, and leaves the [Session]
// encoded until somebody asks for its [Context]; [Incoming.Reply] is what an
// answer says back. On an agent's side a [Discovery] finds tools, and a [Client]
// calls them, or any http.Client does with a [Transport]: a [SharedContext] goes
// out with each request, and what comes back is merged into it.
package ocp
