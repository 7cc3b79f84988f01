// Package verify verifies access tokens for an OAuth 2.1 resource server.
//
// A token takes this path: The Verifier (verifier.go) looks it up in the cache of verified tokens (cache.go). If it is not there, the
// Verifier decodes its header and claims (token.go), gets the issuer's public key from the
// issuer's keyring (keyring.go), and verifies the signature, the times and the audience.
//
// A keyring fetches the key set (keys.go) over the network or reads it from a file (fetch.go).
// The issuer's metadata contain the URL of the key set (discovery.go). If the issuer is down,
// the keyring keeps its last keys for a limited time.
//
// Tokens that are not signed JWTs are sent to an introspection endpoint (introspect.go).
//
// coreos/go-oidc would replace discovery, keys and keyring, but it reads OpenID metadata only, and fetches keys once
// for each unknown key id. Its limits, key files and stale keys would have to be written around it: fewer than 150 lines saved.
package verify
