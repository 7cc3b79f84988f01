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

// With optional, a caller who is not known gets the missing requirement of a tool that needs a login. The credential of the gateway is not used.
func TestOTC_tools_that_need_a_login(t *testing.T) {
	i, a := sitetest.NewIssuer(t), sitetest.NewAPI(t, nil)
	s := sitetest.NewSite(t)
	s.Write("orders.yaml", `openapi: 3.1.0
info: {title: Orders, version: 1.0.0}
components:
  securitySchemes:
    oauth: {type: oauth2, flows: {authorizationCode: {authorizationUrl: https://a.test/login, tokenUrl: https://a.test/t, scopes: {read: r}}}}
    bearer: {type: http, scheme: bearer}
paths:
  /open: {get: {operationId: open, responses: {"200": {description: ok}}}}
  /login: {get: {operationId: login, security: [{oauth: []}], responses: {"200": {description: ok}}}}
  /bearer: {get: {operationId: bearer, security: [{bearer: []}], responses: {"200": {description: ok}}}}
  /scoped: {get: {operationId: scoped, security: [{oauth: [read]}], responses: {"200": {description: ok}}}}
`)
	s.Start("agents {\ntoolset orders DIR/orders.yaml {\ncredential header Authorization \"Bearer key-of-the-gateway\"\n}\n}",
		"agent_auth {\nissuer "+i.URL+"\noptional\n}\notc orders\nreverse_proxy "+strings.TrimPrefix(a.URL, "http://"))
	for tool, want := range map[string]struct {
		missing     string // "" if anyone may call the tool
		other, read int    // statuses with a token that has another scope, and with one that has read
	}{
		"open": {"", 200, 200}, "login": {`"id":"oauth","url":"https://a.test/login"`, 200, 200}, "bearer": {`"id":"bearer"`, 200, 200}, "scoped": {`"id":"oauth"`, 403, 200},
	} {
		for token, status := range map[string]int{"": 200, "other": want.other, "read": want.read} {
			r, err := http.NewRequest(http.MethodPost, s.URL+"/otc/call", strings.NewReader(`{"tool_id":"Orders.`+tool+`","context":{"authorization":[{"id":"oauth","token":"invented"}]}}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+i.Token(t, s.URL, "scope", token))
			} else if want.missing != "" {
				status = 400
			}
			before := asked(a)
			got := s.Do(r)
			if called := asked(a) > before; got.Status != status || called != (status == 200) {
				t.Errorf("%s, scope %q: %d %s, called %t", tool, token, got.Status, got.Body, called)
			}
			if challenge := got.Header.Get("Www-Authenticate"); status == 400 && (!strings.Contains(got.Body, want.missing) || strings.Contains(challenge, "error") || challenge == "") {
				t.Errorf("%s: %s, challenge %q", tool, got.Body, challenge)
			}
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
