// Package oauth is an OAuth 2.1 resource server: it judges the access tokens
// that clients bring, and tells clients without one where to get it. It knows
// no web server beyond net/http.
//
// A request's token comes out of its header (bearer.go) and goes to the Verifier
// (verifier.go), which reads its header and claims (token.go), asks the keyring
// of the issuer for the key it is signed with (keyring.go), and remembers tokens
// that are good (cache.go). Keyrings fetch key sets (keys.go) over the network or
// from a file (fetch.go), find them by the issuer's own metadata (discovery.go),
// and keep what they have while the issuer is down.
//
// What is refused is an *Error that says what is wrong without showing the token.
// A Challenge tells it to the client in WWW-Authenticate (RFC 6750), and Metadata
// is the document that names the issuers of a resource (RFC 9728).
package oauth
