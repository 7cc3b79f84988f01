// Package oauth is an OAuth 2.1 resource server. It verifies access tokens, and tells clients
// without a token where to get one. Of web servers it only uses net/http.
//
// A token takes this path: Bearer (bearer.go) extracts it from the request. The Verifier
// (verifier.go) looks it up in the cache of verified tokens (cache.go). If it is not there, the
// Verifier decodes its header and claims (token.go), gets the issuer's public key from the
// issuer's keyring (keyring.go), and verifies the signature, the times and the audience.
//
// A keyring fetches the key set (keys.go) over the network or reads it from a file (fetch.go).
// The issuer's metadata contain the URL of the key set (discovery.go). If the issuer is down,
// the keyring keeps its last keys for a limited time.
//
// Tokens that are not signed JWTs are sent to an introspection endpoint (introspect.go). What the claims of a
// token say about its user is decided by ClaimRules (claims.go).
//
// coreos/go-oidc would replace discovery, keys and keyring, but it reads OpenID metadata only, and fetches keys once
// for each unknown key id. Its limits, key files and stale keys would have to be written around it: fewer than 150 lines saved.
//
// A rejected request is an *Error (error.go), which never contains the token. A Challenge
// (challenge.go) reports it in WWW-Authenticate (RFC 6750). Metadata (metadata.go) is the
// document that names the issuers of a resource (RFC 9728).
package oauth
