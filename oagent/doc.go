// Package oagent implements OpenAgentSpec v1: it reads agent documents and decides whether a
// call that an agent makes is allowed. It does not depend on Caddy; caddymodule/oagent is the
// adapter.
//
// Data passes through it in four steps:
//
//   - ReadAgent parses a YAML document into an Agent: its capabilities with their
//     restrictions, its guardrails, its exposed values and its short_circuit limit. It
//     compiles each CEL expression into an Assertion or a Selection at once. A document that
//     cannot be enforced is therefore rejected as a whole (document*.go, reference.go,
//     rewrite.go, assertion*.go, selection.go).
//   - Link resolves the tools and agents that the document refers to.
//   - Guard.Begin decides on a Call before it reaches the tool. It evaluates the input
//     restriction over the View of the Engagement, and returns a Ticket or a Refusal
//     (decision.go, view*.go).
//   - Ticket.Finish evaluates the output restriction before the result is used (ticket*.go).
//
// Both write to the record of the Engagement, which operators read as an audit log
// (record*.go, audit*.go). A restriction can also require a review by a user or another agent
// (review*.go). If anything cannot be decided, the call is refused.
package oagent
