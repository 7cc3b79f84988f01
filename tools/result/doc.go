// Package result reads the responses of an API and makes them smaller for a model.
//
// It has four subjects, and the name of a file begins with its subject. Each of the first three applies only to tools that
// are configured for it:
//
//   - query: a Query is the operator's jq expression. It selects and renames what a JSON response contains. The limits on
//     its time and memory are most of the code.
//   - fields: Fields keeps the members whose names the model has given.
//   - pages: CutPages shortens a response that is larger than a limit and returns the rest as pages.
//     A PageKeeper keeps them for a while, so that the caller can read them without another call of the
//     API: in memory, or, if several nodes share a store, in that store.
//   - stream: a Reducer reads a response that streams.
//
// ErrorDetail reads what an API says about an error (error.go). Queries, fields and pages read JSON with the same decoder
// (decode.go).
//
// The package does not depend on Caddy, tools or protocols. It reads bytes and appends bytes.
package result
