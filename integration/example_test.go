package integration

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exampleTools are the tools of testdata/demo.openapi.yaml, and the built-in one.
var exampleTools = []string{"list_trips", "get_trip", "create_booking", "cancel_booking", "next_page"}

// startExample runs Caddyfile.example as it stands but for its ports and the
// admin endpoint, which other tests and a running Caddy want too.
func startExample(t *testing.T) *gateway {
	t.Helper()
	site := freeAddress(t)
	return startGateway(t, "..", site, exampleConfig(t, site, t.TempDir()))
}

// exampleConfig returns Caddyfile.example with free ports for its two sites, no admin endpoint,
// and its data in the folder.
func exampleConfig(t *testing.T, site, data string) string {
	t.Helper()
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	api := freeAddress(t)
	config := string(example)
	for _, change := range [][2]string{
		{"{\n\t# Only this machine", "{\n\tadmin off\n\t# Only this machine"},
		{"\n:8080 {", "\n:" + port(site) + " {"},
		{"\n:8081 {", "\n:" + port(api) + " {"},
		{"reverse_proxy 127.0.0.1:8081", "reverse_proxy " + api},
		{"storage file_system example-data", "storage file_system " + data},
		{"store bolt example-data/", "store bolt " + data + "/"},
	} {
		if strings.Count(config, change[0]) != 1 {
			t.Fatalf("Caddyfile.example has not exactly one %q", change[0])
		}
		config = strings.Replace(config, change[0], change[1], 1)
	}
	return config
}

func TestExample_keeps_its_files_in_a_folder_of_its_own(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	site := freeAddress(t)
	config := strings.Replace(exampleConfig(t, site, "example-data"), "openapi testdata", "openapi "+absolute(t, "../testdata"), 1)
	writeFile(t, filepath.Join(dir, "Caddyfile.example"), config)

	log := new(output)
	cmd := exec.Command("sh", absolute(t, "../xcaddy.sh"), "run", "--adapter", "caddyfile", "--config", "Caddyfile.example")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "XDG_") }),
		"HOME="+home, "OUTPUT="+caddy)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	call := `{"request":{"call_id":"1","tool_id":"DemoRailway.get_trip","input":{"trip_id":"ir-1512"}}}`
	waitFor(t, startTimeout, "the example to answer", func() bool {
		response, err := http.Post("http://"+site+"/otc/call", "application/json", strings.NewReader(call))
		if err == nil {
			response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	if _, err := os.Stat(filepath.Join(dir, "example-data", "agents.db")); err != nil {
		t.Errorf("the store of the example: %v", err)
	}
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) > 0 {
		t.Errorf("the example wrote %v into the home folder, %v", entries, err)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func port(address string) string {
	return address[strings.LastIndexByte(address, ':')+1:]
}

func TestExample(t *testing.T) {
	g := startExample(t)

	if names := g.toolNames(t); !slices.Equal(names, exampleTools) {
		t.Errorf("tools/list: %q, want %q", names, exampleTools)
	}
	if a := g.send(t, http.MethodGet, "/trips/ir-1512", "", nil, nil); a.status != http.StatusOK || !strings.Contains(string(a.body), "Geneva") {
		t.Errorf("the API behind the gateway: %d %s", a.status, a.body)
	}
	if a := g.send(t, http.MethodGet, "/otc/health", "", nil, nil); a.status != http.StatusOK {
		t.Errorf("GET /otc/health: %d", a.status)
	}

	for _, c := range []struct {
		name, tool, arguments string
		failed                bool
		want                  []string // all of it in the text
	}{
		{"list", "list_trips", `{}`, false, []string{"ic-801", "ir-1512", "ice-71"}},
		{"query parameter", "list_trips", `{"to":"Geneva"}`, false, []string{"ir-1512"}},
		{"path parameter", "get_trip", `{"trip_id":"ic-801"}`, false, []string{`"to":"Zurich"`}},
		{"body", "create_booking", `{"trip_id":"ic-801","passenger":"Ada"}`, false, []string{"bk-1001", `"passenger":"Ada"`}},
		{"default is sent", "create_booking", `{"trip_id":"ic-801","passenger":"Ada"}`, false, []string{`"seats":1`}},
		{"404 of the API", "get_trip", `{"trip_id":"ic-9"}`, true, []string{"404", "no trip has this id"}},
		{"409 of the API", "create_booking", `{"trip_id":"ice-71","passenger":"Ada"}`, true, []string{"409", "no seat left"}},
		{"missing argument", "get_trip", `{}`, true, []string{"trip_id"}},
		{"wrong type", "create_booking", `{"trip_id":"ic-801","passenger":"Ada","seats":"two"}`, true, []string{"seats", "integer"}},
		{"out of range", "create_booking", `{"trip_id":"ic-801","passenger":"Ada","seats":10}`, true, []string{"seats", "9"}},
		{"pattern", "get_trip", `{"trip_id":"../admin"}`, true, []string{"trip_id"}},
		{"unknown argument", "list_trips", `{"too":"Geneva"}`, true, []string{"too", `to`}},
	} {
		t.Run("MCP/"+c.name, func(t *testing.T) { checkResult(t, g.callMCP(t, c.tool, c.arguments), c.failed, c.want) })
		t.Run("OTC/"+c.name, func(t *testing.T) { checkResult(t, g.callOTC(t, c.tool, c.arguments), c.failed, c.want) })
	}
	t.Run("MCP/no content", func(t *testing.T) {
		checkResult(t, g.callMCP(t, "cancel_booking", `{"booking_id":"bk-1001"}`), false, []string{"204"})
	})
	t.Run("OTC/no content", func(t *testing.T) {
		checkResult(t, g.callOTC(t, "cancel_booking", `{"booking_id":"bk-1001"}`), false, nil)
	})
}

func checkResult(t *testing.T, r toolResult, failed bool, want []string) {
	t.Helper()
	if r.failed != failed {
		t.Errorf("failed: %t, want %t: %s", r.failed, failed, r.text)
	}
	for _, text := range want {
		if !strings.Contains(r.text, text) {
			t.Errorf("%q is not in the answer: %.500s", text, r.text)
		}
	}
}
