package directive

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// Options that several directives share.
var (
	documentOptions = []string{
		"openapi", "overlay", "lock", "refresh", "refs", "include", "exclude", "readonly", "ignore_extensions", "tool", "description_tokens", "schemas", "base_path", "max_document", "timeout",
		"max_response", "max_schema", "token_budget", "credential", "forward_headers", "allow", "non_inferrable", "search", "pin", "embeddings", "max_tokens", "fields",
	}
	endpointOptions = append([]string{"path", "toolset", "agent", "expose_agents", "allow_anonymous"}, documentOptions...)
)

// subdirectives are the options of each block, by the name that error messages use for the
// block. Unrecognized uses them to suggest the most similar option.
var subdirectives = map[string][]string{
	"agents":      {"toolset", "store"},
	"toolset":     documentOptions,
	"tool":        {"rename", "title", "description", "annotation", "argument", "select", "max_tokens", "fields"},
	"argument":    {"rename", "description", "default", "fixed", "hide"},
	"embeddings":  {"model", "api_key"},
	"store bolt":  {"max_records", "max_size"},
	"store redis": {"prefix"},
	"mcp": slices.Concat(endpointOptions, []string{
		"name", "title", "version", "instructions", "origins", "hosts", "page_size", "max_body", "versions", "secret",
		"session_ttl", "max_streams", "keep_alive", "ask_timeout", "watch_interval", "watch_rate", "list_ttl",
		"public_lists", "tool_scopes", "output_schema", "discovery", "task_after", "task_ttl",
		"resource", "resources", "prompts", "app", "locales", "hint", "max_resource",
	}),
	"discovery": {"name", "url"},
	"resource":  {"name", "title", "description", "mime_type"},
	"app": {
		"tools", "name", "title", "description", "csp", "domain", "prefers_border", "invoking", "invoked", "widget_accessible",
		"visibility",
	},
	"csp": {"connect", "resource", "frame"},
	"otc": slices.Concat(endpointOptions, []string{
		"toolkit", "version", "max_body", "idempotency", "requirements", "developer_messages", "health_upstream", "poll",
		"authorization_url",
	}),
	"idempotency": {"ttl", "max_size", "lease", "secret"},
	"ocp": {
		"enhance", "lists", "enhance_errors", "max_enhanced", "forward", "reply", "log", "strict", "require", "discovery",
		"toolset", "openapi", "overlay", "lock", "refresh", "refs", "include", "exclude", "readonly", "ignore_extensions", "tool", "description_tokens", "schemas", "base_path", "max_document", "credential",
		"forward_headers", "non_inferrable",
	},
	"oagent": {
		"guard", "engagement", "identity", "forward_headers", "undeclared", "toolset", "review_wait", "engagement_ttl",
		"max_input", "max_output", "max_recorded", "exposes", "serve", "engagements", "reviews", "log_inputs",
		"auditors", "reviewer", "chat", "model", "limits", "accept", "remote_agents", "notify", "workers",
	},
	"model scripted": {"file"},
	"limits":         {"turns", "tokens", "time"},
	"identity":       {"header_up", "credential"},
	"chat":           {"upstream", "roles", "allow_media", "max_input", "max_output", "keep_alive"},
	"model":          {"base_url", "api_key", "model", "timeout", "max_tokens", "max_response", "retries"},
	"reviewer":       {"ask", "header", "credential", "timeout"},
	"agent_auth": {
		"issuer", "jwks", "audience", "resource", "resource_name", "resource_documentation", "algorithms",
		"scopes_supported", "require_scope", "leeway", "pass_token", "exempt", "optional", "login", "api_key",
		"user_claim", "group_claim", "scope_claim", "scope_includes", "introspection",
	},
	"introspection": {"client_id", "client_secret", "issuer"},
	"agent_login": {
		"provider", "client_id", "client_secret", "provider_scope", "provider_param", "group_claim", "issuer", "secret", "allow", "scope", "client",
		"token_lifetime", "session_lifetime", "own_tokens",
	},
	"client":         {"name", "redirect", "secret", "jwks", "machine"},
	"agents_console": {"auditors", "log_inputs", "calls"},
	"api_key":        {"header", "query", "key", "pass_through"},
	"accept":         {"by", "capabilities", "identities"},
	"remote_agents":  {"header_up", "credential", "forward_caller", "allow_private_addresses", "trusted_ca", "timeout"},
}

// meant suggests an option for a word that is not similar to its name. The key is the block and the word.
var meant = map[string]string{
	"agent_auth scope":       "require_scope or scopes_supported",
	"agent_auth scopes":      "require_scope or scopes_supported",
	"mcp max_client_streams": "max_streams (each user has a share of it)",
	"oagent caller_headers":  "forward_headers (beside other credentials than the caller's, only safe headers pass)",
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
