package caddymodule_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/watch"
)

// document has one tool of that name.
func document(operation string) string {
	return fmt.Sprintf("openapi: 3.0.3\ninfo: {title: T, version: '1'}\npaths:\n  /x:\n    get: {operationId: %s, responses: {'200': {description: ok}}}\n", operation)
}

func (s *site) wantTools(names ...string) {
	s.t.Helper()
	if got := s.toolNames(); !slices.Equal(got, names) {
		s.t.Errorf("tools %q, want %q", got, names)
	}
}

func TestDocumentFile(t *testing.T) {
	s := newSite(t)
	s.write("one.yaml", document("first"))
	s.start("", "mcp /mcp DIR/one.yaml\nhandle /metrics {\nmetrics\n}")
	s.wantTools("first")

	t.Run("a changed file gives new tools", func(t *testing.T) {
		s := s.with(t)
		s.write("one.yaml", document("second"))
		eventually(t, "the new tool", func() bool { return slices.Equal(s.toolNames(), []string{"second"}) })
	})
	t.Run("a bad file leaves the tools and is counted", func(t *testing.T) {
		s := s.with(t)
		s.write("one.yaml", "{ this is no document")
		s.logged(`"level":"error"`, "one.yaml")
		s.wantTools("second")
		s.metric(fmt.Sprintf(`fairway_document_loads_total{result="failed",toolset=%q} 1`, filepath.Join(s.dir, "one.yaml")))
	})
	t.Run("a bad file is an error of the next configuration", func(t *testing.T) {
		s := s.with(t)
		err := s.load("", "mcp /mcp DIR/one.yaml\nrespond again")
		if err == nil || !strings.Contains(err.Error(), "one.yaml") {
			t.Fatalf("got %v", err)
		}
		s.wantTools("second")
	})
	t.Run("a good one is loaded again", func(t *testing.T) {
		s := s.with(t)
		s.write("one.yaml", document("third"))
		eventually(t, "the new tool", func() bool { return slices.Equal(s.toolNames(), []string{"third"}) })
	})
}

// metric waits for a line of the metrics.
func (s *site) metric(line string) {
	s.t.Helper()
	eventually(s.t, "the metric "+line, func() bool {
		return strings.Contains(s.get("/metrics").body, line+"\n")
	})
}

func TestDocumentFileErrors(t *testing.T) {
	s := newSite(t)
	s.write("garbage.yaml", "{ this is no document")
	for name, test := range map[string]struct {
		global, block string
		want          []string
	}{
		"missing":           {"", "mcp ./nowhere.yaml", []string{"nowhere.yaml", "path"}},
		"unparsable":        {"", "mcp DIR/garbage.yaml", []string{"garbage.yaml", "line"}},
		"too large":         {"", "mcp TRIPS {\nmax_document 100\n}", []string{"trips.yaml", "max_document"}},
		"missing in agents": {"agents {\ntoolset x ./nowhere.yaml\n}", "respond ok", []string{`toolset "x"`, "nowhere.yaml"}},
		"no such toolset":   {"agents {\ntoolset trips TRIPS\n}", "mcp /mcp trains", []string{"toolset", "trains", "trips"}},
		"no toolset":        {"", "mcp", []string{"toolset", "document", "none"}},
		"several toolsets":  {"agents {\ntoolset a TRIPS\ntoolset b TRIPS\n}", "mcp", []string{"a", "b"}},
		"options of a named toolset": {
			"agents {\ntoolset a TRIPS\n}", "mcp /mcp a {\ntimeout 5s\n}",
			[]string{"toolset", "a", "agents"},
		},
		"root path of otc":        {"", "otc / TRIPS", []string{"whole site"}},
		"origin without a scheme": {"", "mcp TRIPS {\norigins app.example.com\n}", []string{`origins "app.example.com"`, "https://app.example.com"}},
		"origin with a path":      {"", "mcp TRIPS {\norigins https://app.example.com/x\n}", []string{"web", "origin"}},
		"host that is a URL":      {"", "mcp TRIPS {\nhosts https://app.example.com\n}", []string{"name", "host"}},
		"refs of a URL":           {"", "mcp http://127.0.0.1:1/o.yaml {\nrefs .\n}", []string{"refs", "files"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := new(caddy.Config)
			if err := json.Unmarshal(s.config(test.global, test.block), config); err != nil {
				t.Fatal(err)
			}
			err := caddy.Validate(config)
			if err == nil || !containsAll(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestDocumentURL(t *testing.T) {
	var content atomic.Pointer[string]
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if c := content.Load(); c != nil {
			fmt.Fprint(w, *c)
			return
		}
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	block := "mcp " + server.URL + "/openapi.yaml {\nrefresh 1h\n}\notc /otc " + server.URL + "/openapi.yaml {\nrefresh 1h\n}\nrespond ok"
	s := newSite(t)

	t.Run("validate opens no connection", func(t *testing.T) {
		s := s.with(t)
		config := new(caddy.Config)
		if err := json.Unmarshal(s.config("", block), config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(config); err != nil {
			t.Fatal(err)
		}
		if asked.Load() != 0 {
			t.Errorf("asked %d times", asked.Load())
		}
	})

	s.start("", block)
	t.Run("503 with Retry-After until it loads", func(t *testing.T) {
		s := s.with(t)
		a := s.do(s.callRequest("first", ""))
		if a.status != 503 || a.header.Get("Retry-After") == "" || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("got %d %v %s", a.status, a.header, a.body)
		}
		if !json.Valid([]byte(a.body)) || !strings.Contains(a.body, "loaded") {
			t.Errorf("got %s", a.body)
		}
		if a := s.get("/otc/tools"); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("otc: %d %v", a.status, a.header)
		}
		if a := s.get("/other"); a.status != 200 {
			t.Errorf("other paths: %d", a.status)
		}
	})
	t.Run("loads when it answers", func(t *testing.T) {
		s := s.with(t)
		first := document("first")
		content.Store(&first)
		eventually(t, "the tools", func() bool { return s.toolNames() != nil })
		s.wantTools("first")
	})
	t.Run("a reload keeps what is loaded", func(t *testing.T) {
		s := s.with(t)
		before := asked.Load()
		if err := s.load("", block+" 201"); err != nil {
			t.Fatal(err)
		}
		s.wantTools("first")
		if a := s.get("/other"); a.status != 201 {
			t.Fatalf("the new configuration does not run: %d", a.status)
		}
		if got := asked.Load(); got != before {
			t.Errorf("the document was fetched %d times more", got-before)
		}
	})
}

func TestDocumentURLDown(t *testing.T) {
	s := run(t, "", "mcp http://user:password@127.0.0.1:1/openapi.yaml?key=secret\nrespond ok")
	if a := s.do(s.callRequest("x", "")); a.status != 503 || strings.Contains(a.body, "secret") || strings.Contains(a.body, "password") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	s.logged(`"level":"error"`, "503")
	for line := range strings.Lines(s.log()) {
		if strings.Contains(line, `"logger":"agents"`) && (strings.Contains(line, "password@") || strings.Contains(line, "secret")) {
			t.Errorf("a secret is in the log: %s", line)
		}
	}
}

func TestDocumentOfSite(t *testing.T) {
	s := newSite(t)
	s.write("openapi.yaml", document("ofSite"))
	s.start("", `mcp /mcp /openapi.yaml
		otc /otc /openapi.yaml
		root * DIR
		handle /openapi.yaml {
			@identified header Authorization *
			error @identified "credentials" 500
			file_server
		}
		handle {
			respond "api"
		}`)
	s.logged(`"taken_for":"site"`)
	r := s.callRequest("ofSite", "")
	r.Header.Set("Authorization", "Bearer caller")
	if result := s.result(s.do(r)); result.text() != "api" {
		t.Errorf("got %q", result.text())
	}
	if a := s.get("/otc/tools"); a.status != 200 || !strings.Contains(a.body, "ofSite") {
		t.Errorf("otc: %d %s", a.status, a.body)
	}
}

func TestDocumentOfSiteMissing(t *testing.T) {
	s := run(t, "", `mcp /mcp /openapi.yaml
		handle /trips* {
			respond "api"
		}`)
	if a := s.do(s.callRequest("x", "")); a.status != 503 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	s.logged(`"level":"error"`, "handler")
}

func TestNamedToolset(t *testing.T) {
	s := run(t, `agents {
		toolset trips TRIPS {
			include operation listTrips getTrip
			exclude method delete
			token_budget 1
		}
	}`, "mcp\notc\nrespond ok")
	s.wantTools("listTrips", "getTrip")
	if a := s.get("/otc/tools"); !strings.Contains(a.body, "getTrip") || strings.Contains(a.body, "createTrip") {
		t.Errorf("otc: %s", a.body)
	}
	s.logged("token", "budget", `"token_budget":1`, "include", "exclude")
}

func TestObservability(t *testing.T) {
	s := run(t, "agents {\ntoolset observed TRIPS\n}", `mcp
		log_append called {http.tool.name}
		handle /metrics {
			metrics
		}
		handle /trips {
			respond "ok"
		}
		handle {
			respond "none" 404
		}`)
	s.succeed("listTrips", "")
	s.fail("getTrip", `{"id":"1"}`, "404")
	s.fail("getTrip", `{"idd":"1"}`, "mean", "id")
	s.do(s.callRequest("noSuchTool", ""))
	for _, line := range []string{
		`fairway_tool_calls_total{outcome="ok",protocol="mcp",tool="listTrips",toolset="observed"} 1`,
		`fairway_tool_calls_total{outcome="refused",protocol="mcp",tool="getTrip",toolset="observed"} 1`,
		`fairway_tool_calls_total{outcome="invalid",protocol="mcp",tool="getTrip",toolset="observed"} 1`,
		`fairway_tool_call_duration_seconds_count{protocol="mcp",toolset="observed"} 4`,
		`fairway_document_loads_total{result="ok",toolset="observed"} 1`,
		`fairway_document_tools{toolset="observed"} 5`,
		`fairway_document_warnings{toolset="observed"} 0`,
	} {
		s.metric(line)
	}
	if metrics := s.get("/metrics").body; strings.Contains(metrics, "noSuchTool") {
		t.Error("a client's name became a label")
	}
	s.logged("http.log.access", `"tool":"listTrips"`, `"toolset":"observed"`, `"protocol":"mcp"`, `"called":"listTrips"`)

	if err := s.load("agents {\ntoolset observed TRIPS {\nexclude operation getTrip\n}\n}", "mcp\nhandle /metrics {\nmetrics\n}"); err != nil {
		t.Fatal(err)
	}
	s.metric(`fairway_document_tools{toolset="observed"} 4`)
	metrics := s.get("/metrics").body
	if !strings.Contains(metrics, `tool="listTrips"`) {
		t.Error("a counter was lost with the reload")
	}
	if !strings.Contains(metrics, `outcome="refused",protocol="mcp",tool="getTrip",toolset="observed"} 1`) {
		t.Error("the counter of a tool was lost when the tool went, before it could be scraped")
	}
}

func TestOTC(t *testing.T) {
	s := run(t, "agents {\ntoolset trips TRIPS\n}", `otc {
			toolkit Trips
			version 2.0.0
		}
		handle /trips* {
			respond "{\"query\":\"{query}\",\"protocol\":\"{http.tool.protocol}\"}"
		}
		handle {
			respond "passed by"
		}`)
	call := func(id, input string) answer {
		r, err := http.NewRequest(http.MethodPost, s.url+"/otc/call", strings.NewReader(
			fmt.Sprintf(`{"request":{"call_id":%q,"tool_id":%q,"input":%s}}`, rand.Text(), id, input)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		return s.do(r)
	}
	if a := s.get("/otc/health"); a.status != 200 {
		t.Errorf("health: %d %s", a.status, a.body)
	}
	a := call("Trips.listTrips@2.0.0", `{"limit":3}`)
	if a.status != 200 || !strings.Contains(a.body, "limit=3") || !strings.Contains(a.body, "otc") {
		t.Errorf("call: %d %s", a.status, a.body)
	}
	if a := s.get("/otc/nowhere"); a.status != 404 {
		t.Errorf("below the path: %d %s", a.status, a.body)
	}
	if a := s.get("/otcx"); a.body != "passed by" {
		t.Errorf("beside the path: %d %s", a.status, a.body)
	}
	s.logged("http.log.access", `"tool":"listTrips"`, `"protocol":"otc"`)
}

func TestMain(m *testing.M) {
	// Caddy keeps a few files of its own.
	dir, err := os.MkdirTemp("", "caddymodule")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_DATA_HOME", dir)
	os.Setenv("XDG_CONFIG_HOME", dir)
	watch.SetInterval(20 * time.Millisecond)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
