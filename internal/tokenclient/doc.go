// Package tokenclient fetches access tokens for APIs from the token endpoint of an authorization server. The gateway is
// the client there, and acts for itself (RFC 6749, section 4.4) or for a caller whose token it exchanges (RFC 8693, RFC
// 7523, and identity assertion grants of draft-ietf-oauth-identity-assertion-authz-grant).
//
// An [Endpoint] makes one request with golang.org/x/oauth2. A [Grant] says which requests lead to a token, and what they
// contain. A [Cache] keeps tokens, and makes one request at a time for each of them. No error contains a token or any
// text of a response that is not a code of RFC 6749, section 5.2.
package tokenclient
