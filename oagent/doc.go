// Package oagent is OpenAgentSpec v1: what an agent may do, and what decides
// it. It knows no Caddy.
//
// ReadAgent turns a YAML document into an Agent (document*.go, reference.go):
// its capabilities with their restrictions, its guardrails, what it exposes and
// when it is cut off. Its expressions become Assertions and Selections at once
// (rewrite.go, assertion*.go, selection.go), so that a document which cannot be
// enforced is not read at all. Link finds the tools and agents that it refers to.
//
// A Guard asks the assertions for each Call, over the View of the Engagement
// that the call belongs to. Begin decides before the call reaches anyone and
// Finish before its result does, and both keep the record.
package oagent
