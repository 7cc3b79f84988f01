package commands_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// command runs one of Caddy's commands with standard input.
func command(name, stdin string, arguments ...string) (stdout, stderr string, err error) {
	cmd := &cobra.Command{Use: name, SilenceUsage: true}
	caddycmd.Commands()[name].CobraFunc(cmd)
	var out, aside bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&aside)
	cmd.SetArgs(append([]string{}, arguments...))
	err = cmd.Execute()
	return out.String(), aside.String(), err
}

func TestToolsCommand_reads_standard_input(t *testing.T) {
	out, _, err := command("tools", sitetest.Trips, "-")
	if err != nil || !strings.Contains(out, "getTrip") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := command("tools", strings.Repeat(" ", 64<<20+1), "-"); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("over the limit: %v", err)
	}
}

func TestToolsCommand_format(t *testing.T) {
	out, _, err := command("tools", sitetest.Trips, "-", "--format", "mcp")
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if err != nil || json.Unmarshal([]byte(out), &list) != nil {
		t.Fatalf("mcp: got %s, %v; want a list of tools", out, err)
	}
	if len(list.Tools) != 5 || list.Tools[0].InputSchema == nil {
		t.Errorf("mcp: got %+v, want 5 tools with schemas", list.Tools)
	}
	long, _, err := command("tools", sitetest.Trips, "-", "--format", "ocp")
	short, _, _ := command("tools", sitetest.Trips, "-", "--json")
	if err != nil || long != short || !json.Valid([]byte(long)) {
		t.Errorf("ocp: %v\n%s", err, long)
	}
	table, _, err := command("tools", sitetest.Trips, "-", "--format", "table")
	if plain, _, _ := command("tools", sitetest.Trips, "-"); err != nil || table != plain {
		t.Errorf("table: %v\n%s", err, table)
	}
	for _, arguments := range [][]string{{"-", "--format", "ocpp"}, {"-", "--json", "--format", "mcp"}} {
		if _, _, err := command("tools", sitetest.Trips, arguments...); err == nil {
			t.Errorf("%q: no error", arguments)
		}
	}
}

func TestToolsCommand_search(t *testing.T) {
	out, _, err := command("tools", sitetest.Trips, "-", "--search", "get rid of a trip")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out, "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[1], "deleteTrip ") {
		t.Errorf("got %q, want deleteTrip first", out)
	}
	if _, _, err := command("tools", sitetest.Trips, "-", "--search", "xyzzy"); err == nil {
		t.Error("a request that no tool fits: no error")
	}
}

func TestToolsCommand_no_tools_is_an_error(t *testing.T) {
	if _, _, err := command("tools", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{}}`, "-"); err == nil {
		t.Error("no error")
	}
	if _, _, err := command("tools", sitetest.Trips, "-", "--exclude", "path=/**"); err == nil || !strings.Contains(err.Error(), "--exclude") {
		t.Errorf("everything excluded: %v", err)
	}
}

func TestToolsCommand_lint_reports_unknown_extension_keys(t *testing.T) {
	document := `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"operationId":"getA",
		"x-mcp":{"titel":"A"},"responses":{"200":{"description":"ok"}}}}}}`
	out, _, err := command("tools", document, "-", "--lint")
	if err != nil || !strings.Contains(out, "`titel`") || !strings.Contains(out, "getA") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCommands_unknown_subcommand_is_an_error(t *testing.T) {
	for _, test := range [][3]string{{"oagent", "lnit", "lint"}, {"ocp", "decod", "decode"}, {"ocp", "quux", "validate"}} {
		if _, _, err := command(test[0], "", test[1]); err == nil || !strings.Contains(err.Error(), test[1]) || !testkit.ContainsAll(err.Error(), test[2]) {
			t.Errorf("%q: %v", test, err)
		}
	}
	if out, _, err := command("ocp", "", "help"); err != nil || out == "" {
		t.Errorf("help: %v", err)
	}
}

func TestOCPCommand_validate_rejects_a_context_without_required_members(t *testing.T) {
	for _, context := range []string{`{}`, `{"context_id":"ctx-1"}`} {
		out, _, err := command("ocp", "", "validate", context)
		if err == nil || strings.Contains(out, "usable") || !strings.Contains(err.Error(), "agent_type") {
			t.Errorf("%s: %v\n%s", context, err, out)
		}
	}
}
