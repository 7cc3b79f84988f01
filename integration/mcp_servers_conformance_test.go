package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// conformanceServer is the server of the official Go SDK for the conformance suite.
const conformanceServer = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// startConformanceServer runs conformanceServer until the test ends, and returns its URL.
func startConformanceServer(t *testing.T, program string, stateless bool) string {
	t.Helper()
	address := freeAddress(t)
	return runServer(t, address, exec.Command(program, "-http", address, fmt.Sprint("-stateless=", stateless))) + "/mcp"
}

// differs are the checks of the suite that pass against the server and need not pass through the gateway, with the
// reason. TestMCPServers_change_of_a_process covers changes of lists.
var differs = map[string]string{
	"server-sse-polling server-sse-retry-field":                                   "the server closes the stream of a call, and the gateway continues it: the client gets the result without a break",
	"server-stateless sep-2575-server-sends-tools-list-changed-on-subscription":   "the suite registers the same tool again, so the list does not change: the gateway reports only changes",
	"server-stateless sep-2575-server-sends-prompts-list-changed-on-subscription": "the suite waits for 1.5 s, in which the gateway lists the prompts again: too short on a slow machine",
	"json-schema-2020-12 sep-2106-composition-keywords-preserved":                 "model APIs refuse a tool with an outermost allOf: the gateway lists its properties, and the server checks the arguments",
}

// TestMCPServers_conformance runs the official conformance suite against a server and against the gateway in front of
// it: each check that passes directly passes through the gateway.
func TestMCPServers_conformance(t *testing.T) {
	t.Parallel()
	nodeProgram(t)
	program := filepath.Join(t.TempDir(), "everything-server")
	if err := buildProgram("", conformanceServer, program); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		revision string
		least    int // scenarios without a problem
	}{
		{"2025-11-25", 30},
		{"2026-07-28", 37},
	} {
		t.Run(c.revision, func(t *testing.T) {
			t.Parallel()
			stateless, site := c.revision == "2026-07-28", freeAddress(t)
			g := startGateway(t, t.TempDir(), site, fmt.Sprintf(`{
	admin off
	default_bind 127.0.0.1
	agents {
		toolset suite {
			mcp_server %s
		}
	}
}
http://:%s {
	mcp suite
	mcp_servers
}
`, startConformanceServer(t, program, stateless), port(site)))
			g.waitForTools(t, "/mcp", "test_simple_text")
			direct := runSuite(t, startConformanceServer(t, program, stateless), c.revision) // another one, because the suite changes its lists
			through := runSuite(t, g.url+"/mcp", c.revision)
			passed := 0
			for scenario, checks := range direct.Scenarios {
				got := through.Scenarios[scenario]
				if problems(got) == "" && len(got) > 0 {
					passed++
				}
				for id, status := range worst(checks) {
					if now := worst(got)[id]; status == "SUCCESS" && now != "SUCCESS" && now != "INFO" && differs[scenario+" "+id] == "" {
						t.Errorf("%s: %s passes directly, and is %q through the gateway:%s", scenario, id, now, problems(got))
					}
				}
			}
			t.Logf("%d of %d scenarios pass through the gateway", passed, len(direct.Scenarios))
			if passed < c.least {
				t.Errorf("%d scenarios pass through the gateway, want at least %d", passed, c.least)
			}
		})
	}
}

func runSuite(t *testing.T, url, revision string) (out suiteOutput) {
	t.Helper()
	decodeOutput(t, node(t, "conformance.mjs", url, revision), &out)
	if len(out.Scenarios) == 0 {
		t.Fatalf("no scenario was run:\n%s", out.Log)
	}
	return out
}

// worst returns the status of each check, by its id. A check may be made several times.
func worst(checks []suiteCheck) map[string]string {
	ranks := []string{"INFO", "SUCCESS", "SKIPPED", "WARNING", "FAILURE"}
	all := make(map[string]string)
	for _, c := range checks {
		if slices.Index(ranks, c.Status) > slices.Index(ranks, all[c.ID]) {
			all[c.ID] = c.Status
		}
	}
	return all
}
