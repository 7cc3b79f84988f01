// Package text shortens and finishes texts for messages, suggests the intended name for a misspelled one, and removes
// secrets (secrets.go, written.go).
//
// Some APIs repeat the credentials of a request in their error response. The response goes to the caller, who may not own
// these credentials, for example if the gateway added them. Before such a response is passed on, the credentials are added
// to Secrets, and Conceal replaces each occurrence with Concealed. A secret is found in any of its usual encodings:
// unchanged, or with any of its characters escaped as in JSON, URLs, forms and HTML.
package text
