// Package agentset reads the agent documents of one oagent handler and links them to the tools
// of the site.
//
// Data passes through it in this order:
//
//   - ReadFiles reads and validates the agent documents (loader.go).
//   - New links the agents to the tools of the handler's toolsets. The result is a Set: for each
//     agent the operations that it may use, the names of all tools in agent documents, and the
//     routes that match a plain request to its operation (set.go, names.go).
//   - A Loader keeps the current Set. It reads the files again when one of them changes, and
//     links the agents again when a toolset changes (loader.go). Accept adds agents that are not from
//     files.
//
// A GuardrailCaller calls the tools of agents' guardrails (OpenAgentSpec v1, guardrails): caller.go. The call
// goes directly to the API of the tool, with the gateway's credentials. It does not pass the next handlers of the
// site, because they may lead to the model API.
//
// A Set is immutable. A request takes the current Set once and uses it until it ends, so a
// reload never changes the rules for a request that has begun.
package agentset
