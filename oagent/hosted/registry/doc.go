// Package registry keeps the agent documents that a server accepts from its users (OpenAgentSpec
// v1, Server, rule 2). It does not depend on Caddy.
//
// A document takes this path:
//
//   - Policy.Read lints it, and checks it against the operator's allow-list (policy.go).
//   - Registry.Put stores it, if the conditions of the request hold and no limit is reached
//     (registry.go).
//   - Registry.Watch notifies every node at the start and after each change (watch.go). The node then
//     reads the documents, and checks them against its own allow-list, because the operator may have
//     changed the list.
//
// The store has one record with the list of documents, the index, and one for each document.
// Changes of the index are atomic. The record of a document never changes: a new version gets a
// record of its own. Therefore a node never reads a document that does not match the list. A version is
// identified by its digest, which is also its entity tag.
package registry
