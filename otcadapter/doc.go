// Package otcadapter is a server of Open Tool Calling (OTC), and of OXP, its later name, for
// the Toolsets of OpenAPI documents. It uses net/http and does not depend on Caddy.
//
// The directive passes each request to Server.ServeHTTP with a Site, which has the current
// Toolsets and the authenticated user. The endpoints are:
//
//   - GET /health reports whether the tools, and the API behind them, are available
//     (health.go).
//   - GET /tools returns the definitions of the tools, which are encoded once (catalog.go,
//     definition.go, requirement.go).
//   - POST /call and POST /tools/call run a tool.
//
// A call passes these steps: parse the request (request.go, context.go); find the tool for its
// id (catalog.go, version.go); collect the credentials that the tool needs (requirement.go); if
// the client sent a call_id, return the stored response of an earlier request (once.go,
// record.go); run the tool through the Caller; encode the outcome without decoding the API's
// response (answer.go, advice.go).
//
// A request that is invalid in itself gets an error with a 4xx status (fault.go). A tool that
// fails gets status 200 with success false. The responses of /call and /tools/call differ in
// form (standard.go).
package otcadapter
