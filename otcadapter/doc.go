// Package otcadapter is a server of Open Tool Calling (OTC), and of OXP, its later name, for
// the Toolsets of OpenAPI documents. It uses net/http and does not depend on Caddy.
//
// The directive passes each request to Server.ServeHTTP (server.go) with a Site, which has the
// current Toolsets and the authenticated user. The endpoints are:
//
//   - GET /health reports whether the tools, and the API behind them, are available
//     (health.go).
//   - GET /tools returns the definitions of the tools, which are encoded once (catalog.go,
//     definition.go, requirement.go).
//   - POST /call and POST /tools/call run a tool (call.go).
//
// A call passes these steps: parse the request (call_request.go, call_context.go); find the tool
// for its id (catalog.go, version.go); collect the credentials that the tool needs
// (authorization.go); if the client sent a call_id, return the stored response of an earlier
// request (idempotent_call.go, package idempotency); run the tool through the Caller; encode the
// outcome without decoding the API's response (response_encoder.go, repair_hints.go).
//
// A request that is invalid in itself gets an error with a 4xx status (fault.go). A tool that
// fails gets status 200 with success false. The responses of /call and /tools/call differ in
// form (standard.go). A stored response is converted if the call is repeated at the other
// endpoint (response_convert.go).
package otcadapter
