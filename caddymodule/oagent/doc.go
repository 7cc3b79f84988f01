// Package oagent implements the directive oagent. It enforces OpenAgentSpec documents on
// requests to an API. The rules are in package github.com/fairwayhq/fairway/oagent; this
// package adapts them to Caddy.
//
// Data passes through it in this order:
//
//   - When the configuration is loaded, Handler reads the agent documents (files.go) and links
//     their capabilities to the tools of the site's toolsets (link.go).
//   - For each request, Handler creates a passage (guarded_request.go). The passage finds the
//     agent and the operation, calls Guard.Begin, and passes the request on or refuses it
//     (refusal.go).
//   - Before the response is released, the passage calls Ticket.Finish. The response of a tool
//     call is checked in its recorder (call.go). The response of a plain request is held in
//     memory until it is checked (answer.go, outputs.go).
//
// The package also serves endpoints for agents, Engagements and reviews (endpoints*.go), calls
// agents that review (reviewer*.go), applies guardrails to traffic to model APIs (chat*.go),
// and provides the command `caddy oagent` (command.go).
package oagent
