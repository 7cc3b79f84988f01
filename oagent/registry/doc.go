// Package registry keeps the agent documents that a server accepts from its users (OpenAgentSpec
// v1, Server, rule 2). It does not depend on Caddy.
//
// A document takes this path:
//
//   - Policy.Read checks it as lint does, and against the operator's allow-list (policy.go).
//   - Registry.Put stores it, if the conditions of the request hold and no limit is reached
//     (registry.go, condition.go).
//   - Registry.Watch tells every node when to read the documents, at the start and after each
//     change (watch.go). Each node checks them against its allow-list again, because the operator may
//     have changed that.
//
// The store has one record with the list of documents, the index, and one for each document.
// Changes of the index are atomic. The record of a document never changes: a new version gets a
// record of its own. So a node never reads a document that does not belong to the list. A version
// is identified by its digest, which is also its entity tag.
package registry
