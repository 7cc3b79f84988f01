package caddymodule_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// reachableAPI is an API that counts its requests, but for those of its health and of
// its document.
func reachableAPI(t *testing.T) (address string, reached *atomic.Int64) {
	reached = new(atomic.Int64)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/openapi.yaml":
			_, _ = w.Write([]byte(trips))
		default:
			reached.Add(1)
			_, _ = w.Write([]byte("the API"))
		}
	}))
	t.Cleanup(api.Close)
	return strings.TrimPrefix(api.URL, "http://"), reached
}

// forged are headers by which a client may try to pass for a tool call.
var forged = []string{
	"Mcp-Protocol-Version", "2025-06-18", "Mcp-Session-Id", "x", "Mcp-Method", "tools/call", "Mcp-Name", "getTrip",
	"X-Tool-Name", "getTrip", "Ocp-Context-Id", "ocp-4f1d2c3b", "Ocp-Agent-Type", "cli_tool", "Oagent-Name", "desk",
	"X-Forwarded-Uri", "/mcp", "X-Original-Url", "/mcp", "X-Http-Method-Override", "POST",
}

func TestToolsOnly_serves_tool_calls_and_nothing_else(t *testing.T) {
	for name, block := range map[string]string{
		"directive":     "mcp /mcp TRIPS\notc /otc TRIPS {\nhealth_upstream /health\n}\ntools_only\nreverse_proxy API",
		"document":      "mcp /mcp /openapi.yaml\notc /otc TRIPS {\nhealth_upstream /health\n}\ntools_only\nreverse_proxy API",
		"block":         "ocp\nmcp /mcp TRIPS\notc /otc TRIPS {\nhealth_upstream /health\n}\nhandle {\ntools_only\nreverse_proxy API\n}",
		"matcher":       "mcp /mcp TRIPS\notc /otc TRIPS {\nhealth_upstream /health\n}\ntools_only /trips*\nreverse_proxy API",
		"empty name":    "mcp /mcp TRIPS\notc /otc TRIPS {\nhealth_upstream /health\n}\n@raw {\nexpression {http.tool.name} == \"\"\npath /trips*\n}\nerror @raw 404\nreverse_proxy API",
		"not a tool":    "mcp /mcp TRIPS\notc /otc TRIPS {\nhealth_upstream /health\n}\n@raw {\nnot expression {http.tool.protocol} != \"\"\npath /trips*\n}\nerror @raw 404\nreverse_proxy API",
		"name in a var": "mcp /mcp TRIPS\notc /otc TRIPS {\nhealth_upstream /health\n}\n@raw {\nvars {http.tool.toolset} \"\"\npath /trips*\n}\nerror @raw 404\nreverse_proxy API",
	} {
		t.Run(name, func(t *testing.T) {
			api, reached := reachableAPI(t)
			s := run(t, "", strings.ReplaceAll(block, "API", api))
			if got := s.succeed("getTrip", `{"id":"1"}`); got != "the API" {
				t.Errorf("over MCP: %q", got)
			}
			if a := s.otcCall("getTrip", `{"id":"1"}`); a.status != 200 || !strings.Contains(a.body, "the API") {
				t.Errorf("over OTC: %d %s", a.status, a.body)
			}
			if a := s.get("/otc/health"); a.status != 200 {
				t.Errorf("health: %d %s", a.status, a.body)
			}
			if reached.Load() != 2 {
				t.Fatalf("the API was reached %d times", reached.Load())
			}
			paths := []string{"/trips", "/trips/1", "/trips/1?x=/mcp"}
			if !strings.Contains(block, "/trips*") { // a path matcher, which takes the next one for /mcp
				paths = append(paths, "/trips/%2e%2e/mcp", "/")
			}
			for _, method := range []string{"GET", "POST", "DELETE", "HEAD", "OPTIONS"} {
				for _, path := range paths {
					for _, header := range [][]string{nil, forged} {
						if a := s.request(method, path, "", header...); a.status != 404 {
							t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
						}
					}
				}
			}
			if reached.Load() != 2 {
				t.Errorf("the API was reached %d times more", reached.Load()-2)
			}
		})
	}
}

func TestToolsOnly_answers_with_a_problem(t *testing.T) {
	s := run(t, "", "mcp /mcp TRIPS {\ndiscovery {\nname com.example/trips\nurl https://example.com/mcp\n}\n}\ntools_only\nrespond ok")
	a := s.get("/trips/1")
	if a.status != 404 || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	for _, path := range []string{"/mcp/server-card", "/.well-known/ai-catalog.json"} {
		if a := s.get(path); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestToolsOnly_takes_no_arguments(t *testing.T) {
	for _, block := range []string{"tools_only /a b", "tools_only {\nexcept /health\n}"} {
		if _, _, err := adapt("http://a.test {\n" + block + "\n}"); err == nil {
			t.Errorf("%s: no error", block)
		}
	}
}

// TestToolPlaceholder_compared_with_null_is_a_configuration_error: {http.tool.name} is an empty text where there
// is no tool call, so that a comparison with null would protect nothing.
func TestToolPlaceholder_compared_with_null_is_a_configuration_error(t *testing.T) {
	for _, block := range []string{
		"mcp /mcp TRIPS\n@raw expression {http.tool.name} == null\nerror @raw 403\nrespond ok",
		"mcp /mcp TRIPS\n@raw not expression null != {http.tool.protocol}\nerror @raw 403\nrespond ok",
		"mcp /mcp TRIPS\nhandle {\n@raw expression `{http.tool.name}==null && true`\nerror @raw 403\nrespond ok\n}",
	} {
		s := newSite(t)
		if err := s.load("", block); err == nil || !strings.Contains(err.Error(), "tools_only") {
			t.Errorf("%s: got %v", block, err)
		}
	}
}

func TestToolPlaceholder_of_an_endpoint_behind_another(t *testing.T) {
	s := run(t, "", "log_append called {http.tool.name}\nmcp /mcp TRIPS\notc /otc TRIPS\nheader >X-Tool [{http.tool.name}]\nrespond ok")
	s.otcCall("getTrip", `{"id":"1"}`)
	s.logged("http.log.access", `"protocol":"otc"`, `"called":"getTrip"`)
	if a := s.get("/trips/1"); a.header.Get("X-Tool") != "[]" {
		t.Errorf("the header of a request that is no tool call is %q", a.header.Get("X-Tool"))
	}
}
