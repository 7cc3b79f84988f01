package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
)

const (
	moreCalls  = 50 // calls of a kind that a node gets beyond the first one
	onTheWay   = 45 // executions of a statement, beyond those of the first call, that put its file on the way
	modulePath = "github.com/fairwayhq/fairway/"
)

const executedDocument = `openapi: 3.1.0
info: {title: Orders, version: 1.0.0}
paths:
  /orders/{name}:
    get:
      operationId: order
      parameters: [{name: name, in: path, required: true, schema: {type: string}}]
      responses: {"200": {description: The order., content: {application/json: {schema: {type: object}}}}}
`

// executedAgents has the agent that an MCP call acts as.
const executedAgents = `kind: openagentspec:v1/agent
name: reader
description: Looks at orders.
intent: reader
owner: tests
capabilities:
  order:
    user_identity: false
    input_restriction: {assertion: history._total < 1000000}
    output_restriction: {assertion: 'recent.order.outputs.name != ""'}
`

// executedHosted has two agents: asker asks helper, and helper calls the API.
const executedHosted = `kind: openagentspec:v1/agent
name: asker
description: Asks about an order.
intent: asker
owner: tests
capabilities:
  oagent://helper: {user_identity: false}
---
kind: openagentspec:v1/agent
name: helper
description: Looks at orders.
intent: helper
owner: tests
capabilities:
  order: {user_identity: false}
`

// executedSite is a gateway with one site for each kind of call.
type executedSite struct {
	binary                           string
	plain, recorded, guarded, hosted string // addresses
	caddyfile                        string
}

func newExecutedSite(t *testing.T) *executedSite {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `{"name":"chair"}`)
	}))
	t.Cleanup(api.Close)
	models := &modelserver.Server{Respond: func(r *modelserver.Request) modelserver.Step {
		switch {
		case r.Messages[len(r.Messages)-1].Role == "tool":
			return modelserver.Step{Text: "On its way."}
		case strings.HasPrefix(r.System, "asker"):
			return modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "helper", Arguments: `{"input":"chair"}`}}}
		}
		return modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "order", Arguments: `{"name":"chair"}`}}}
	}}
	model := httptest.NewServer(models)
	t.Cleanup(model.Close)

	s := &executedSite{plain: freeAddress(t), recorded: freeAddress(t), guarded: freeAddress(t), hosted: freeAddress(t)}
	s.caddyfile = fmt.Sprintf(`{
	admin off
	agents {
		toolset orders orders.yaml
		store bolt store.db
	}
}
http://%[1]s {
	mcp /mcp orders
	reverse_proxy %[5]s
}
http://%[2]s {
	otc /otc orders
	reverse_proxy %[5]s
}
http://%[3]s {
	mcp /mcp orders
	oagent agents.yaml
	reverse_proxy %[5]s
}
http://%[4]s {
	route {
		agent_auth {
			api_key {
				key ann 0123456789abcdef-ann
			}
		}
		oagent hosted.yaml {
			toolset orders
			serve /agents
			engagements /engagements
			model openai {
				base_url %[6]s
				model test
			}
		}
		reverse_proxy %[5]s
	}
}
`, s.plain, s.recorded, s.guarded, s.hosted, strings.TrimPrefix(api.URL, "http://"), model.URL)
	return s
}

// post sends JSON and fails the test unless the response has the status and contains the text.
func post(t *testing.T, url, body string, status int, want string) http.Header {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	r.Header.Set("X-Api-Key", "0123456789abcdef-ann") // for the hosted agents
	return exchange(t, r, status, want)
}

func exchange(t *testing.T, r *http.Request, status int, want string) http.Header {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != status || !strings.Contains(string(content), want) {
		t.Fatalf("%s %s: %d %s; want %d with %s", r.Method, r.URL, response.StatusCode, content, status, want)
	}
	return response.Header
}

const executedMCPCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order","arguments":{"name":"chair"}}}`

// executedCalls are the kinds of calls. Limits may only fall: if a change makes a call execute fewer files, lower its limit.
var executedCalls = []struct {
	name  string
	limit int
	keep  bool // calls are kept; otherwise they are not, so that only one kind has the files for that
	call  func(t *testing.T, s *executedSite, n int)
}{
	{"a plain MCP call", 29, false, func(t *testing.T, s *executedSite, _ int) {
		post(t, "http://"+s.plain+"/mcp", executedMCPCall, http.StatusOK, `"structuredContent":{"name":"chair"}`)
	}},
	{"an OTC call with a call_id", 41, false, func(t *testing.T, s *executedSite, n int) {
		post(t, "http://"+s.recorded+"/otc/call", fmt.Sprintf(`{"request":{"call_id":"call-%d","tool_id":"Orders.order","input":{"name":"chair"}}}`, n), http.StatusOK, `"success":true`)
	}},
	{"an MCP call through oagent", 60, false, func(t *testing.T, s *executedSite, _ int) {
		post(t, "http://"+s.guarded+"/mcp", executedMCPCall, http.StatusOK, `"structuredContent":{"name":"chair"}`)
	}},
	{"a hosted run that asks an agent", 110, false, func(t *testing.T, s *executedSite, _ int) {
		header := post(t, "http://"+s.hosted+"/agents/asker", `{"input":"chair"}`, http.StatusSeeOther, "")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.hosted+header.Get("Location"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", "0123456789abcdef-ann")
		r.Header.Set("Prefer", "wait=60")
		exchange(t, r, http.StatusOK, `"status":"complete"`)
	}},
	{"a plain MCP call that is kept", 38, true, func(t *testing.T, s *executedSite, _ int) {
		post(t, "http://"+s.plain+"/mcp", executedMCPCall, http.StatusOK, `"structuredContent":{"name":"chair"}`)
	}},
}

// TestCalls_execute_few_files counts the files of Fairway that take part in a call: those with a statement that
// each call executes. The fewer there are, the fewer someone must read to follow the call.
func TestCalls_execute_few_files(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a Caddy that counts its statements: not with -short")
	}
	s := newExecutedSite(t)
	s.binary = filepath.Join(t.TempDir(), "caddy")
	if err := buildProgram("", "../cmd/caddy", s.binary, "-cover", "-covermode=count", "-coverpkg="+modulePath+"..."); err != nil {
		t.Fatal(err)
	}
	// Each node gets one call of each kind. So what only the first call does is not counted.
	baseline := map[bool]map[string]int{false: s.counts(t, -1, false), true: s.counts(t, -1, true)}
	for kind, c := range executedCalls {
		files := executedFiles(s.counts(t, kind, c.keep), baseline[c.keep])
		for tries := 0; len(files) > c.limit && tries < 3; tries++ { // what timers execute differs between runs; what a call executes does not
			again := executedFiles(s.counts(t, kind, c.keep), baseline[c.keep])
			files = slices.DeleteFunc(files, func(file string) bool { return !slices.Contains(again, file) })
		}
		t.Logf("%s executes %d files; the limit is %d:\n%s", c.name, len(files), c.limit, strings.Join(files, "\n"))
		if len(files) > c.limit {
			t.Errorf("%s executes %d files, more than %d", c.name, len(files), c.limit)
		}
	}
}

// executedFiles returns the files with a block that each call has executed.
func executedFiles(counts, first map[string]int) (files []string) {
	for block, n := range counts {
		file, _, _ := strings.Cut(block, ":")
		if n-first[block] >= onTheWay && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// counts runs a node that gets a call of each kind, and more calls of one kind. It returns how often each block of
// statements was executed, by the block's place, such as tools/call.go:12.3,14.2.
func (s *executedSite) counts(t *testing.T, kind int, keep bool) map[string]int {
	t.Helper()
	dir, covered := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "orders.yaml"), executedDocument)
	writeFile(t, filepath.Join(dir, "agents.yaml"), executedAgents)
	writeFile(t, filepath.Join(dir, "hosted.yaml"), executedHosted)
	caddyfile := s.caddyfile
	if !keep {
		caddyfile = strings.Replace(caddyfile, "store bolt store.db\n", "store bolt store.db\n\t\tcalls off\n", 1)
	}
	writeFile(t, filepath.Join(dir, "Caddyfile"), caddyfile)
	log := &output{}
	node := exec.Command(s.binary, "run", "--config", "Caddyfile")
	node.Dir = dir
	node.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "GOCOVERDIR="+covered)
	node.Stdout, node.Stderr = log, log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = node.Process.Kill()
			_ = node.Wait()
			t.Logf("caddy's log:\n%.20000s", log)
		}
	}()
	for _, address := range []string{s.plain, s.recorded, s.guarded, s.hosted} {
		waitFor(t, startTimeout, "the node to answer", func() bool {
			response, err := http.Get("http://" + address + "/otc/health")
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			return true
		})
	}
	for i, c := range executedCalls {
		c.call(t, s, 0)
		for n := range moreCalls {
			if i == kind {
				c.call(t, s, n+1)
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	_ = node.Process.Signal(os.Interrupt)
	if err := node.Wait(); err != nil {
		t.Fatal(err)
	}
	ended = true
	return readCounts(t, covered)
}

// readCounts reads the counters that a program has written to a directory.
func readCounts(t *testing.T, dir string) map[string]int {
	t.Helper()
	text := filepath.Join(t.TempDir(), "counts")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(strings.TrimPrefix(line, modulePath))
		if len(fields) != 3 { // the line of the mode
			continue
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		counts[fields[0]] += n
	}
	return counts
}
