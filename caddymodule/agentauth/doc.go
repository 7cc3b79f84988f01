// Package agentauth is the directive `agent_auth`: it authenticates requests by OAuth
// 2.1 access tokens (oauth.go, with package internal/oauth) and by API keys (key.go),
// and serves the metadata that tells clients where to get tokens (resource.go). What it
// learned of a request is in Caddy's placeholders {http.auth.user.*}, and in request
// variables for the endpoints.
package agentauth
