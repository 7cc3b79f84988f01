// Package otc is the directive `otc`. It serves one or more toolsets to clients of Open Tool
// Calling with package otcadapter.
//
// The Handler (handler.go) recognizes requests below the endpoint's path and passes others on.
// For each of its requests it builds an otcadapter.Site (serve.go): the current tools of each
// toolset, a caller that runs tool calls through the next handlers (package route), the
// authenticated user, and the health of the API. The adapter then handles the request and
// writes the response.
//
// Config of package idempotency configures how calls with a call_id are recorded in the store of the
// agents app. caddyfile.go reads the directive.
package otc
