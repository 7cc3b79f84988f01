package credential_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestCredentialSite: tool calls have the credentials, other requests have not,
// and no log has them.
func TestCredentialSite(t *testing.T) {
	api := sitetest.Upstream(t, sitetest.Echo)
	t.Setenv("FAIRWAY_TEST_TOKEN", "env-s3cret")
	s := sitetest.NewSite(t)
	s.Write("key", "first-s3cret\n")
	s.Start(`agents {
		toolset trips TRIPS {
			credential header Authorization "Bearer {env.FAIRWAY_TEST_TOKEN}"
			credential query key {file.DIR/key}
		}
	}`, `mcp trips
		reverse_proxy `+api)
	call := func() *http.Request {
		r := s.CallRequest("listTrips", `{"limit":3}`)
		r.Header.Set("Authorization", "Bearer caller")
		return r
	}
	e := s.Echo(call())
	if e.Header.Get("Authorization") != "Bearer env-s3cret" || e.URI != "/trips?limit=3&key=first-s3cret" {
		t.Errorf("got %s %v", e.URI, e.Header)
	}
	s.Write("key", "second-s3cret\n")
	if e := s.Echo(call()); e.URI != "/trips?limit=3&key=second-s3cret" {
		t.Errorf("the file has changed: %s", e.URI)
	}
	if a := s.Get("/trips"); !strings.Contains(a.Body, `"uri":"/trips"`) || strings.Contains(a.Body, "s3cret") {
		t.Errorf("a request that is no tool call: %s", a.Body)
	}
	s.Write("key", "\n")
	s.Fail("listTrips", "", "GET", "/trips", "query", "parameter", "key", "operator")
	s.Logged("tool", "call", "/key", `"toolset":"trips"`, `"level":"error"`)
	for line := range strings.Lines(s.Log()) {
		// reverse_proxy logs the requests that it sends at level DEBUG.
		if strings.Contains(line, "s3cret") && !strings.Contains(line, `"http.handlers.reverse_proxy"`) {
			t.Errorf("logged: %s", line)
		}
	}
}

func TestCredentialBasic(t *testing.T) {
	api := sitetest.Upstream(t, sitetest.Echo)
	s := sitetest.Run(t, "", `mcp TRIPS {
			credential basic ada secret
		}
		reverse_proxy `+api)
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:secret"))
	if e := s.Echo(s.CallRequest("listTrips", "")); e.Header.Get("Authorization") != want {
		t.Errorf("got %q", e.Header.Get("Authorization"))
	}
}

func TestAdapt_credential_errors(t *testing.T) {
	for option, want := range map[string]string{
		"credential":                     "credential header Authorization",
		"credential header X-Key":        "credential header Authorization",
		"credential header X-Key a b":    "credential header Authorization",
		"credential cookie a secret":     `unknown credential "cookie"`,
		"credential header X:Key secret": "name header",
		`credential query key ""`:        "value empty",
		`credential header Authorization "Bearer {$FAIRWAY_TEST_UNSET}"`:    "scheme variable empty",
		`credential header Authorization "Bearer $API_TOKEN"`:               "variable replaced",
		`credential "Authorization: Bearer secret"`:                         "credential header Authorization",
		"credential header a secret\n\t\tcredential header A secret":        "header A twice",
		"credential basic a secret\n\t\tcredential header authorization se": "header Authorization twice",
	} {
		_, _, err := sitetest.Adapt("http://a.test {\n\tmcp {\n\t\topenapi o.yaml\n\t\t" + option + "\n\t}\n}")
		line := "Caddyfile:4"
		if strings.Contains(option, "\n") {
			line = "Caddyfile:5"
		}
		if err == nil {
			t.Fatalf("%s: got no error, want %q", option, want)
		}
		if !testkit.ContainsAll(err.Error(), want) || !strings.Contains(err.Error(), line) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q and %s without the secret", option, err, want, line)
		}
	}
}
