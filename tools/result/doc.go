// Package result reads the responses of an API and makes them smaller for a model.
//
// Shaping has three steps. Each applies only to tools that are configured for it:
//
//   - A Query (query.go) is the operator's jq expression. It selects and renames what a JSON response contains.
//   - Fields (fields.go) keeps the members whose names the model has given.
//   - CutPages (cut.go) shortens a response that is larger than a limit and returns the rest as pages.
//     Package pages keeps them.
//
// A Reducer reads a response that streams (reducer.go, event.go). ErrorDetail reads what an API says about an
// error (apierror.go).
//
// The package does not depend on Caddy, tools or protocols. It reads bytes and appends bytes.
package result
