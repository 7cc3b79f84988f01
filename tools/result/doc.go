// Package result reads the responses of an API and makes them smaller for a model.
//
// Shaping has three steps. Each applies only to tools that are configured for it:
//
//   - A Query (query.go) is the operator's jq expression. It selects and renames what a JSON response contains.
//   - Fields (fields.go) keeps the members whose names the model has given.
//   - CutPages (cut.go) shortens a response that is larger than a limit and returns the rest as pages.
//     A PageKeeper keeps them for a while, so that the caller can read them without another call of the
//     API: in memory, or, if several nodes share a store, in that store (pages.go).
//
// A Reducer reads a response that streams (reducer.go, event.go). ErrorDetail reads what an API says about an
// error (apierror.go).
//
// The package does not depend on Caddy, tools or protocols. It reads bytes and appends bytes.
package result
