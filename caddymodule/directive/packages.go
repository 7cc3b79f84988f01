package directive

import (
	"fmt"
	"slices"
)

// packages are the packages that a build may leave out, below caddymodule: by the object and the name of each of their options, in the
// Caddyfile and in JSON, or by the namespace and the name of their modules. They are for error messages only.
var packages = map[string]map[string]string{
	"agents": {
		"toolset": "app", "toolsets": "app", "caller_metrics": "app", "store": "stores", "max_bodies": "bodies",
		"calls": "calls", "audit": "archive", "uploads": "files", "evict_refused_engagements": "oagent",
	},
	"mcp": {"events": "mcpevents", "discovery": "mcpdiscovery"},
	"oagent": {
		"chat": "chat", "model": "hosted", "models": "hosted", "limits": "hosted", "agent_limits": "hosted", "budget": "hosted", "budgets": "hosted",
		"prices": "hosted", "workers": "hosted", "accept": "hosted", "remote_agents": "hosted",
	},
	"agents.credentials": {"oauth": "app/credential/exchange", "user": "connections"},
	"agents.inspectors":  {"secrets": "inspectors", "pii": "inspectors", "webhook": "inspectors", "presidio": "inspectors", "moderation": "inspectors"},
	"agents.stores":      {"redis": "stores/redis", "postgres": "stores/postgres"},
}

// notLinked returns an error message if an option of the object belongs to a package that is not in this build. Known are options of
// packages that are. Otherwise it returns "".
func notLinked(object, option string, known []string) string {
	name := packages[object][option]
	if name == "" || slices.ContainsFunc(known, func(other string) bool { return packages[object][other] == name }) {
		return ""
	}
	return fmt.Sprintf("this build of Caddy does not have %s: build it with github.com/fairwayhq/fairway/caddymodule/%s", option, name)
}
