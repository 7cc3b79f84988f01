package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools/overlay"
)

// languages are the words that may follow a fence. A block without a checked language could
// hide an example that does not work.
var languages = map[string]bool{
	"caddyfile": true, "json": true, "yaml": true, "sh": true, "console": true,
	"go": true, "js": true, "python": true, "cel": true, "mermaid": true, "text": true, "ini": true,
}

func TestBlocks_name_their_language(t *testing.T) {
	for _, p := range pages(t) {
		_, found := p.split()
		for _, b := range found {
			if !languages[b.language] {
				t.Errorf("%s:%d: the code block has the language %q, which is not known", b.page, b.line, b.language)
			}
		}
	}
}

func TestBlocks_of_JSON_parse(t *testing.T) {
	for _, b := range blocks(t, "json") {
		decoder := json.NewDecoder(strings.NewReader(b.text))
		for {
			var value any
			err := decoder.Decode(&value)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
				break
			}
		}
	}
}

func TestBlocks_of_YAML_parse(t *testing.T) {
	for _, b := range blocks(t, "yaml") {
		var value yaml.Node
		if err := yaml.Unmarshal([]byte(b.text), &value); err != nil {
			t.Errorf("%s:%d: %v", b.page, b.line, err)
		}
		if strings.HasPrefix(b.text, "kind: openagentspec") {
			if _, err := oagent.ReadAgents([]byte(b.text), fmt.Sprintf("%s:%d", b.page, b.line)); err != nil {
				t.Error(err)
			}
		}
		if strings.HasPrefix(b.text, "overlay:") {
			if _, err := overlay.Read([]byte(b.text), fmt.Sprintf("%s:%d", b.page, b.line)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestBlocks_of_Caddyfiles_load provisions each Caddyfile of the documentation. A block of the
// mode "syntax" describes the grammar of a directive, and does not load.
//
// Files that a block names are in docs/testdata. A block that is not a whole Caddyfile is put
// into one, see wholeCaddyfile.
func TestBlocks_of_Caddyfiles_load(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	demo, err := os.ReadFile("../testdata/demo.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "testdata"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "testdata", "demo.openapi.yaml"), demo, 0o600); err != nil {
		t.Fatal(err)
	}
	all := blocks(t, "caddyfile")
	t.Chdir(dir)
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	for _, b := range all {
		if b.mode == "syntax" || strings.HasPrefix(b.mode, "file=") && b.page == "docs/tutorial.md" {
			continue // the tutorial's files are loaded by TestTutorial
		}
		t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) {
			text := environment(t, dir, wholeCaddyfile(b.text))
			config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var parsed caddy.Config
			if err := caddy.StrictUnmarshalJSON(config, &parsed); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(&parsed); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

var (
	siteAddress      = regexp.MustCompile(`(?m)^(\{|(https?://)?[\w*.-]*[.:][\w.:-]*( [\w.:-]+)* \{)$`)
	firstWord        = regexp.MustCompile(`(?m)^([^\s#]\S*)`)
	endpointToolsets = regexp.MustCompile(`(?m)^\s*(?:mcp|otc) /\S+ ([a-z ]+?)(?: \{)?$`)
)

// Options of a block, by the block that they belong to. Everything else is a directive of a site.
var optionsOf = map[string]string{
	"include": "toolset", "exclude": "toolset", "tool": "toolset", "overlay": "toolset", "credential": "toolset",
	"reviewer": "oagent", "chat": "oagent", "identity": "oagent", "discovery": "mcp",
	"verify": "agent_events",
}

// wholeCaddyfile puts a part of a Caddyfile into what must be around it: options into the block
// of their directive, a toolset into the option "agents", directives into a site with an API.
// Toolsets that a site names but does not define are added: trains has the document trains.yaml.
func wholeCaddyfile(text string) string {
	whole := siteAddress.FindString(text)
	if strings.HasPrefix(whole, "{") {
		return text
	}
	first := firstWord.FindString(text)
	switch optionsOf[first] {
	case "toolset":
		text = "toolset trains trains.yaml {\n" + text + "}\n"
		first = "toolset"
	case "oagent":
		text = "oagent agents/clerk.yaml agents/supervisor.yaml {\nguard clerk\n" + text + "}\n"
	case "agent_events":
		text = "agent_events /hooks/shop shop {\n" + text + "}\nmcp /mcp shop\n"
	case "mcp":
		text = "mcp /mcp trains.yaml {\n" + text + "}\n"
	}
	if first == "toolset" {
		return "{\nagents {\n" + text + "}\n}\n"
	}
	defined := map[string]bool{}
	options := "{\nagents {\n"
	for _, endpoint := range endpointToolsets.FindAllStringSubmatch(text, -1) {
		for name := range strings.FieldsSeq(endpoint[1]) {
			if !defined[name] {
				options += "toolset " + name + " " + name + ".yaml\n"
			}
			defined[name] = true
		}
	}
	options += "}\n}\n"
	if whole != "" {
		return options + text
	}
	if strings.Contains(text, "oagent ") && !strings.Contains(text, "mcp ") {
		text = "mcp /mcp trains.yaml\n" + text
	}
	if !strings.Contains(text, "reverse_proxy") {
		text += "reverse_proxy legacy:8080\n"
	}
	return options + "api.example.com {\n" + text + "}\n"
}

var (
	envPlaceholder = regexp.MustCompile(`\{env\.(\w+)\}`)
	secretFile     = regexp.MustCompile(`/run/secrets/\w+`)
	passwordHash   = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG"
)

// environment gives the Caddyfile what it expects of its machine: variables and secret files.
func environment(t *testing.T, dir, text string) string {
	t.Helper()
	for _, found := range envPlaceholder.FindAllStringSubmatch(text, -1) {
		value := "a-secret-of-the-documentation-" + found[1]
		if strings.HasSuffix(found[1], "_URL") {
			value = "redis://127.0.0.1:6379"
		}
		t.Setenv(found[1], value)
	}
	for _, path := range secretFile.FindAllString(text, -1) {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte("a-secret-of-the-documentation"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text = strings.ReplaceAll(text, "/run/secrets/", filepath.ToSlash(dir)+"/")
	return strings.ReplaceAll(text, "$2a$14$…", passwordHash)
}

// TestBlocks_use_tabs checks that Caddyfiles are indented as "caddy fmt" does it.
func TestBlocks_use_tabs(t *testing.T) {
	for _, b := range blocks(t, "caddyfile") {
		if bytes.Contains([]byte("\n"+b.text), []byte("\n ")) {
			t.Errorf("%s:%d: indent with tabs", b.page, b.line)
		}
	}
}

// TestBlocks_leave_the_host_to_Caddy checks that no configuration sets the header Host for an https:// upstream. Caddy
// does it itself, and warns.
func TestBlocks_leave_the_host_to_Caddy(t *testing.T) {
	for _, b := range blocks(t, "caddyfile") {
		if strings.Contains(b.text, "reverse_proxy https://") && strings.Contains(b.text, "header_up Host {upstream_hostport}") {
			t.Errorf("%s:%d: remove header_up Host", b.page, b.line)
		}
	}
}
