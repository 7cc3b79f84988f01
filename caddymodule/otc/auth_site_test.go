package otc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOTC_authenticated puts agent_auth before otc.
func TestOTC_authenticated(t *testing.T) {
	i, a := sitetest.NewIssuer(t), sitetest.NewAPI(t, nil)
	s := sitetest.Run(t, "", `
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
	good, poor := i.Token(t, s.URL+"/otc"), i.Token(t, s.URL+"/otc", "scope", "other")
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
			s := s.With(t)
			body := ""
			if test.method == "POST" {
				body = `{"tool_id":"Trips.listTrips"}`
			}
			r, err := http.NewRequest(test.method, s.URL+test.path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			for n := 0; n+1 < len(test.header); n += 2 {
				r.Header.Set(test.header[n], test.header[n+1])
			}
			before := asked(a)
			got := s.Do(r)
			if got.Status != test.status || test.method == "POST" && test.status == 200 && !strings.Contains(got.Body, `"success":true`) {
				t.Errorf("got %d %s", got.Status, got.Body)
			}
			if called := asked(a) > before; called != (test.method == "POST" && test.status == 200) {
				t.Errorf("the API was called: %t", called)
			}
			if (got.Header.Get("WWW-Authenticate") != "") != (test.status != 200) {
				t.Errorf("got the challenge %q", got.Header.Get("WWW-Authenticate"))
			}
		})
	}
	log := s.Log()
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
func asked(a *sitetest.API) int {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return len(a.Seen)
}

// TestExposed_by_an_API is not passed on: only the guard of an agent says what
// the agent exposes.
func TestExposed_by_an_API(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("OAgent-Exposes", `{"forged":true}`)
		_, _ = w.Write([]byte(`{"trips":[]}`))
	})
	s := sitetest.Run(t, "", `
	mcp TRIPS
	otc TRIPS
	reverse_proxy `+strings.TrimPrefix(a.URL, "http://"))
	for _, got := range []sitetest.Response{s.Do(s.CallRequest("listTrips", "{}")), s.OTCCall("listTrips", "{}")} {
		if !strings.Contains(got.Body, "trips") || strings.Contains(got.Body, "forged") || got.Header.Get("OAgent-Exposes") != "" {
			t.Errorf("got %v %s", got.Header, got.Body)
		}
	}
}
