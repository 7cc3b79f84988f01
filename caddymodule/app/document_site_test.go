package app_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestDocumentFile(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("one.yaml", sitetest.Document("first"))
	s.Start("", "mcp /mcp DIR/one.yaml\nhandle /metrics {\nmetrics\n}")
	s.WantTools("first")

	t.Run("a changed file gives new tools", func(t *testing.T) {
		s := s.With(t)
		s.Write("one.yaml", sitetest.Document("second"))
		sitetest.Eventually(t, "the new tool", func() bool { return slices.Equal(s.ToolNames(), []string{"second"}) })
	})
	t.Run("a bad file leaves the tools and is counted", func(t *testing.T) {
		s := s.With(t)
		s.Write("one.yaml", "{ this is no document")
		s.Logged(`"level":"error"`, "one.yaml")
		s.WantTools("second")
		label := fmt.Sprintf("toolset=%q}", filepath.Join(s.Dir, "one.yaml"))
		sitetest.MetricsOf(s).Await(`fairway_document_loads_total{result="failed",` + label + " 1")
		sitetest.MetricsOf(s).Await("fairway_document_failing{" + label + " 1")
	})
	t.Run("a bad file is an error of the next configuration", func(t *testing.T) {
		s := s.With(t)
		err := s.Load("", "mcp /mcp DIR/one.yaml\nrespond again")
		if err == nil || !strings.Contains(err.Error(), "one.yaml") {
			t.Fatalf("got %v", err)
		}
		s.WantTools("second")
	})
	t.Run("the earlier content is no failure", func(t *testing.T) {
		s := s.With(t)
		label := fmt.Sprintf("toolset=%q}", filepath.Join(s.Dir, "one.yaml"))
		s.Write("one.yaml", sitetest.Document("second"))
		sitetest.MetricsOf(s).Await("fairway_document_failing{" + label + " 0")
		sitetest.MetricsOf(s).Await(`fairway_document_loads_total{result="ok",` + label + " 2")
	})
	t.Run("a good one is loaded again", func(t *testing.T) {
		s := s.With(t)
		s.Write("one.yaml", sitetest.Document("third"))
		sitetest.Eventually(t, "the new tool", func() bool { return slices.Equal(s.ToolNames(), []string{"third"}) })
	})
}

func TestDocument_file_errors(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("garbage.yaml", "{ this is no document")
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
			if err := json.Unmarshal(s.Config(test.global, test.block), config); err != nil {
				t.Fatal(err)
			}
			err := caddy.Validate(config)
			if err == nil || !sitetest.ContainsAll(err.Error(), test.want) {
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
	s := sitetest.NewSite(t)

	t.Run("validate opens no connection", func(t *testing.T) {
		s := s.With(t)
		config := new(caddy.Config)
		if err := json.Unmarshal(s.Config("", block), config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(config); err != nil {
			t.Fatal(err)
		}
		if asked.Load() != 0 {
			t.Errorf("asked %d times", asked.Load())
		}
	})

	s.Start("", block)
	t.Run("503 with Retry-After until it loads", func(t *testing.T) {
		s := s.With(t)
		a := s.Do(s.CallRequest("first", ""))
		if a.Status != 503 || a.Header.Get("Retry-After") == "" || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("got %d %v %s", a.Status, a.Header, a.Body)
		}
		if !json.Valid([]byte(a.Body)) || !strings.Contains(a.Body, "loaded") {
			t.Errorf("got %s", a.Body)
		}
		if a := s.Get("/otc/tools"); a.Status != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("otc: %d %v", a.Status, a.Header)
		}
		if a := s.Get("/other"); a.Status != 200 {
			t.Errorf("other paths: %d", a.Status)
		}
	})
	t.Run("loads when it answers", func(t *testing.T) {
		s := s.With(t)
		first := sitetest.Document("first")
		content.Store(&first)
		sitetest.Eventually(t, "the tools", func() bool { return s.ToolNames() != nil })
		s.WantTools("first")
	})
	t.Run("a reload keeps what is loaded", func(t *testing.T) {
		s := s.With(t)
		before := asked.Load()
		if err := s.Load("", block+" 201"); err != nil {
			t.Fatal(err)
		}
		s.WantTools("first")
		if a := s.Get("/other"); a.Status != 201 {
			t.Fatalf("the new configuration does not run: %d", a.Status)
		}
		if got := asked.Load(); got != before {
			t.Errorf("the document was fetched %d times more", got-before)
		}
	})
}

func TestDocument_URL_down(t *testing.T) {
	s := sitetest.Run(t, "", "mcp http://user:password@127.0.0.1:1/openapi.yaml?key=secret\nrespond ok")
	if a := s.Do(s.CallRequest("x", "")); a.Status != 503 || strings.Contains(a.Body, "secret") || strings.Contains(a.Body, "password") {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	s.Logged(`"level":"error"`, "503")
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, `"logger":"agents"`) && (strings.Contains(line, "password@") || strings.Contains(line, "secret")) {
			t.Errorf("a secret is in the log: %s", line)
		}
	}
}

func TestDocument_of_site(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("openapi.yaml", sitetest.Document("ofSite"))
	s.Start("", `mcp /mcp /openapi.yaml
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
	s.Logged(`"taken_for":"site"`)
	r := s.CallRequest("ofSite", "")
	r.Header.Set("Authorization", "Bearer caller")
	if result := s.Result(s.Do(r)); result.Text() != "api" {
		t.Errorf("got %q", result.Text())
	}
	if a := s.Get("/otc/tools"); a.Status != 200 || !strings.Contains(a.Body, "ofSite") {
		t.Errorf("otc: %d %s", a.Status, a.Body)
	}
}

func TestDocument_of_site_missing(t *testing.T) {
	s := sitetest.Run(t, "", `mcp /mcp /openapi.yaml
		handle /trips* {
			respond "api"
		}`)
	if a := s.Do(s.CallRequest("x", "")); a.Status != 503 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	s.Logged(`"level":"error"`, "handler")
}

func TestNamedToolset(t *testing.T) {
	s := sitetest.Run(t, `agents {
		toolset trips TRIPS {
			include operation listTrips getTrip
			exclude method delete
			token_budget 1
		}
	}`, "mcp\notc\nrespond ok")
	s.WantTools("listTrips", "getTrip")
	if a := s.Get("/otc/tools"); !strings.Contains(a.Body, "getTrip") || strings.Contains(a.Body, "createTrip") {
		t.Errorf("otc: %s", a.Body)
	}
	s.Logged("token", "budget", `"token_budget":1`, "include", "exclude")
}

func TestObservability(t *testing.T) {
	toolset := "observed-" + rand.Text() // counters outlive sites, so those of an earlier run have another label
	s := sitetest.Run(t, "agents {\ntoolset "+toolset+" TRIPS\n}", `mcp
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
	s.Succeed("listTrips", "")
	s.Fail("getTrip", `{"id":"1"}`, "404")
	s.Fail("getTrip", `{"idd":"1"}`, "mean", "id")
	s.Do(s.CallRequest("noSuchTool", ""))
	for _, line := range []string{
		`fairway_tool_calls_total{outcome="ok",protocol="mcp",tool="listTrips",toolset="` + toolset + `"} 1`,
		`fairway_tool_calls_total{outcome="refused",protocol="mcp",tool="getTrip",toolset="` + toolset + `"} 1`,
		`fairway_tool_calls_total{outcome="invalid",protocol="mcp",tool="getTrip",toolset="` + toolset + `"} 1`,
		`fairway_tool_call_duration_seconds_count{protocol="mcp",toolset="` + toolset + `"} 4`,
		`fairway_document_loads_total{result="ok",toolset="` + toolset + `"} 1`,
		`fairway_document_tools{toolset="` + toolset + `"} 5`,
		`fairway_document_warnings{toolset="` + toolset + `"} 0`,
	} {
		sitetest.MetricsOf(s).Await(line)
	}
	if metrics := s.Get("/metrics").Body; strings.Contains(metrics, "noSuchTool") {
		t.Error("a client's name became a label")
	}
	s.Logged("http.log.access", `"tool":"listTrips"`, `"toolset":"`+toolset+`"`, `"protocol":"mcp"`, `"called":"listTrips"`)

	if err := s.Load("agents {\ntoolset "+toolset+" TRIPS {\nexclude operation getTrip\n}\n}", "mcp\nhandle /metrics {\nmetrics\n}"); err != nil {
		t.Fatal(err)
	}
	sitetest.MetricsOf(s).Await(`fairway_document_tools{toolset="` + toolset + `"} 4`)
	metrics := s.Get("/metrics").Body
	if !strings.Contains(metrics, `tool="listTrips"`) {
		t.Error("a counter was lost with the reload")
	}
	if !strings.Contains(metrics, `outcome="refused",protocol="mcp",tool="getTrip",toolset="`+toolset+`"} 1`) {
		t.Error("the counter of a tool was lost when the tool went, before it could be scraped")
	}
}

func TestOTC(t *testing.T) {
	s := sitetest.Run(t, "agents {\ntoolset trips TRIPS\n}", `otc {
			toolkit Trips
			version 2.0.0
		}
		handle /trips* {
			respond "{\"query\":\"{query}\",\"protocol\":\"{http.tool.protocol}\"}"
		}
		handle {
			respond "passed by"
		}`)
	call := func(id, input string) sitetest.Response {
		r, err := http.NewRequest(http.MethodPost, s.URL+"/otc/call", strings.NewReader(
			fmt.Sprintf(`{"request":{"call_id":%q,"tool_id":%q,"input":%s}}`, rand.Text(), id, input)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		return s.Do(r)
	}
	if a := s.Get("/otc/health"); a.Status != 200 {
		t.Errorf("health: %d %s", a.Status, a.Body)
	}
	a := call("Trips.listTrips@2.0.0", `{"limit":3}`)
	if a.Status != 200 || !strings.Contains(a.Body, "limit=3") || !strings.Contains(a.Body, "otc") {
		t.Errorf("call: %d %s", a.Status, a.Body)
	}
	if a := s.Get("/otc/nowhere"); a.Status != 404 {
		t.Errorf("below the path: %d %s", a.Status, a.Body)
	}
	if a := s.Get("/otcx"); a.Body != "passed by" {
		t.Errorf("beside the path: %d %s", a.Status, a.Body)
	}
	s.Logged("http.log.access", `"tool":"listTrips"`, `"protocol":"otc"`)
}
