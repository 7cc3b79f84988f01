package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestOCPDiscovery wants the document with the flags that are true of the site.
func TestOCPDiscovery(t *testing.T) {
	a := newAPI(t, nil)
	s := ocpSite(t, a, `ocp {
		toolset DIR/contextual.yaml
		base_path /v2
		enhance hint "'x'"
		discovery /docs/openapi
	}
	reverse_proxy API`)
	got := s.get("/docs/openapi")
	var document struct {
		Servers []struct{ URL string }
		Info    map[string]any
		Paths   map[string]map[string]struct {
			Enhanced map[string]any `json:"x-ocp-enhanced-response"`
		}
	}
	if err := json.Unmarshal([]byte(got.body), &document); err != nil || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %v, %+v", err, got)
	}
	if document.Info["x-ocp-enabled"] != true || document.Info["x-ocp-context-aware"] != true || len(document.Servers) != 1 || document.Servers[0].URL != "/v2" {
		t.Errorf("got %+v", document)
	}
	if list := document.Paths["/trips"]["get"].Enhanced; list["hint"] == nil {
		t.Errorf("got %v", list)
	}
	for rule, c := range map[string]struct {
		method, path, accept, tag string
		status                    int
		mediaType                 string
	}{
		"json by ending":       {"GET", "/docs/openapi.json", "application/yaml", "", 200, "application/json"},
		"yaml by ending":       {"GET", "/docs/openapi.yaml", "application/json", "", 200, "application/yaml"},
		"yml":                  {"GET", "/docs/openapi.yml", "", "", 200, "application/yaml"},
		"yaml by Accept":       {"GET", "/docs/openapi", "text/html, application/yaml, application/json", "", 200, "application/yaml"},
		"json by Accept":       {"GET", "/docs/openapi", "*/*, application/yaml", "", 200, "application/json"},
		"unchanged":            {"GET", "/docs/openapi", "", got.header.Get("ETag"), 304, ""},
		"yaml has its own tag": {"GET", "/docs/openapi.yaml", "", got.header.Get("ETag"), 200, "application/yaml"},
		"head":                 {"HEAD", "/docs/openapi", "", "", 200, "application/json"},
	} {
		t.Run(rule, func(t *testing.T) {
			r, _ := http.NewRequest(c.method, s.url+c.path, nil)
			for key, value := range map[string]string{"Accept": c.accept, "If-None-Match": c.tag} {
				if value != "" {
					r.Header.Set(key, value)
				}
			}
			got := s.with(t).do(r)
			if got.status != c.status || got.header.Get("Content-Type") != c.mediaType || got.header.Get("ETag") == "" {
				t.Errorf("got %+v", got)
			}
			if isYAML := strings.HasPrefix(got.body, "openapi: "); got.body != "" && isYAML != (c.mediaType == "application/yaml") {
				t.Errorf("got %.60s", got.body)
			}
			if varies := got.header.Get("Vary") == "Accept"; varies != (c.path == "/docs/openapi") {
				t.Errorf("Vary: %q", got.header.Get("Vary"))
			}
		})
	}
	for _, path := range []string{"/docs/openapi2", "/docs/openapi.txt", "/docs"} {
		if got := s.get(path); got.body != `{"path":"`+path+`"}` {
			t.Errorf("%s: got %s", path, got.body)
		}
	}
}

// TestOCPDiscoveryOfSite serves a document that comes from the site itself, at its
// own path.
func TestOCPDiscoveryOfSite(t *testing.T) {
	available := false
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if !available {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		w.Write([]byte(contextual))
	})
	s := ocpSite(t, a, "ocp {\ntoolset /openapi.yaml\ndiscovery /openapi.yaml\n}\nreverse_proxy API")
	if got := s.get("/openapi.yaml"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("before it is loaded: %+v", got)
	}
	available = true
	eventually(t, "the document", func() bool {
		got := s.get("/openapi.yaml")
		return got.status == http.StatusOK && strings.Contains(got.body, "x-ocp-enabled: true")
	})
}
