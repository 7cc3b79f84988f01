// Package auth is the directive `agent_auth`. It authenticates requests by OAuth 2.1
// access tokens and by API keys.
//
// For each request, the Handler (handler.go) reads the credentials. OAuth (oauth.go) verifies
// an access token with package internal/oauth, and shares the fetched keys of issuers between
// configurations (issuers.go). APIKey (key.go) compares an API key with the configured keys. If
// the credentials are valid, the Handler removes them from the request, sets Caddy's
// placeholders {http.auth.user.*} and the request variables that the endpoints read (internal/identity: VarScopes
// and others), and calls the next handler. Otherwise it responds with an error and a challenge.
//
// ProtectedResource (resource.go) serves the metadata that tell clients which issuers they can
// get access tokens from. caddyfile.go reads the directive.
package auth
