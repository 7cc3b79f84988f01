package integration

import (
	"bufio"
	"context"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const fixtureFiles = "../testdata/conformance"

// startFixture runs the API of testdata/conformance, and a gateway in front of it
// with the Caddyfile there, as it stands but for its ports. Both have copies of the
// document and the prompts, which the API changes on demand, and the gateway those of the skills.
func startFixture(t *testing.T) *gateway {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"openapi.yaml", "prompts.yaml"} {
		writeFile(t, filepath.Join(dir, name), readFixture(t, name))
	}
	if err := os.CopyFS(filepath.Join(dir, "skills"), os.DirFS(filepath.Join(fixtureFiles, "skills"))); err != nil {
		t.Fatal(err)
	}
	api, site := freeAddress(t), freeAddress(t)
	startFixtureAPI(t, dir, api)

	config := readFixture(t, "Caddyfile")
	for _, change := range [][2]string{
		{"\n:8080 {", "\n:" + port(site) + " {"},
		{"reverse_proxy 127.0.0.1:8081", "reverse_proxy " + api},
	} {
		if strings.Count(config, change[0]) != 1 {
			t.Fatalf("%s/Caddyfile has not exactly one %q", fixtureFiles, change[0])
		}
		config = strings.Replace(config, change[0], change[1], 1)
	}
	return startGateway(t, dir, site, config)
}

// fixtureAPI builds the API, and returns its path.
var fixtureAPI = sync.OnceValues(func() (string, error) {
	program := filepath.Join(filepath.Dir(caddy), "upstream")
	return program, buildProgram("", fixtureFiles+"/upstream", program)
})

// startFixtureAPI runs the API until the test ends.
func startFixtureAPI(t *testing.T, dir, address string) {
	t.Helper()
	program, err := fixtureAPI()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-listen", address,
		"-openapi", filepath.Join(dir, "openapi.yaml"), "-prompts", filepath.Join(dir, "prompts.yaml"))
	log := &output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait() // it is killed, which is an error
		if t.Failed() && log.String() != "" {
			t.Logf("the fixture API's log:\n%s", log)
		}
	})
	waitFor(t, startTimeout, "the fixture API to answer", func() bool {
		response, err := http.Get("http://" + address + "/text")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

func readFixture(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(fixtureFiles, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// An expectation is one line of testdata/conformance/expected.txt.
type expectation struct {
	revision, rank, scenario string
}

// readExpectations returns the lines about one revision.
func readExpectations(t *testing.T, revision string) (all []expectation) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(readFixture(t, "expected.txt")))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 3 || !slices.Contains([]string{"required", "passes", "fails"}, fields[1]) || (fields[1] == "fails") != (len(fields) > 3) {
			t.Fatalf("expected.txt: %q is not a revision, required, passes or fails, and a scenario, with a reason if it fails", lines.Text())
		}
		if fields[0] == revision {
			all = append(all, expectation{fields[0], fields[1], fields[2]})
		}
	}
	return all
}

// suiteOutput is what conformance.mjs prints.
type suiteOutput struct {
	Exit      int                     `json:"exit"`
	Scenarios map[string][]suiteCheck `json:"scenarios"`
	Log       string                  `json:"log"`
}

type suiteCheck struct {
	ID           string `json:"id"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	ErrorMessage string `json:"errorMessage"`
}

// problems returns the checks that have not succeeded, one in each line, and ""
// if there are none.
func problems(checks []suiteCheck) string {
	var b strings.Builder
	for _, c := range checks {
		if c.Status != "SUCCESS" && c.Status != "INFO" {
			b.WriteString("\n\t" + c.Status + " " + c.ID + ": " + c.ErrorMessage)
		}
	}
	return b.String()
}

// TestConformance runs the official conformance suite. It is stricter than the
// suite, for which a warning is a success.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		revision string
		required int
	}{
		{"2025-11-25", 30},
		{"2026-07-28", 37},
	} {
		t.Run(c.revision, func(t *testing.T) {
			g := startFixture(t)
			var out suiteOutput
			decodeOutput(t, node(t, "conformance.mjs", g.url+"/mcp", c.revision), &out)
			if len(out.Scenarios) == 0 {
				t.Fatalf("no scenario was run:\n%s", out.Log)
			}

			unexpected := maps.Clone(out.Scenarios)
			required, passed := 0, 0
			for _, e := range readExpectations(t, c.revision) {
				checks, found := out.Scenarios[e.scenario]
				delete(unexpected, e.scenario)
				failed := problems(checks)
				if e.rank == "required" {
					required++
				}
				switch {
				case !found:
					t.Errorf("%s was not run", e.scenario)
				case e.rank == "fails" && failed == "":
					t.Errorf("%s passes: expected.txt says that it does not", e.scenario)
				case e.rank != "fails" && failed != "":
					t.Errorf("%s (%s):%s", e.scenario, e.rank, failed)
				case e.rank == "required":
					passed++
				}
			}
			t.Logf("%d of %d required scenarios pass", passed, required)
			if required != c.required {
				t.Errorf("expected.txt lists %d required scenarios of %s, want %d", required, c.revision, c.required)
			}
			if out.Exit != 0 {
				t.Errorf("the suite ended with %d", out.Exit)
			}
			for scenario, checks := range unexpected {
				t.Errorf("expected.txt does not name %s, which was run:%s", scenario, problems(checks))
			}
		})
	}
}

// TestConformance_skills runs the scenarios of the extension io.modelcontextprotocol/skills. Every check must succeed: one that
// is skipped says that the fixture lacks something.
func TestConformance_skills(t *testing.T) {
	g := startFixture(t)
	scenarios := []string{"sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"}
	var out suiteOutput
	decodeOutput(t, node(t, append([]string{"conformance.mjs", g.url + "/mcp", "2026-07-28"}, scenarios...)...), &out)
	checked := 0
	for _, scenario := range scenarios {
		checks := out.Scenarios[scenario]
		checked += len(checks)
		if failed := problems(checks); failed != "" || len(checks) == 0 {
			t.Errorf("%s: %d checks%s\n%s", scenario, len(checks), failed, out.Log)
		}
	}
	t.Logf("%d checks of %d scenarios pass", checked, len(scenarios))
	if checked < 40 || out.Exit != 0 {
		t.Errorf("%d checks, exit %d", checked, out.Exit)
	}
}
