package directive

import "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

// The order of Fairway's directives: agent_auth stands with Caddy's own
// authentication; the others behind that and encode, so that callers are known
// and answers are compressed, and before whatever may answer or reshape an
// answer, so that all of that stands behind a tool call. tools_only comes last: what
// the others answer themselves is not for it.
func init() {
	httpcaddyfile.RegisterDirectiveOrder("agent_auth", httpcaddyfile.After, "basic_auth")
	for _, directive := range []string{"ocp", "mcp", "otc", "oagent", "tools_only"} {
		httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "push")
	}
}
