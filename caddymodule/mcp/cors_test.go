package mcp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMCP_pages_of_other_origins lets a page of an allowed origin in, past agent_auth, and
// read what refuses it where the site says so as the documentation does.
func TestMCP_pages_of_other_origins(t *testing.T) {
	const app = "https://app.test"
	s := sitetest.Run(t, "", `@app header Origin `+app+`
	header @app {
		Access-Control-Allow-Origin   `+app+`
		Access-Control-Expose-Headers "Mcp-Session-Id, WWW-Authenticate, Retry-After"
		+Vary                         Origin
	}
	agent_auth {
		api_key {
			key grace k1
		}
	}
	mcp TRIPS {
		origins `+app+`
	}
	respond "nothing"`)
	do := func(method, origin string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	for rule, c := range map[string]struct {
		method, origin string
		header         []string
		status         int
		allow          string
	}{
		"preflight":         {"OPTIONS", app, []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-api-key"}, 204, app},
		"preflight/foreign": {"OPTIONS", "https://evil.test", []string{"Access-Control-Request-Method", "POST"}, 403, ""},
		"call":              {"POST", app, []string{"X-Api-Key", "k1"}, 200, app},
		"call/no-key":       {"POST", app, nil, 401, app},
		"call/foreign":      {"POST", "https://evil.test", []string{"X-Api-Key", "k1"}, 403, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			got := do(c.method, c.origin, c.header...)
			if allow := got.Header.Values("Access-Control-Allow-Origin"); got.StatusCode != c.status || strings.Join(allow, ", ") != c.allow {
				t.Errorf("status %d for %q", got.StatusCode, allow)
			}
			if exposed := got.Header.Get("Access-Control-Expose-Headers"); strings.Contains(exposed, "WWW-Authenticate") != (c.allow != "") {
				t.Errorf("exposes %q", exposed)
			}
			if rule == "preflight" && !strings.Contains(got.Header.Get("Access-Control-Allow-Headers"), "x-api-key") {
				t.Errorf("allows %q", got.Header.Get("Access-Control-Allow-Headers"))
			}
		})
	}
}
