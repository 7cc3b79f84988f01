package caddymodule

import "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

// The order of Fairway's directives: behind authentication and encode, so that
// callers are known and answers are compressed, and before whatever may answer
// or reshape an answer, so that all of that stands behind a tool call.
func init() {
	for _, directive := range []string{"ocp", "mcp", "otc", "oagent"} {
		httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "push")
	}
}
