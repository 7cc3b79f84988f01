package ocp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOCPVary wants an answer to vary by the OCP headers if it would be enhanced for a
// request with a context, whether the request has one or not.
func TestOCPVary(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/text":
			h.Set("Content-Type", "text/plain")
		case "/frozen":
			h.Set("Cache-Control", "no-transform")
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/flushed":
			_ = http.NewResponseController(w).Flush()
		}
		io.WriteString(w, `{"a":1}`)
	})
	declared := "enhance next_actions \"['rest']\" declared\ntoolset DIR/contextual.yaml"
	for _, c := range []struct {
		option, path string
		want         bool
	}{
		{"enhance by ocp.agent_type", "/trips", true},
		{"enhance by ocp.agent_type\nreply off", "/trips", true},
		{"enhance by ocp.agent_type", "/flushed", true},
		{"enhance by ocp.agent_type", "/text", false},
		{"enhance by ocp.agent_type", "/frozen", false},
		{"enhance by ocp.agent_type", "/missing", false},
		{declared, "/trips", true},
		{declared, "/other", false},
		{"reply on", "/trips", false},
	} {
		t.Run(c.option+c.path, func(t *testing.T) {
			s := ocpSite(t, a, "ocp {\n"+c.option+"\n}\nreverse_proxy API")
			with := agent(s, "GET", c.path)
			without := agent(s, "GET", c.path)
			without.Header.Del("OCP-Context-ID")
			none := agent(s, "GET", c.path)
			none.Header.Del("OCP-Context-ID")
			none.Header.Del("OCP-Agent-Type")
			for _, r := range []*http.Request{with, without, none} {
				got := s.Do(r)
				if wide := strings.Contains(strings.Join(got.Header["Vary"], ", "), "OCP-Current-Goal"); wide != c.want {
					t.Errorf("context id %q: Vary: %v", r.Header.Get("OCP-Context-ID"), got.Header["Vary"])
				}
			}
		})
	}
}

// TestOCPVary_leaves_tool_endpoints wants the answers of a tool endpoint, which are never
// enhanced, not to vary.
func TestOCPVary_leaves_tool_endpoints(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\notc DIR/contextual.yaml\nreverse_proxy API")
	if got := s.Get("/otc/tools"); got.Status != http.StatusOK || strings.Contains(got.Header.Get("Vary"), "OCP-") {
		t.Errorf("got %d, Vary: %v", got.Status, got.Header["Vary"])
	}
}

// TestOCPRevalidate wants an agent that has the plain answer to get the enhanced one, and
// a client that has what it would get to be reported.
func TestOCPRevalidate(t *testing.T) {
	const modified = "Fri, 20 Nov 2026 00:00:00 GMT"
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("ETag", `"v1"`)
		h.Set("Last-Modified", modified)
		if r.Header.Get("If-None-Match") == `"v1"` || r.Header.Get("If-None-Match") == "" && r.Header.Get("If-Modified-Since") == modified {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/json")
		if r.URL.Path == "/text" {
			h.Set("Content-Type", "text/plain")
		}
		body := `{"a":1}`
		if r.URL.Path == "/number" {
			body = "7"
		}
		io.WriteString(w, body)
	})
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	const enhanced = `{"a":1,"by":"ide_coding_assistant"}`
	tag := s.Do(agent(s, "GET", "/trips")).Header.Get("ETag")
	for rule, c := range map[string]struct {
		path, header, value string
		status              int
		body                string
	}{
		"plain tag":                        {"/trips", "If-None-Match", `"v1"`, 200, enhanced},
		"plain date":                       {"/trips", "If-Modified-Since", modified, 200, enhanced},
		"enhanced tag":                     {"/trips", "If-None-Match", tag, 304, ""},
		"both tags":                        {"/trips", "If-None-Match", `"v1", ` + tag, 304, ""},
		"tag of an answer of another type": {"/text", "If-None-Match", `"v1"`, 304, ""},
		"date of such an answer":           {"/text", "If-Modified-Since", modified, 304, ""},
		"other tag of such an answer":      {"/text", "If-None-Match", `"v0"`, 200, `{"a":1}`},
		"tag of JSON that is no object":    {"/number", "If-None-Match", `"v1"`, 304, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			got := s.With(t).Do(agent(s, "GET", c.path, c.header, c.value))
			if got.Status != c.status || got.Body != c.body {
				t.Errorf("got %d %q, want %d %q", got.Status, got.Body, c.status, c.body)
			}
			if got.Header.Get("ETag") == "" || got.Header.Get("OCP-Session") == "" || c.status == 304 && got.Header.Get("Content-Type") != "" {
				t.Errorf("header %v", got.Header)
			}
		})
	}
	t.Run("without a context the upstream decides", func(t *testing.T) {
		r := agent(s, "GET", "/trips", "If-None-Match", `"v1"`)
		r.Header.Del("OCP-Agent-Type")
		if got := s.With(t).Do(r); got.Status != http.StatusNotModified {
			t.Errorf("got %d", got.Status)
		}
	})
	t.Run("a condition of a change goes to the upstream", func(t *testing.T) {
		s.Do(agent(s, "PUT", "/trips", "If-None-Match", "*"))
		if got := a.Last(t).Header.Get("If-None-Match"); got != "*" {
			t.Errorf("If-None-Match: %q", got)
		}
	})
}
