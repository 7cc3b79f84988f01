// Package authserver is an OAuth 2.1 authorization server for MCP clients in front of an identity provider that such
// clients cannot use by themselves: providers that know neither client ID metadata documents nor dynamic registration.
//
// A login passes these steps:
//
//   - authorize (authorize.go): checks the client (client.go, document.go) and its redirect URI, and shows the consent page.
//   - consent (consent.go): binds the login to the browser by a cookie, and sends the browser to the provider.
//   - callback (consent.go): completes the login at the provider (provider.go), checks who may log in, and gives the client a
//     code.
//   - token (token.go): exchanges the code for an access token of this server, and a refresh token if the provider gave
//     one (session.go). Each refresh asks the provider again.
//
// The server keeps no state of its own. What is used once, and sessions, are records of a Ledger; everything else is in
// sealed values that clients and browsers hold (records.go, package seal). So each node can serve each step.
//
// The access tokens are JWTs (RFC 9068) that are bound to one resource (RFC 8707). Of web servers the package only uses
// net/http.
package authserver
