package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/store/storetest"
)

// examples are the folders whose README is run. Each value prepares what the example needs
// besides Caddy, and returns environment variables that replace those of its README.
var examples = map[string]func(w *workspace) []string{
	"saas-token": nil, "read-only": nil, "mcp-servers": nil, "skills": nil, "two-apis": nil, "tools-only": nil, "user-rights": nil,
	"rate-limit": nil, "desktop": nil, "audit-log": nil, "corporate-proxy": nil,
	"circuit-breaker": nil, "approvals": nil, "model-proxy": nil, "redaction": nil, "webhooks-to-agents": nil, "uploads": nil,
	"oauth":          identityProvider,
	"login":          loginProvider,
	"machines":       loginProvider,
	"token-exchange": loginProvider,
	"own-accounts":   loginProvider,
	"several-nodes":  redis,
	"caching":        func(w *workspace) []string { return without(w, "cache") },
}

// TestExamples starts each example as its README says, runs the commands of the README and
// compares their output.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, prepare := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, filepath.Join("examples", name))
			var env []string
			if prepare != nil {
				env = prepare(w)
			}
			w.runPage("examples/"+name+"/README.md", env)
		})
	}
}

// TestExamples_agents runs the example of hosted agents, which is started in the root.
func TestExamples_agents(t *testing.T) {
	t.Parallel()
	newWorkspace(t, ".").runPage("examples/agents/README.md", nil)
}

// TestTutorial does what the tutorial says.
func TestTutorial(t *testing.T) {
	t.Parallel()
	newWorkspace(t, "tutorial").runPage("docs/tutorial.md", nil)
}

// TestBackup does what the page about backups says.
func TestBackup(t *testing.T) {
	t.Parallel()
	newWorkspace(t, filepath.Join("examples", "approvals")).runPage("docs/backup.md", nil)
}

// TestExamples_use_the_API_of_the_first_example checks that the API of the examples is the one of
// Caddyfile.example.
func TestExamples_use_the_API_of_the_first_example(t *testing.T) {
	var sites []string
	for _, name := range []string{"Caddyfile.example", "examples/railway.caddyfile"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		_, site, found := strings.Cut(string(data), "\n:8081 {\n")
		if !found {
			t.Fatalf("%s has no site :8081", name)
		}
		// Caddy removes one level of escapes from files that it imports.
		site = strings.ReplaceAll(site, ", twice in an imported file", "")
		sites = append(sites, strings.NewReplacer(`\\{`, `\{`, `\\}`, `\}`).Replace(site))
	}
	if sites[0] != sites[1] {
		t.Error("the site :8081 in examples/railway.caddyfile differs from the one in Caddyfile.example")
	}
}

func redis(w *workspace) []string {
	url, _ := storetest.Redis(w.t)
	return []string{"REDIS_URL=" + url}
}

// without removes a directive and its global options from the Caddyfile of the workspace.
func without(w *workspace, directive string) []string {
	w.t.Helper()
	path := filepath.Join(w.dir, "Caddyfile")
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	var kept []string
	closing := ""
	removed := 0
	for line := range strings.Lines(string(data)) {
		text := strings.TrimLeft(line, "\t")
		switch {
		case closing != "":
			if line == closing {
				closing = ""
			}
		case strings.HasPrefix(text, directive+" ") || strings.HasPrefix(text, "order "+directive+" "):
			removed++
			if strings.HasSuffix(text, "{\n") {
				closing = line[:len(line)-len(text)] + "}\n"
			}
		default:
			kept = append(kept, line)
		}
	}
	if removed < 2 {
		w.t.Fatalf("%s: %d uses of %s", path, removed, directive)
	}
	if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return nil
}

// TestCommands compares the help of the commands with the reference.
func TestCommands(t *testing.T) {
	t.Parallel()
	newWorkspace(t, "commands").runPage("docs/commands.md", nil)
}

// TestReadme runs the commands of the README, and of another page, against the configuration that
// it starts.
func TestReadme(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, ".")
	data, err := os.ReadFile(filepath.Join(root, "Caddyfile.example"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "Caddyfile.example"), []byte(w.freePorts(string(data))), 0o600); err != nil {
		t.Fatal(err)
	}
	w.runPage("README.md", nil)
	w.stop()
	w.caddy(nil, "run", "--config", "Caddyfile.example")
	w.runPage("docs/protocols.md", nil)
}

// caddyLine is a command of a page that uses Caddy. A comment may follow two spaces.
var caddyLine = regexp.MustCompile(`(?m)^(\$ )?(?:\./)?caddy ((?:\\\n|\\[^\n]|[^|\n\\])*?)(?:  +#.*)?$`)

// TestCommands_of_pages_exist checks the commands and the options of all pages. It runs them with
// --help, which fails if an option is unknown.
func TestCommands_of_pages_exist(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "commands")
	seen := map[string]bool{}
	for _, b := range blocks(t, "sh", "console") {
		for _, found := range caddyLine.FindAllStringSubmatch(b.text, -1) {
			command := "caddy " + strings.TrimSpace(found[2])
			isOutput := b.language == "console" && found[1] == ""
			if isOutput || strings.HasSuffix(command, "--help") || seen[command] {
				continue
			}
			seen[command] = true
			if output := w.run(command + " --help >/dev/null || echo failed"); output != "" {
				t.Errorf("%s:%d: %s: %s", b.page, b.line, command, output)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d commands found", len(seen))
	}
}

func TestExamples_are_formatted(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "examples", "*", "*addyfile"))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := filepath.Glob(filepath.Join(root, "examples", "*.caddyfile"))
	if err != nil || len(paths) < len(examples) {
		t.Fatalf("%d Caddyfiles, %v", len(paths), err)
	}
	for _, path := range append(paths, shared...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(caddyfile.Format(data)) != string(data) {
			t.Errorf("%s is not formatted; run: caddy fmt --overwrite %s", path, path)
		}
	}
}
