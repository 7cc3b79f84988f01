// Package oagent implements the directive oagent. It enforces OpenAgentSpec documents on
// requests to an API. The rules are in package github.com/fairwayhq/fairway/oagent; this
// package applies them to requests in Caddy's handler chain.
//
// When the configuration is loaded, Handler loads the agent documents (provision.go) and
// rejects documents that the configuration does not support (check_agents.go). A request to the
// API then passes five phases (Handler.guardRequest in phases.go). Each is a function that gets the
// values that the phases before it have returned, and returns its own or a refusal:
//
//	newRequest     request             what the request says about itself
//	identify       caller              the agent and the Engagement
//	readOperation  requestedOperation  the operation and its arguments (phase_operation.go)
//	admit          admission           the Ticket of Guard.Begin, and the credentials for the API
//	passOn         response            runs the next handlers, and calls Ticket.Finish
//
// The response of a tool call is checked in its recorder (phase_response.go); that of a plain request is held in
// memory (phase_response_plain.go). What the phases have returned is the decision, which is logged and counted
// (outcome.go). A refusal is a problem document (refusal.go). The packages below this one have subjects of their own:
//
//	command     the command `caddy oagent`, which checks agent documents
//	agentset    the agent documents, linked to the tools of the site; calls the tools of guardrails
//	reviewers   agents that review: who may decide for them, calls of their programs
//	endpoints   agent documents, Engagements and reviews over HTTP
//	notify      guest modules: notices about pending reviews and runs
//
// None of them imports this package. They access the handler through their options.
//
// A Part of the handler has further options (part.go). Package caddymodule/hosted runs agents on this server, and package
// caddymodule/chat has guardrails on traffic to a model API. They import this package and register their parts, and the
// handler knows them as Host, Acceptor and Chat.
package oagent
