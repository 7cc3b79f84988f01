package commands_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestToolsCommand(t *testing.T) {
	s := sitetest.NewSite(t)
	path := s.Write("trips.yaml", sitetest.Trips+"  /broken:\n    get:\n      operationId: broken\n      requestBody: {$ref: '#/nowhere'}\n      responses: {}\n")

	t.Run("table", func(t *testing.T) {
		out, _, err := sitetest.CaddyTools(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]string{
			{"NAME", "METHOD", "PATH", "ARGUMENTS", "TOKENS"},
			{"getTrip ", "GET ", "/trips/{id} ", "id*"},
			{"listTrips ", "limit X_Trace lang"},
			{"tools of 6 operations (0 excluded), about"},
			{"lost", "GET /broken"},
		} {
			found := false
			for line := range strings.Lines(out) {
				found = found || sitetest.ContainsAll(line, want)
			}
			if !found {
				t.Errorf("no line with %q in\n%s", want, out)
			}
		}
	})
	t.Run("readonly", func(t *testing.T) {
		out, _, err := sitetest.CaddyTools(path, "--readonly")
		if err != nil || !strings.Contains(out, "getTrip") || strings.Contains(out, "deleteTrip") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("events", func(t *testing.T) {
		hooks := s.Write("hooks.yaml", `{"openapi":"3.1.0","info":{"title":"Hooks"},"webhooks":{
			"paid":{"post":{"requestBody":{"content":{"application/json":{"schema":{"properties":{"type":{"const":"invoice.paid"}}}}}}}},"none":{"get":{}}}}`)
		out, _, err := sitetest.CaddyTools(hooks)
		if err != nil || !sitetest.ContainsAll(out, []string{"agent_events receives (1):\n  invoice.paid\n", "note  event none: cannot be received: it has neither post nor put"}) {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("no tool over MCP", func(t *testing.T) {
		hidden := s.Write("hidden.yaml", strings.Replace(sitetest.Trips, "operationId: getTrip\n", "operationId: getTrip\n      x-mcp: {tool: false}\n", 1))
		if out, _, err := sitetest.CaddyTools(hidden); err != nil || !strings.Contains(out, "1 of these are no tools") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("selection", func(t *testing.T) {
		out, _, err := sitetest.CaddyTools(path, "--include", "path=/trips/**", "--exclude", "method=delete")
		if err != nil {
			t.Error(err)
		}
		for name, want := range map[string]bool{"getTrip": true, "deleteTrip": false, "listTrips": false} {
			if got := strings.Contains(out, name); got != want {
				t.Errorf("%s is listed: got %t, want %t:\n%s", name, got, want, out)
			}
		}
	})
	t.Run("json", func(t *testing.T) {
		out, aside, err := sitetest.CaddyTools(path, "--json")
		if err != nil {
			t.Fatal(err)
		}
		var list []map[string]any
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 5 {
			t.Errorf("%v: %s", err, out)
		}
		if !strings.Contains(aside, "GET /broken") {
			t.Errorf("warnings: %s", aside)
		}
	})
	t.Run("json-has-response-schemas", func(t *testing.T) {
		out, _, err := sitetest.CaddyTools(s.Write("answer.json", `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"operationId":"a","responses":{"200":{
			"description":"A","content":{"application/json":{"schema":{"type":"object","properties":{"seats":{"type":"integer"}}}}}}}}}}}`), "--json")
		if err != nil || !strings.Contains(out, `"response_schema":{"type":"object","properties":{"seats":{"type":"integer"}}}`) {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("lint-adds-the-validator", func(t *testing.T) {
		bare := s.Write("bare.json", `{"openapi":"3.0.3","info":{"title":"A"},"paths":{"/a":{"get":{"operationId":"a"}}}}`)
		out, _, err := sitetest.CaddyTools(bare, "--lint")
		if err != nil || !strings.Contains(out, "lint (1):") || !strings.Contains(out, "1 tools of 1") {
			t.Errorf("findings are printed and do not fail the command: %v\n%s", err, out)
		}
		if out, _, err := sitetest.CaddyTools(bare); err != nil || strings.Contains(out, "lint") {
			t.Errorf("not requested: %v\n%s", err, out)
		}
		out, aside, err := sitetest.CaddyTools(bare, "--lint", "--json")
		if err != nil || strings.Contains(out, "lint") || !strings.Contains(aside, "lint (1):") {
			t.Errorf("beside JSON: %v\n%s\n%s", err, out, aside)
		}
	})
	t.Run("lint-lists-guessed-body-types", func(t *testing.T) {
		document := s.Write("range.json", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"post":{"operationId":"a",
			"requestBody":{"content":{"*/*":{"schema":{"type":"object"}}}},"responses":{"200":{"description":"OK"}}}}}}`)
		out, _, err := sitetest.CaddyTools(document, "--lint")
		if err != nil || !strings.Contains(out, "guesses (1):") || !strings.Contains(out, "POST /a: request body") {
			t.Errorf("%v\n%s", err, out)
		}
		if out, _, err := sitetest.CaddyTools(document); err != nil || strings.Contains(out, "guesses") {
			t.Errorf("without --lint: %v\n%s", err, out)
		}
	})
	t.Run("lint-repeats-no-warning", func(t *testing.T) {
		out, _, err := sitetest.CaddyTools(s.Write("twice.json", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"servers":[{"url":"https://{x}/"}],"paths":{"/a":{"get":{"operationId":"a","responses":{"200":{"description":"A"}}}}}}`), "--lint")
		if err != nil || strings.Count(out, "default") != 1 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"lint":               {[]string{path, "--lint"}, "1 operation"},
		"missing file":       {[]string{s.Dir + "/nowhere.yaml"}, "nowhere.yaml"},
		"unreachable URL":    {[]string{"http://127.0.0.1:1/openapi.json"}, "127.0.0.1:1"},
		"garbage":            {[]string{s.Write("garbage", "{")}, "garbage"},
		"no document":        {nil, "accepts 1 arg"},
		"bad selector":       {[]string{path, "--include", "bookings"}, "tag=bookings"},
		"unknown selector":   {[]string{path, "--exclude", "label=x"}, "unknown selector"},
		"unknown schemas":    {[]string{path, "--schemas", "some"}, "some"},
		"unsupported scheme": {[]string{"ftp://x/y"}, "ftp"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.CaddyTools(test.arguments...)
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// largestWrite remembers the largest of several writes.
type largestWrite struct{ largest, total int }

func (w *largestWrite) Write(b []byte) (int, error) {
	w.largest, w.total = max(w.largest, len(b)), w.total+len(b)
	return len(b), nil
}

// TestTools_json_is_written_tool_by_tool keeps the memory to that of one tool.
func TestTools_json_is_written_tool_by_tool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wide.json")
	if err := os.WriteFile(path, testkit.WideDocument(testkit.WideOptions{Operations: 200, Schemas: 50, Properties: 9, Description: 40}), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{Use: "tools", SilenceUsage: true}
	caddycmd.Commands()["tools"].CobraFunc(cmd)
	var out largestWrite
	cmd.SetOut(&out)
	cmd.SetArgs([]string{path, "--json"})
	if err := cmd.Execute(); err != nil || out.total == 0 || out.largest*50 > out.total {
		t.Errorf("%v: one write of %d bytes, %d in all", err, out.largest, out.total)
	}
}
