package structure_test

import (
	"os/exec"
	"strings"
	"testing"
)

// guestParts are what a build of single directives must not link: text in the import path of a package, with
// what it is.
var guestParts = map[string]string{
	"github.com/openai/":              "a model client",
	"github.com/anthropics/":          "a model client",
	module + "oagent/hosted":          "hosted agents",
	module + "caddymodule/hosted":     "hosted agents",
	module + "oagent/chat":            "guardrails on model traffic",
	module + "caddymodule/chat":       "guardrails on model traffic",
	module + "caddymodule/commands":   "commands",
	module + "caddymodule/console":    "the console",
	module + "store/postgres":         "Postgres",
	"github.com/jackc/":               "Postgres",
	module + "store/redis":            "Redis",
	"github.com/redis/":               "Redis",
	module + "caddymodule/embeddings": "embeddings",
}

// TestDirectives_link_no_guests keeps each of these directives usable alone, as with
// xcaddy build --with github.com/fairwayhq/fairway/caddymodule/mcp.
func TestDirectives_link_no_guests(t *testing.T) {
	const folder = "../../caddymodule/"
	// The tags are those of xcaddy. Without them, Caddy itself links a client of Postgres.
	out, err := exec.Command("go", "list", "-tags=nobadger,nomysql,nopgx", `-f={{.Name}}{{range .Deps}} {{.}}{{end}}`,
		folder+"mcp", folder+"otc", folder+"ocp", folder+"auth", folder+"oagent").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linkedBy := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(linkedBy) != 5 {
		t.Fatalf("got %d packages, want 5:\n%s", len(linkedBy), out)
	}
	for _, line := range linkedBy {
		directive, linked := strings.Fields(line)[0], strings.Fields(line)[1:]
		for _, path := range linked {
			for part, what := range guestParts {
				if strings.HasPrefix(path, part) {
					t.Errorf("%s links %s (%s): have it register itself in a package that only caddymodule imports", directive, path, what)
				}
			}
		}
		if len(linked) < 100 {
			t.Errorf("go list found few packages for %s", directive)
		}
	}
}
