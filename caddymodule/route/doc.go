// Package route runs tool calls through Caddy's handler chain.
//
// An Endpoint (endpoint.go) is the common part of mcp and otc: a path of the site and the
// toolsets that it serves, its Parts (parts.go). If there are several, Parts.Merge makes one toolset
// of them. Listings (listing.go) decides which of their tools clients see. For each client request the
// Endpoint makes a Caller (caller.go), the tools.Caller through which the adapters call tools. The
// Caller binds the arguments and passes the call to a dispatch (dispatch.go), which does three things:
//
//  1. It builds the REST request, called the inner request, and adds the client's headers
//     (dispatch.go), its OCP context and the operator's credentials.
//  2. It sends the inner request to the next handlers of the site with a Recorder
//     (recorder.go). The Recorder keeps the response up to a limit, or reads it event by
//     event if it is a stream (stream.go).
//  3. It decodes the response (encoding.go), removes injected credentials that an
//     API repeats in an error (conceal.go), and returns a tools.Result, or a tools.Failure
//     that tells a model how to proceed (failures.go).
//
// The Caller then shortens large responses (shorten.go, pager.go). It runs the tools that the gateway itself
// provides (builtin.go, made from builtin.yaml like the tools of any document). It records the outcome in the metrics, in the
// access log, and, unless the configuration has "calls off", among the kept calls (call_log.go).
//
// ToolsOnly is the directive `tools_only`, which rejects requests that are not tool calls (handler.go).
//
// When an Endpoint is created, package siteroutes checks the routes of the site around it.
package route
