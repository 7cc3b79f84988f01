package directive

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// subdirectives are the options of the blocks that Block.Read does not read, by the name that error messages
// use for the block. Unrecognized uses them to suggest the most similar option.
var subdirectives = map[string][]string{
	"credential oauth": {
		"token_url", "grant", "client_id", "client_secret", "secret_in_body", "private_key", "key_id", "certificate", "assertion_audience",
		"audience", "scope", "resource", "param", "identity_provider",
	},
	"identity_provider": {
		"token_url", "client_id", "client_secret", "secret_in_body", "private_key", "key_id", "certificate", "assertion_audience",
	},
	"aws_sigv4": {"region", "service", "access_key", "secret_key", "session_token", "max_body", "unsigned_body", "http"},
	"agent_auth": {
		"issuer", "jwks", "audience", "resource", "resource_name", "resource_documentation", "algorithms",
		"scopes_supported", "require_scope", "leeway", "pass_token", "exempt", "optional", "login", "api_key",
		"user_claim", "group_claim", "scope_claim", "scope_includes", "introspection",
	},
	"introspection": {"client_id", "client_secret", "issuer"},
	"agent_login": {
		"provider", "client_id", "client_secret", "private_key", "key_id", "certificate", "provider_scope", "provider_param", "group_claim", "issuer", "secret", "allow", "scope", "client",
		"token_lifetime", "session_lifetime", "own_tokens",
	},
	"client":            {"name", "redirect", "secret", "jwks", "machine"},
	"agent_connections": {"origin", "secret"},
	"credential user":   {"provider"},
	"provider": {
		"authorize_url", "token_url", "revoke_url", "client_id", "client_secret", "client_auth", "scope", "param", "api_key", "bearer", "header",
	},
	"api_key": {"header", "query", "key", "pass_through"},
}

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
		"app", "ask_timeout", "discovery", "hint", "hosts", "instructions", "keep_alive", "list_ttl", "locales", "max_resource", "max_streams", "name", "origins", "output_schema",
		"page_size", "prompts", "public_lists", "resource", "resources", "secret", "session_ttl", "skills", "task_after", "task_ttl", "title", "tool_scopes", "versions", "watch_interval", "watch_rate",
	},
	"otc":    {"authorization_url", "developer_messages", "health_upstream", "idempotency", "poll", "requirements", "toolkit"},
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
