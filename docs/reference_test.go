package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// TestReference_has_all_options asks each directive for its options, by an option that does not
// exist, and checks that the directive's page has them.
func TestReference_has_all_options(t *testing.T) {
	known := regexp.MustCompile(`known are ([a-z_, ]+)`)
	site := func(block string) string { return ":80 {\n" + block + "\n}\n" }
	for _, c := range []struct {
		name, caddyfile string
		pages           []string
	}{
		{"mcp", site("mcp {\nunknown\n}"), []string{"mcp.md", "mcp-endpoint.md", "mcp-resources.md", "skills.md", "toolsets.md"}},
		{"otc", site("otc {\nunknown\n}"), []string{"otc.md", "toolsets.md"}},
		{"ocp", site("ocp {\nunknown\n}"), []string{"ocp.md", "toolsets.md"}},
		{"oagent", site("oagent a.yaml {\nunknown\n}"), []string{"oagent.md", "hosting.md"}},
		{"chat of oagent", site("oagent a.yaml {\nchat {\nunknown\n}\n}"), []string{"model-traffic.md"}},
		{"reviewer of oagent", site("oagent a.yaml {\nreviewer a {\nunknown\n}\n}"), []string{"oagent.md", "reviews.md"}},
		{"agent_auth", site("agent_auth {\nunknown\n}"), []string{"agent_auth.md"}},
		{"api_key of agent_auth", site("agent_auth {\napi_key {\nunknown\n}\n}"), []string{"agent_auth.md"}},
		{"agent_events", site("agent_events /a b {\nunknown\n}"), []string{"events.md"}},
		{"events of mcp", site("mcp {\nevents {\nunknown\n}\n}"), []string{"events.md"}},
		{"event of agent_events", site("agent_events /a b {\nevent c {\nunknown\n}\n}"), []string{"events.md"}},
		{"verify of agent_events", site("agent_events /a b {\nverify hmac 0123456789abcdef {\nunknown\n}\n}"), []string{"events.md"}},
		{"agents_console", site("agents_console {\nunknown\n}"), []string{"console.md"}},
		{"agents", "{\nagents {\nunknown\n}\n}\n", []string{"toolsets.md", "store.md", "audit.md", "metrics.md", "calls.md", "limits.md", "files.md"}},
		{"toolset", "{\nagents {\ntoolset a {\nunknown\n}\n}\n}\n", []string{"toolsets.md"}},
		{"tool of a toolset", "{\nagents {\ntoolset a {\ntool b {\nunknown\n}\n}\n}\n}\n", []string{"shape-tools.md"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(c.caddyfile), map[string]any{"filename": "Caddyfile"})
			if err == nil {
				t.Fatal("an unknown option is no error")
			}
			options := known.FindStringSubmatch(err.Error())
			if options == nil {
				t.Fatalf("the error does not list the options: %v", err)
			}
			code := codeOf(t, c.pages)
			for option := range strings.SplitSeq(strings.TrimSuffix(options[1], ", at "), ", ") {
				option = strings.TrimSpace(option)
				if option != "" && option != "at" && !regexp.MustCompile(`\b`+option+`\b`).MatchString(code) {
					t.Errorf("%v: no description of the option %s", c.pages, option)
				}
			}
		})
	}
}

// codeOf returns the code in the prose and in the blocks of pages of docs.
func codeOf(t *testing.T, names []string) string {
	t.Helper()
	var code strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		prose, found := page{name, strings.Split(string(data), "\n")}.split()
		for _, b := range found {
			code.WriteString(b.text + "\n")
		}
		for _, text := range inlineCode.FindAllString(strings.Join(prose, "\n"), -1) {
			code.WriteString(text + "\n")
		}
	}
	return code.String()
}

// TestReference_has_all_metrics_and_events checks that the pages have the name of each metric and
// event in the source.
func TestReference_has_all_metrics_and_events(t *testing.T) {
	names := regexp.MustCompile(`\b(?:Counter|Gauge|CallDuration)\("([a-z_]+)"|NewDesc\("fairway_([a-z_]+)"|"(oagent_[a-z_]+)"`)
	code := codeOf(t, []string{"metrics.md", "placeholders.md", "oagent.md"})
	found := 0
	err := filepath.WalkDir(filepath.Join(root, "caddymodule"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range names.FindAllStringSubmatch(string(data), -1) {
			name := match[1] + match[2] + match[3]
			found++
			if !strings.Contains(code, name) {
				t.Errorf("%s: no page has the metric or event %s", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 15 {
		t.Errorf("only %d metrics and events found", found)
	}
}
