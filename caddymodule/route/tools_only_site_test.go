package route_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// reachableAPI is an API that counts its requests, but for those of its health and of
// its document.
func reachableAPI(t *testing.T) (address string, reached *atomic.Int64) {
	reached = new(atomic.Int64)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/openapi.yaml":
			_, _ = w.Write([]byte(sitetest.Trips))
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
			s := sitetest.Run(t, "", strings.ReplaceAll(block, "API", api))
			if got := s.Succeed("getTrip", `{"id":"1"}`); got != "the API" {
				t.Errorf("over MCP: %q", got)
			}
			if a := s.OTCCall("getTrip", `{"id":"1"}`); a.Status != 200 || !strings.Contains(a.Body, "the API") {
				t.Errorf("over OTC: %d %s", a.Status, a.Body)
			}
			if a := s.Get("/otc/health"); a.Status != 200 {
				t.Errorf("health: %d %s", a.Status, a.Body)
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
						if a := s.Request(method, path, "", header...); a.Status != 404 {
							t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
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
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\ndiscovery {\nname com.example/trips\nurl https://example.com/mcp\n}\n}\ntools_only\nrespond ok")
	a := s.Get("/trips/1")
	if a.Status != 404 || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
	for _, path := range []string{"/mcp/server-card", "/.well-known/ai-catalog.json"} {
		if a := s.Get(path); a.Status != 200 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

func TestToolsOnly_takes_no_arguments(t *testing.T) {
	for _, block := range []string{"tools_only /a b", "tools_only {\nexcept /health\n}"} {
		if _, _, err := sitetest.Adapt("http://a.test {\n" + block + "\n}"); err == nil {
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
		s := sitetest.NewSite(t)
		if err := s.Load("", block); err == nil || !strings.Contains(err.Error(), "tools_only") {
			t.Errorf("%s: got %v", block, err)
		}
	}
}

func TestToolPlaceholder_of_an_endpoint_behind_another(t *testing.T) {
	s := sitetest.Run(t, "", "log_append called {http.tool.name}\nmcp /mcp TRIPS\notc /otc TRIPS\nheader >X-Tool [{http.tool.name}]\nrespond ok")
	s.OTCCall("getTrip", `{"id":"1"}`)
	s.Logged("http.log.access", `"protocol":"otc"`, `"called":"getTrip"`)
	if a := s.Get("/trips/1"); a.Header.Get("X-Tool") != "[]" {
		t.Errorf("the header of a request that is no tool call is %q", a.Header.Get("X-Tool"))
	}
}
