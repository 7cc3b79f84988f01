// Package siteroutes inspects the routes of a site around a handler while Caddy provisions it, and
// afterwards: which handlers run before it and after it, and for which requests.
//
// Each tool endpoint has an Endpoint (endpoint.go). Its methods check the configuration:
//
//   - A matcher after it that has the same result for every request is an error (tool_placeholders.go).
//   - There are warnings about endpoints that anonymous callers can use (open.go), and headers of handlers that do not reach the
//     API (dropped_headers.go).
//
// When all handlers are provisioned, imaginary tool calls (imagined.go) follow the routes after each endpoint (way.go, try.go).
// There is an error if all are refused, or if no request can reach the endpoint (unreachable.go), and there are warnings about calls
// that are refused or get no response, and about handlers before the endpoint that tool calls bypass (bypass.go).
//
// At run time, IsGuarded (guard.go) checks in the same way that a call of an agent passes the oagent handler of that agent.
//
// A CallChain (call_chain.go) finds the handlers that the tool calls of hosted agents pass.
//
// All of it begins with the positions of the handler in its lists of routes (position.go). While the handler is provisioned, later
// routes still have their raw configuration (raw.go). If the routes cannot be inspected, for example in
// a handler of a third party, there are no errors and no warnings.
package siteroutes
