package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// TestTroubleshooting_has_configuration_errors makes the mistakes that the page describes, and
// compares the errors with the texts of the page, in which "…" matches any text.
func TestTroubleshooting_has_configuration_errors(t *testing.T) {
	data, err := os.ReadFile("troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "## The configuration does not load")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1)
	mistakes := []string{
		"{\ntoolset trains trains.yaml\n}",
		"{\nagents {\ntoolset trains.yaml\n}\n}",
		"api.example.com {\nmcp /mcp trains.yaml {\ninclude tag a\nrespond ok\n}",
		"api.example.com {\nmcp /mcp broken.yaml\nrespond ok\n}",
		"api.example.com {\nnothing\n}",
		"api.example.com {\nmcp /mcp trains.yaml {\ninclde tag a\n}\nrespond ok\n}",
		"api.example.com {\nmcp /mcp missing.yaml\nrespond ok\n}",
		"api.example.com {\nmcp /mcp nothing\nrespond ok\n}",
		"api.example.com {\nmcp /mcp trains.yaml {\nexclude operation cancel_bookings\n}\nrespond ok\n}",
		"api.example.com {\nmcp /mcp trains.yaml\nmcp /mcp buses.yaml\nrespond ok\n}",
		":80 {\nagent_auth {\nissuer https://login.example.com\n}\nmcp /mcp trains.yaml\nrespond ok\n}",
		"{\nagents {\ntoolset trains trains.yaml buses.yaml\n}\n}",
		"api.example.com {\nmcp /mcp trains.yaml {\ncredential header Authorization \"Bearer {$FAIRWAY_TEST_UNSET}\"\n}\nrespond ok\n}",
		"api.example.com {\nmcp /mcp trains.yaml {\ncredential query key $API_KEY\n}\nrespond ok\n}",
		"api.example.com {\nmcp /mcp buses.yaml\noagent agents/clerk.yaml\nrespond ok\n}",
		"api.example.com {\nmcp /mcp trains.yaml\n@raw expression {http.tool.name} == null\nerror @raw 404\nrespond ok\n}",
	}
	if len(rows) < len(mistakes) {
		t.Fatalf("%d errors in the page, %d mistakes", len(rows), len(mistakes))
	}
	made := make([]bool, len(rows))
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte("openapi: 3.1.0\ninfo:\n  title: A: B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, mistake := range mistakes {
		got := loadError(t, mistake)
		explained := false
		for i, row := range rows {
			parts := strings.Split(row[1], "…")
			for j := range parts {
				parts[j] = regexp.QuoteMeta(strings.TrimSpace(parts[j]))
			}
			if regexp.MustCompile("(?s)" + strings.Join(parts, ".*")).MatchString(got) {
				explained, made[i] = true, true
			}
		}
		if !explained {
			t.Errorf("the page does not have the error: %s", got)
		}
	}
	for i, row := range rows {
		// Two processes are needed for the error of the store.
		if !made[i] && !strings.Contains(row[1], "the store") {
			t.Errorf("no configuration has the error: %s", row[1])
		}
	}
}

// loadError returns the error of a Caddyfile that must not load.
func loadError(t *testing.T, text string) string {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err == nil {
		var parsed caddy.Config
		if err := caddy.StrictUnmarshalJSON(config, &parsed); err != nil {
			t.Fatal(err)
		}
		err = caddy.Validate(&parsed)
	}
	if err == nil {
		t.Errorf("no error:\n%s", text)
		return ""
	}
	return err.Error()
}
