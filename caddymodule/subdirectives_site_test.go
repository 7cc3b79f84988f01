package caddymodule_test

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

func TestSubdirectives_misspelled_names_suggest_the_nearest(t *testing.T) {
	site := func(text string) string { return "localhost {\n" + text + "\n}\n" }
	global := func(text string) string { return "{\n" + text + "\n}\n" }
	for _, test := range []struct{ caddyfile, want string }{
		{site("mcp {\ninclde tag x\n}"), "include"},
		{site("mcp {\nsession_tll 1h\n}"), "session_ttl"},
		{site("mcp {\ndiscovery {\nnme x\n}\n}"), "name"},
		{site("mcp {\nresource a:b c {\ntitel x\n}\n}"), "title"},
		{site("mcp {\napp ui://a a.html {\nvisiblity x\n}\n}"), "visibility"},
		{site("mcp {\napp ui://a a.html {\ncsp {\nconect https://a\n}\n}\n}"), "connect"},
		{site("otc {\ntoolkits x\n}"), "toolkit"},
		{site("otc {\nidempotency {\nleese 1s\n}\n}"), "lease"},
		{site("ocp {\nenhnace x y\n}"), "enhance"},
		{site("oagent a.yaml {\ngurad x\n}"), "guard"},
		{site("oagent a.yaml {\nidentity A {\ncredentials x\n}\n}"), "credential"},
		{site("oagent a.yaml {\nchat /v1/messages {\nupstrem x\n}\n}"), "upstream"},
		{site("agent_auth {\naudiense x\n}"), "audience"},
		{site("agent_auth {\napi_key {\nheadr X\n}\n}"), "header"},
		{global("agents {\ntoolsets x\n}"), "toolset"},
		{global("agents {\ntoolset a a.yaml {\nexlude tag x\n}\n}"), "exclude"},
		{global("agents {\nstore bolt a {\nmax_recods 1\n}\n}"), "max_records"},
		{global("agents {\nstore redis redis://a {\nprefx x\n}\n}"), "prefix"},
	} {
		_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(test.caddyfile), map[string]any{"filename": "Caddyfile"})
		if err == nil || !strings.Contains(err.Error(), "did you mean "+test.want+"?") {
			t.Errorf("%q: got %v, want %s", test.caddyfile, err, test.want)
		}
	}
}
