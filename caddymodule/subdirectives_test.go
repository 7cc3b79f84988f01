package caddymodule

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
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
		{site("ocp {\nenhanse x y\n}"), "enhance"},
		{site("oagent a.yaml {\ngaurd x\n}"), "guard"},
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

// TestSubdirectives_lists_are_complete compares the lists with the parsers' own source.
func TestSubdirectives_lists_are_complete(t *testing.T) {
	listed := make(map[string]bool)
	for _, names := range subdirectives {
		for _, name := range names {
			listed[name] = true
		}
	}
	files, err := filepath.Glob("*_caddyfile.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	parser := regexp.MustCompile(`(?ms)^func \([^)]*\) unmarshal\w*\(\w+ \*block\).*?^}`)
	options := regexp.MustCompile(`switch b\.Val\(\) \{(?s:.*)`)
	cases := regexp.MustCompile(`(?m)^\t{1,2}case ((?:"\w+"(?:, )?)+):`)
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range parser.FindAllString(string(source), -1) {
			for _, match := range cases.FindAllStringSubmatch(options.FindString(function), -1) {
				for name := range strings.SplitSeq(strings.ReplaceAll(match[1], `"`, ""), ", ") {
					found++
					if !listed[name] && !slices.Contains([]string{"on", "off"}, name) {
						t.Errorf("%s: %s is in none of the lists of subdirectives.go", file, name)
					}
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("found only %d options in the source", found)
	}
}
