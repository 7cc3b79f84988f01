package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestOTC_authenticated puts agent_auth before otc.
func TestOTC_authenticated(t *testing.T) {
	i, a := newIssuer(t), newAPI(t, nil)
	s := run(t, "", `
	agent_auth /otc* {
		issuer `+i.URL+`
		require_scope trips:read
		exempt /otc/health
		api_key {
			key grace secret-of-grace
		}
	}
	otc TRIPS
	reverse_proxy `+strings.TrimPrefix(a.URL, "http://"))
	good, poor := i.token(t, s.url+"/otc"), i.token(t, s.url+"/otc", "scope", "other")
	for rule, test := range map[string]struct {
		method, path string
		header       []string
		status       int
	}{
		"call/unauthenticated":   {"POST", "/otc/call", nil, 401},
		"call/token":             {"POST", "/otc/call", []string{"Authorization", "Bearer " + good}, 200},
		"call/key":               {"POST", "/otc/call", []string{"X-API-Key", "secret-of-grace"}, 200},
		"call/bad key":           {"POST", "/otc/call", []string{"X-API-Key", "secret-of-stranger"}, 401},
		"call/scopes":            {"POST", "/otc/call", []string{"Authorization", "Bearer " + poor}, 403},
		"OXP/unauthenticated":    {"POST", "/otc/tools/call", nil, 401},
		"OXP/token":              {"POST", "/otc/tools/call", []string{"Authorization", "Bearer " + good}, 200},
		"tools/unauthenticated":  {"GET", "/otc/tools", nil, 401},
		"tools/token":            {"GET", "/otc/tools", []string{"Authorization", "Bearer " + good}, 200},
		"health/unauthenticated": {"GET", "/otc/health", nil, 200},
	} {
		t.Run(rule, func(t *testing.T) {
			s := s.with(t)
			body := ""
			if test.method == "POST" {
				body = `{"tool_id":"Trips.listTrips"}`
			}
			r, err := http.NewRequest(test.method, s.url+test.path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			for n := 0; n+1 < len(test.header); n += 2 {
				r.Header.Set(test.header[n], test.header[n+1])
			}
			before := a.asked()
			got := s.do(r)
			if got.status != test.status || test.method == "POST" && test.status == 200 && !strings.Contains(got.body, `"success":true`) {
				t.Errorf("got %d %s", got.status, got.body)
			}
			if called := a.asked() > before; called != (test.method == "POST" && test.status == 200) {
				t.Errorf("the API was called: %t", called)
			}
			if (got.header.Get("WWW-Authenticate") != "") != (test.status != 200) {
				t.Errorf("got the challenge %q", got.header.Get("WWW-Authenticate"))
			}
		})
	}
	log := s.log()
	for _, secret := range []string{good, poor} {
		if strings.Contains(log, secret) {
			t.Error("the log has a token")
		}
	}
	for line := range strings.Lines(log) {
		// Caddy's own lines show what header clients sent, if the operator does not filter it.
		if strings.Contains(line, "secret-of-") && !strings.Contains(line, "http.log.access") {
			t.Errorf("the log has a key: %s", line)
		}
	}
}

// asked returns how many requests have come.
func (a *api) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// TestExposed_by_an_API is not passed on: only the guard of an agent says what
// the agent exposes.
func TestExposed_by_an_API(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("OAgent-Exposes", `{"forged":true}`)
		_, _ = w.Write([]byte(`{"trips":[]}`))
	})
	s := run(t, "", `
	mcp TRIPS
	otc TRIPS
	reverse_proxy `+strings.TrimPrefix(a.URL, "http://"))
	for _, got := range []answer{s.do(s.callRequest("listTrips", "{}")), s.otcCall("listTrips", "{}")} {
		if !strings.Contains(got.body, "trips") || strings.Contains(got.body, "forged") || got.header.Get("OAgent-Exposes") != "" {
			t.Errorf("got %v %s", got.header, got.body)
		}
	}
}
