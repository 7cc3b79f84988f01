// Package remote calls agents of other servers (OpenAgentSpec v1, Names & References, and Server,
// rule 3). It does not depend on Caddy.
//
// A call of oagent://host/path/name takes this path:
//
//   - The host must be in the allow-list (options.go).
//   - The agent's definition is fetched by GET, checked and cached (definition.go).
//   - Chain rejects calls that would form a cycle, also across servers (chain.go).
//   - A POST starts an Engagement. Its response is 303 with the URL of the Engagement, on the same
//     host (call.go).
//   - The Engagement is polled until it ends (call.go, state.go). If the caller cancels the call, the
//     Engagement is canceled.
//
// Connections are made only to public addresses, unless the host allows others. The address is
// checked when the connection is made, after the name was resolved, so that a DNS server cannot
// change it in between (chain.go). For the same reason no proxy is used.
//
// Responses of the other server are untrusted data. Each has a limit of its size. Error messages contain
// neither addresses nor credentials.
package remote
