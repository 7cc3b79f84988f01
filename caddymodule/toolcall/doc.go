// Package toolcall runs tool calls through Caddy's handler chain.
//
// An Endpoint (endpoint.go) is what mcp and otc have in common: a path of the site
// and the toolset that is served there. For each request it makes a caller
// (caller.go), the ocp.Caller that the adapters call tools with. The caller binds the
// arguments and hands the call to a dispatch (dispatch.go), which
//
//  1. builds the REST request, the inner request, and adds what belongs to the client
//     (headers.go), to its OCP context (context_layer.go) and to the operator
//     (credentials);
//  2. sends it to the next handlers of the site with a Recorder (recorder.go), which
//     keeps the response up to a limit, or follows it while it streams (stream.go);
//  3. decodes the response (encoding.go, charset.go), conceals credentials that an API
//     repeats in an error (conceal.go), and returns an ocp.Result, or an ocp.Failure
//     that tells a model what to do (failures.go).
//
// The rest of the package warns at start about sites that would not work as they look:
// nothing behind an endpoint, endpoints that cannot be reached, handlers that tool calls
// bypass, endpoints that are open.
package toolcall
