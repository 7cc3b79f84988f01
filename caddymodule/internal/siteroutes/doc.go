// Package siteroutes inspects the routes of a site around a handler while Caddy provisions it, and
// afterwards: which handlers run before it and after it, and for which requests.
//
// Each tool endpoint has an Endpoint (endpoint.go). Its methods check the configuration:
//
//   - An endpoint that no request can reach is an error (unreachable.go), and so is a matcher after it that
//     has the same result for every request (tool_placeholders.go).
//   - There are warnings about an endpoint without an upstream (upstream.go), handlers that tool calls
//     bypass (bypass.go), endpoints that anonymous callers can use (open.go), and headers of handlers that do not
//     reach the API (dropped_headers.go).
//
// At run time, IsGuarded (guard.go) checks that a call of an agent passes the oagent handler of that agent.
//
// A CallChain (call_chain.go) finds the handlers that the tool calls of hosted agents pass.
//
// All of it begins with the positions of the handler in its lists of routes (position.go). Later routes still
// have their raw configuration then (raw.go). If the routes cannot be inspected, for example in
// a handler of a third party, there are no errors and no warnings.
package siteroutes
