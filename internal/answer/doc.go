// Package answer makes the responses of tools smaller before a model reads them.
//
// There are three steps. Each applies only to tools that are configured for it:
//
//   - A Query (query.go) is the operator's jq expression. It selects and renames what a JSON
//     response contains. Only those parts of the response are decoded that the expression can reach
//     (needs.go, decode.go).
//   - Fields (fields.go) keeps the members whose names the model has given.
//   - Cut (cut.go) shortens a response that is larger than a limit and returns the rest as pages.
//     Package pages keeps them.
//
// The package does not depend on Caddy, tools or protocols. It reads bytes and appends bytes.
package answer
