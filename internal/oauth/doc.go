// Package oauth has what an OAuth 2.1 resource server and its clients say to each other: it tells clients without a token where to get
// one, and describes those that were verified. Of web servers it only uses net/http. Package verify verifies tokens.
//
// Bearer (bearer.go) extracts a token from a request. What the claims of a verified Token say about its user is decided by ClaimRules
// (claims.go). A rejected request is an *Error (error.go), which never contains the token. A Challenge (challenge.go) reports it in
// WWW-Authenticate (RFC 6750). Metadata (metadata.go) is the document that names the issuers of a resource (RFC 9728).
package oauth
