package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// nodeTimeout is how long one client written in JavaScript may run.
const nodeTimeout = 3 * time.Minute

// nodeClients is the directory of those clients; "npm ci" there installs them.
const nodeClients = "../testdata/npm"

// nodeProgram returns the path of Node, and skips the test where it or the
// packages are missing.
func nodeProgram(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(nodeClients, "node_modules")); err != nil {
		testkit.Missing(t, "the npm clients are not installed: run npm ci --ignore-scripts in testdata/npm")
	}
	// The packages bring a Node new enough for all of them, where npm has one.
	program, err := filepath.Abs(filepath.Join(nodeClients, "node_modules", ".bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("node"); err != nil {
			testkit.Missing(t, "Node is not installed")
		}
	}
	return program
}

// node runs a script of nodeClients and returns what it prints.
func node(t *testing.T, args ...string) []byte {
	t.Helper()
	stdout, stderr, err := runNode(t, args...)
	if err != nil {
		t.Fatalf("node %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// runNode runs a script of testdata/npm.
func runNode(t *testing.T, args ...string) (stdout, stderr []byte, err error) {
	t.Helper()
	program := nodeProgram(t)
	home := t.TempDir()
	var out, errors bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = nodeClients
	cmd.Env = append(os.Environ(), "HOME="+home, "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = &out, &errors
	timer := time.AfterFunc(nodeTimeout, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err = cmd.Run()
	return out.Bytes(), errors.Bytes(), err
}

// decodeOutput reads the JSON that a client has printed.
func decodeOutput(t *testing.T, out []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("the client printed no JSON: %v\n%.1000s", err, out)
	}
}

// callOutput is a tool result as the clients print it.
type callOutput struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	StructuredContent struct {
		To string `json:"to"`
	} `json:"structuredContent"`
	IsError bool `json:"isError"`
}

// scriptOutput is what sdk.mjs and client.mjs print for each call.
type scriptOutput struct {
	Protocol string     `json:"protocol"`
	Tools    []string   `json:"tools"`
	Result   callOutput `json:"result"`
}

// TestTypeScriptSDK speaks with the official TypeScript clients. Starting Node takes most of the time, so that one process
// of each client makes all calls, each with a connection of its own.
func TestTypeScriptSDK(t *testing.T) {
	g := startExample(t)
	calls := []string{g.url + "/mcp", "get_trip", `{"trip_id":"ir-1512"}`, `{}`}
	for _, c := range []struct {
		command []string
		modes   []string
		want    []string // the revision in each mode
	}{
		{[]string{"sdk.mjs"}, []string{"sdk"}, []string{"2025-11-25"}},
		{[]string{"client.mjs", "legacy,auto,2026-07-28"}, []string{"client legacy", "client auto", "client pinned"}, []string{"2025-11-25", "2026-07-28", "2026-07-28"}},
	} {
		var all []scriptOutput
		decodeOutput(t, node(t, append(c.command, calls...)...), &all)
		if len(all) != 2*len(c.modes) {
			t.Fatalf("%q: %d results: %+v", c.command, len(all), all)
		}
		for i, mode := range c.modes {
			t.Run(mode, func(t *testing.T) {
				found, missing := all[2*i], all[2*i+1]
				for _, out := range []scriptOutput{found, missing} {
					if out.Protocol != c.want[i] {
						t.Errorf("revision %q, want %q", out.Protocol, c.want[i])
					}
					if !slices.Equal(out.Tools, exampleTools) {
						t.Errorf("tools %q, want %q", out.Tools, exampleTools)
					}
				}
				if found.Result.IsError || found.Result.StructuredContent.To != "Geneva" {
					t.Errorf("get_trip: %+v", found.Result)
				}
				if !missing.Result.IsError || len(missing.Result.Content) == 0 || !strings.Contains(missing.Result.Content[0].Text, "trip_id") {
					t.Errorf("get_trip without arguments: %+v, want an error that names trip_id", missing.Result)
				}
			})
		}
	}
}

// inspector runs the command line of the MCP Inspector against the gateway.
func inspector(t *testing.T, g *gateway, args ...string) []byte {
	t.Helper()
	return node(t, append([]string{
		"node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
		"--cli", g.url + "/mcp", "--transport", "http",
	}, args...)...)
}

// TestInspector uses the MCP Inspector. With --strict it also fails on schemas
// that some clients do not take.
func TestInspector(t *testing.T) {
	g := startExample(t)
	t.Run("list", func(t *testing.T) {
		var out struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		}
		decodeOutput(t, inspector(t, g, "--method", "tools/list", "--strict"), &out)
		if len(out.Tools) != len(exampleTools) {
			t.Errorf("%d tools, want %d: %+v", len(out.Tools), len(exampleTools), out.Tools)
		}
	})
	t.Run("call", func(t *testing.T) {
		var out callOutput
		decodeOutput(t, inspector(t, g, "--method", "tools/call", "--tool-name", "get_trip", "--tool-arg", "trip_id=ir-1512"), &out)
		if out.IsError || out.StructuredContent.To != "Geneva" {
			t.Errorf("get_trip: %+v", out)
		}
	})
}
