// Package oagent implements the directive oagent. It enforces OpenAgentSpec documents on
// requests to an API. The rules are in package github.com/fairwayhq/fairway/oagent; this
// package applies them to requests in Caddy's handler chain.
//
// When the configuration is loaded, Handler loads the agent documents (provision_agents.go) and
// rejects documents that the configuration does not support (check_agents.go). A request to the
// API then passes a guardedRequest in this order:
//
//   - findAgent resolves the agent and the Engagement (govern.go).
//   - operationReader finds the operation and its arguments (read_operation.go).
//   - chooseIdentity selects the credentials for the API (identity.go).
//   - Guard.Begin checks the input restriction and records the call (guarded_request.go).
//   - response runs the next handlers, calls Ticket.Finish, and releases the response. The
//     response of a tool call is checked in its recorder (call_response.go); the response of a
//     plain request is held in memory (plain_response.go, held_response.go).
//
// A refusal is a problem document (refusal.go); every decision is logged (audit_log.go) and
// counted (metrics.go). The packages below this one have subjects of their own:
//
//	agentset    the agent documents, linked to the tools of the site
//	guardrail   calls the tools of guardrails
//	chat        guardrails on traffic to a model API
//	reviewers   agents that review: who may decide for them, calls of their programs
//	endpoints   agent documents, Engagements and reviews over HTTP
//	hosting     runs agents on this server
//	models      guest modules: the models that agents use
//	accept      accepts agent documents from users
//	notify      guest modules: notices about pending reviews
//	remoteagents  configures the servers whose agents may be called
//	command     `caddy oagent`
//
// They do not import this package. They access the handler through their options and through the
// interface chat.Request.
package oagent
