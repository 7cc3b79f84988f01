// Package connections lets tool calls use each user's own account at a third party, such as GitHub.
//
//   - provider.go: the guest module agents.credentials.user, the third party as a toolset configures it: its OAuth 2.0
//     addresses, or that its API keys are pasted.
//   - vault.go, refresh.go: the accounts of users in the store, encrypted; one node at a time renews the tokens of an account.
//   - handler.go, caddyfile.go: the directive agent_connections. It is the credential.Accounts of its site: a call of a user
//     without an account gets a link (link.go).
//   - pages.go, flow.go: the pages behind the link, and "My connections". Only the user who was asked can use a link, in the
//     browser that began: otherwise someone could send his own link to another user, and get that user's account
//     (MCP 2026-07-28, Elicitation, Phishing).
//   - await.go: a client of MCP 2025-11-25 is notified when its user has connected the account on another node.
//   - admin.go: the list of all connections for the operator, without tokens.
package connections
