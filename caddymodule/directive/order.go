package directive

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// The default order of Fairway's directives:
//
//   - agent_uploads runs before all handlers, because its URLs are secrets that no span or log may have.
//   - agents_health runs before handlers that redirect, rewrite or authenticate requests, so that probes
//     need no credentials.
//   - agent_login runs before agent_auth, which trusts it, and needs no credentials itself.
//   - agent_events runs before authentication: APIs sign their webhooks, and have no other credentials.
//   - agent_auth runs with Caddy's own authentication directives.
//   - The others run after authentication, so that callers are known, and after encode, so that
//     responses are compressed. They run before handlers that respond or change responses, so
//     that those handlers also process the inner requests of tool calls.
//   - agents_console and agent_connections run before the others, so that requests for their pages reach none of them.
//   - tools_only runs after these, because it must not apply to requests that they respond to.
//   - mcp_servers runs last, as the upstream of the tools of MCP servers.
func init() {
	httpcaddyfile.RegisterDirectiveOrder("agent_uploads", httpcaddyfile.Before, "tracing")
	httpcaddyfile.RegisterDirectiveOrder("agents_health", httpcaddyfile.Before, "redir")
	httpcaddyfile.RegisterDirectiveOrder("agent_events", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("agent_auth", httpcaddyfile.After, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("agent_login", httpcaddyfile.After, "basic_auth")
	for _, directive := range []string{"agents_console", "agent_connections", "ocp", "mcp", "otc", "oagent", "tools_only", "mcp_servers"} {
		httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "push")
	}
	misplaced := func(d *caddyfile.Dispenser) error {
		d.Next() // for the line of the error
		return d.Err("toolsets belong into the block agents of the global options, at the top of the file: { agents { toolset trains trains.yaml } }")
	}
	httpcaddyfile.RegisterGlobalOption("toolset", func(d *caddyfile.Dispenser, _ any) (any, error) { return nil, misplaced(d) })
	for _, option := range []string{"agents", "toolset"} {
		httpcaddyfile.RegisterDirective(option, func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) { return nil, misplaced(h.Dispenser) })
	}
}
