package directive

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// meant suggests an option for a word that is not similar to its name. The key is the block and the word.
var meant = map[string]string{
	"agent_auth scope":       "require_scope or scopes_supported",
	"agent_auth scopes":      "require_scope or scopes_supported",
	"mcp max_client_streams": "max_streams (each user has a share of it)",
	"oagent caller_headers":  "forward_headers (beside other credentials than the caller's, only safe headers pass)",
}

// ownOptions are the options that only one of these blocks has. An error in another one of them says where they belong.
var ownOptions = map[string][]string{
	"mcp": {
		"app", "ask_timeout", "discovery", "events", "hint", "hosts", "instructions", "keep_alive", "list_ttl", "locales", "max_resource", "max_streams", "name", "origins", "output_schema",
		"page_size", "prompts", "public_lists", "resource", "resources", "secret", "session_ttl", "skills", "task_after", "task_ttl", "title", "tool_scopes", "versions", "watch_interval", "watch_rate",
	},
	"otc":    {"authorization_url", "developer_messages", "health_upstream", "poll", "requirements", "toolkit"},
	"agents": {"audit", "caller_metrics", "calls", "evict_refused_engagements", "store"},
}

// siteDirectives are Caddy's directives whose handlers have other names.
var siteDirectives = []string{
	"basic_auth", "basicauth", "bind", "handle", "handle_path", "header", "import", "log", "log_skip", "method", "redir",
	"request_header", "respond", "root", "route", "tls", "try_files", "uri",
}

// isDirective reports whether a word is a directive of a site. Where an option is expected, such a word
// shows that a block was not closed.
func isDirective(word string) bool {
	_, err := caddy.GetModule("http.handlers." + word)
	return err == nil || slices.Contains(siteDirectives, word)
}
