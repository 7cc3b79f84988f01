package health_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/store/storetest"
)

// TestHealth_without_login probes a site that requires a login.
func TestHealth_without_login(t *testing.T) {
	for name, login := range map[string]string{
		"agent_auth": sitetest.WithLogin,
		"basic_auth": "basic_auth {\nada $2a$04$FqmhYJFmeUDo5hzK7RGBb.bpEwhdqLDmTxX8gFyJkq1cnlBVjTKgi\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.Run(t, "", login+"agents_health\nredir /health/* /elsewhere\notc /otc TRIPS\nrespond API")
			for _, c := range []struct {
				path, body string
				status     int
			}{
				{"/health/live", `{"status":"live"}`, 200},
				{"/health/ready", `{"status":"ready"}`, 200},
				{"/health", "", 401},
				{"/otc/tools", "", 401},
			} {
				if a := s.Get(c.path); a.Status != c.status || c.body != "" && a.Body != c.body {
					t.Errorf("%s: %d %s, want %d %s", c.path, a.Status, a.Body, c.status, c.body)
				}
			}
		})
	}
}

// TestHealth_of_otc_without_login serves the health of the endpoint, and nothing else, to callers without
// credentials.
func TestHealth_of_otc_without_login(t *testing.T) {
	var calls atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer api.Close()
	upstream := "reverse_proxy " + strings.TrimPrefix(api.URL, "http://")
	for _, c := range []struct {
		name, block, path string
		status            int
	}{
		{"site", sitetest.WithLogin + "otc /otc TRIPS\n" + upstream, "/otc/health", 200},
		{"route", "route {\n" + sitetest.WithLogin + "otc /otc TRIPS\n" + upstream + "\n}", "/otc/health", 200},
		{"other path", sitetest.WithLogin + "otc /tools TRIPS\n" + upstream, "/tools/health", 200},
		{"tools", sitetest.WithLogin + "otc /otc TRIPS\n" + upstream, "/otc/tools", 401},
		{"path of the API", sitetest.WithLogin + "otc /otc TRIPS\n" + upstream, "/health", 401},
		{"another spelling", sitetest.WithLogin + "otc /otc TRIPS\n" + upstream, "/x/../otc/health", 401},
		{"no endpoint", sitetest.WithLogin + upstream, "/otc/health", 401},
		{"endpoint that requests do not reach", sitetest.WithLogin + "@never method TRACE\notc @never TRIPS\n" + upstream, "/otc/health", 200},
		{"health of the API", sitetest.WithLogin + "otc /otc TRIPS {\nhealth_upstream /status\n}\n" + upstream, "/otc/health", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sitetest.Run(t, "", c.block)
			if a := s.Get(c.path); a.Status != c.status {
				t.Errorf("%d %s, want %d", a.Status, a.Body, c.status)
			}
			if a := s.Post(c.path, "{}", nil); a.Status != 401 {
				t.Errorf("POST: %d %s", a.Status, a.Body)
			}
		})
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("%d requests without credentials reached the API", n)
	}
}

// TestHealth_of_document is not ready before the document is loaded.
func TestHealth_of_document(t *testing.T) {
	var there atomic.Bool
	documents := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !there.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(sitetest.Trips))
	}))
	defer documents.Close()
	s := sitetest.Run(t, "agents {\ntoolset trips "+documents.URL+" {\nrefresh 1s\n}\n}", "agents_health /up\nmcp\nrespond API")
	if a := s.Get("/up/live"); a.Status != 200 {
		t.Errorf("live: %d %s", a.Status, a.Body)
	}
	if a := s.Get("/up/ready"); a.Status != 503 || a.Body != `{"status":"not ready","reason":"documents"}` {
		t.Errorf("without the document: %d %s", a.Status, a.Body)
	}
	there.Store(true)
	sitetest.Eventually(t, "ready after the document is loaded", func() bool { return s.Get("/up/ready").Status == 200 })
}

// TestHealth_of_store starts while Redis is down: this is logged once, and the site recovers.
func TestHealth_of_store(t *testing.T) {
	port := testkit.FreePort(t)
	s := sitetest.Run(t, fmt.Sprintf("agents {\nstore redis redis://127.0.0.1:%d/0\n}", port), "agents_health\nmcp /mcp TRIPS\nrespond API")
	const down = "the store does not respond"
	sitetest.Eventually(t, "the error", func() bool { return strings.Contains(s.Log(), down) })
	if a := s.Get("/health/ready"); a.Status != 503 {
		t.Errorf("without the store: %d %s", a.Status, a.Body)
	}
	if a := s.Get("/health/live"); a.Status != 200 {
		t.Errorf("live: %d %s", a.Status, a.Body)
	}
	if a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`, nil); a.Status != 503 {
		t.Errorf("a session without its keys: %d %s", a.Status, a.Body)
	}
	storetest.Redis(t, "--port", fmt.Sprint(port))
	sitetest.Eventually(t, "ready after Redis is up", func() bool { return s.Get("/health/ready").Status == 200 })
	sitetest.Eventually(t, "the end of the outage in the log", func() bool { return strings.Contains(s.Log(), "the store responds now") })
	if n := strings.Count(s.Log(), down); n != 1 {
		t.Errorf("the outage is logged %d times", n)
	}
	if status := sitetest.SessionsOf(s).Ping("/mcp", s.Begin("/mcp")); status != 200 {
		t.Errorf("a session: %d", status)
	}
}

// TestStore_errors_of_an_outage are logged once, and counted at the end. The messages of the client library go to the log
// at the level debug.
func TestStore_errors_of_an_outage(t *testing.T) {
	port := testkit.FreePort(t)
	s := sitetest.Run(t, fmt.Sprintf("agents {\nstore redis redis://127.0.0.1:%d/0\n}", port), "otc /otc TRIPS\nrespond API")
	call := func() sitetest.Response {
		return s.Request("POST", "/otc/call", `{"request":{"call_id":"1","tool_id":"Trips.deleteTrip","input":{"trip_id":"1"}}}`)
	}
	const failed = "recording a call failed"
	for range 3 {
		call()
	}
	s.Logged(`"level":"debug"`, "agents.stores.redis", "connection refused")
	storetest.Redis(t, "--port", fmt.Sprint(port))
	s.Logged("the store responds now", failed, `"errors":3`)
	if n := strings.Count(s.Log(), `"msg":"`+failed+`"`); n != 1 {
		t.Errorf("the error is logged %d times:\n%s", n, s.Log())
	}
	if a := call(); a.Status != 200 {
		t.Errorf("after the outage: %d %s", a.Status, a.Body)
	}
}
