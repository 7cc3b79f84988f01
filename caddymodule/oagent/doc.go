// Package oagent implements the directive oagent. It enforces OpenAgentSpec documents on
// requests to an API. The rules are in package github.com/fairwayhq/fairway/oagent; this
// package applies them to requests in Caddy's handler chain.
//
// When the configuration is loaded, Handler loads the agent documents (provision.go) and
// rejects documents that the configuration does not support (check_agents.go). A request to the
// API then passes these phases (Handler.guardRequest):
//
//   - identify finds the agent and the Engagement (guarded_call.go).
//   - operationReader finds the operation and its arguments (operation.go).
//   - admission selects the credentials for the API. Guard.Begin checks the input restriction and
//     records the call (guarded_call.go).
//   - response runs the next handlers, calls Ticket.Finish, and releases the response. The
//     response of a tool call is checked in its recorder (response.go); the response of a
//     plain request is held in memory (plain_response.go).
//
// Each phase adds what it finds out to a decision, which is logged and counted (decision.go). A
// refusal is a problem document (refusal.go). The command `caddy oagent` checks agent documents
// (command.go). The packages below this one have subjects of their own:
//
//	agentset    the agent documents, linked to the tools of the site; calls the tools of guardrails
//	chat        guardrails on traffic to a model API
//	reviewers   agents that review: who may decide for them, calls of their programs
//	endpoints   agent documents, Engagements and reviews over HTTP
//	notify      guest modules: notices about pending reviews and runs
//
// Package caddymodule/hosted runs agents on this server.
//
// None of them imports this package. They access the handler through their options and through the
// interface chat.Request.
package oagent
