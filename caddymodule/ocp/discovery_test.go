package ocp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOCPDiscovery wants the document with the flags that are true of the site.
func TestOCPDiscovery(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, `ocp {
		toolset DIR/contextual.yaml
		base_path /v2
		enhance hint "'x'"
		discovery /docs/openapi
	}
	reverse_proxy API`)
	got := s.Get("/docs/openapi")
	var document struct {
		Servers []struct{ URL string }
		Info    map[string]any
		Paths   map[string]map[string]struct {
			Enhanced map[string]any `json:"x-ocp-enhanced-response"`
		}
	}
	if err := json.Unmarshal([]byte(got.Body), &document); err != nil || got.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %v, %+v", err, got)
	}
	if enabled, aware := document.Info["x-ocp-enabled"], document.Info["x-ocp-context-aware"]; enabled != true || aware != true {
		t.Errorf("enabled and aware of context: got %v and %v, want true", enabled, aware)
	}
	if len(document.Servers) != 1 || document.Servers[0].URL != "/v2" {
		t.Errorf("got the servers %+v, want /v2", document.Servers)
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
		"unchanged":            {"GET", "/docs/openapi", "", got.Header.Get("ETag"), 304, ""},
		"yaml has its own tag": {"GET", "/docs/openapi.yaml", "", got.Header.Get("ETag"), 200, "application/yaml"},
		"head":                 {"HEAD", "/docs/openapi", "", "", 200, "application/json"},
	} {
		t.Run(rule, func(t *testing.T) {
			r, _ := http.NewRequest(c.method, s.URL+c.path, nil)
			for key, value := range map[string]string{"Accept": c.accept, "If-None-Match": c.tag} {
				if value != "" {
					r.Header.Set(key, value)
				}
			}
			got := s.With(t).Do(r)
			if got.Status != c.status || got.Header.Get("Content-Type") != c.mediaType || got.Header.Get("ETag") == "" {
				t.Errorf("got %+v", got)
			}
			if isYAML := strings.HasPrefix(got.Body, "openapi: "); got.Body != "" && isYAML != (c.mediaType == "application/yaml") {
				t.Errorf("got %.60s", got.Body)
			}
			if varies := got.Header.Get("Vary") == "Accept"; varies != (c.path == "/docs/openapi") {
				t.Errorf("Vary: %q", got.Header.Get("Vary"))
			}
		})
	}
	for _, path := range []string{"/docs/openapi2", "/docs/openapi.txt", "/docs"} {
		if got := s.Get(path); got.Body != `{"path":"`+path+`"}` {
			t.Errorf("%s: got %s", path, got.Body)
		}
	}
}

// TestOCP_discovery_of_site serves a document that comes from the site itself, at its
// own path.
func TestOCP_discovery_of_site(t *testing.T) {
	available := false
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if !available {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		w.Write([]byte(contextual))
	})
	s := ocpSite(t, a, "ocp {\ntoolset /openapi.yaml\ndiscovery /openapi.yaml\n}\nreverse_proxy API")
	if got := s.Get("/openapi.yaml"); got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("before it is loaded: %+v", got)
	}
	available = true
	sitetest.Eventually(t, "the document", func() bool {
		got := s.Get("/openapi.yaml")
		return got.Status == http.StatusOK && strings.Contains(got.Body, "x-ocp-enabled: true")
	})
}
