// Package oagent implements OpenAgentSpec v1: it reads agent documents and decides whether a
// call that an agent makes is allowed. It does not depend on Caddy; caddymodule/oagent is the
// adapter.
//
// Data passes through it in four steps:
//
//   - ReadAgent parses a YAML document into an Agent: its capabilities with their
//     restrictions, its guardrails, its exposed values and its short_circuit limit. It
//     compiles each CEL expression at once. A document that cannot be enforced is therefore
//     rejected as a whole (document_*.go, reference.go).
//   - Link resolves the tools and agents that the document refers to.
//   - Guard.Begin decides on a Call before it reaches the tool. It evaluates the input
//     restriction over the Engagement, and returns a Ticket or an engagement.Refusal
//     (call.go, decision.go).
//   - Ticket.Finish evaluates the output restriction before the result is used (decision.go).
//     If either needs a reviewer, reviewed.go waits for the decision.
//
// Both write to the record of the Engagement. If anything cannot be decided, the call is
// refused. The packages below it, each of which imports only those before it:
//
//	engagement  the record of an Engagement, and refusals, which it contains
//	assertion   the CEL expressions of agent documents, over an Engagement
//	review      reviews: who must approve a call, and what was decided
package oagent
