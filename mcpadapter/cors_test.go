package mcpadapter

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Pages of the origins that may call, and of no others, are allowed by the browser's
// rules: before they call, and in each answer, refusals among them.
func TestCORS(t *testing.T) {
	const app = "https://app.example.com"
	for rule, c := range map[string]struct {
		origins      []string
		origin       string
		method       string
		header       map[string]string
		status       int
		allow, names string
	}{
		"preflight":             {[]string{app}, app, "OPTIONS", map[string]string{"Access-Control-Request-Method": "POST"}, 204, app, "Mcp-Session-Id"},
		"preflight/param":       {[]string{app}, app, "OPTIONS", map[string]string{"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-param-region,x-api-key"}, 204, app, "mcp-param-region, x-api-key"},
		"preflight/any":         {[]string{"*"}, app, "OPTIONS", map[string]string{"Access-Control-Request-Method": "POST"}, 204, "*", "Authorization"},
		"preflight/foreign":     {[]string{app}, "https://evil.example", "OPTIONS", map[string]string{"Access-Control-Request-Method": "POST"}, 403, "", ""},
		"preflight/no-origins":  {nil, "http://api.example.com", "OPTIONS", map[string]string{"Access-Control-Request-Method": "POST"}, 204, "", ""},
		"call":                  {[]string{app}, app, "POST", nil, 200, app, ""},
		"call/no-page":          {[]string{app}, "", "POST", nil, 200, "", ""},
		"call/own":              {[]string{app}, "http://api.example.com", "POST", nil, 200, "", ""},
		"call/foreign":          {[]string{app}, "https://evil.example", "POST", nil, 403, "", ""},
		"call/null":             {[]string{app}, "null", "POST", nil, 403, "", ""},
		"call/refused":          {[]string{app}, app, "POST", map[string]string{"Content-Type": "text/plain"}, 415, app, ""},
		"call/session-unknown":  {[]string{app}, app, "POST", map[string]string{"Mcp-Session-Id": "x"}, 404, app, ""},
		"get/not-for-a-browser": {[]string{app}, app, "GET", nil, 406, app, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://api.example.com/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			r.Header.Set("Content-Type", "application/json")
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			for name, value := range c.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			New(Options{AllowedOrigins: c.origins}).ServeHTTP(w, r, siteOf(trains(), echo))
			got := w.Header()
			if w.Code != c.status || got.Get("Access-Control-Allow-Origin") != c.allow {
				t.Errorf("status %d for %q: %s", w.Code, got.Get("Access-Control-Allow-Origin"), w.Body)
			}
			if varies := strings.Contains(strings.Join(got.Values("Vary"), ", "), "Origin"); varies != (c.origins != nil && c.status != 403) {
				t.Errorf("Vary %q", got.Values("Vary"))
			}
			if exposed := got.Get("Access-Control-Expose-Headers"); (exposed != "") != (c.allow != "") ||
				exposed != "" && (!strings.Contains(exposed, "Mcp-Session-Id") || !strings.Contains(exposed, "WWW-Authenticate")) {
				t.Errorf("exposes %q", exposed)
			}
			if asked := got.Get("Access-Control-Allow-Headers"); !strings.Contains(asked, c.names) || (asked != "") != (c.names != "") {
				t.Errorf("allows the headers %q", asked)
			}
			if methods := got.Get("Access-Control-Allow-Methods"); (methods == "POST, GET, DELETE") != (c.names != "") {
				t.Errorf("allows the methods %q", methods)
			}
			if got.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("a page may use what its browser adds by itself")
			}
			if c.status == http.StatusForbidden && !strings.Contains(w.Body.String(), "option origins") {
				t.Errorf("the option is not named: %s", w.Body)
			}
		})
	}
}
