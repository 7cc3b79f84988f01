package toolcall

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/internal/handlertest"
	"github.com/fairwayhq/fairway/internal/keyword"
	"github.com/fairwayhq/fairway/ocp/security"
)

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("two\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAIRWAY_TEST_TOKEN", "from-env")
	t.Setenv("FAIRWAY_TEST_USER", "a:b")
	for name, test := range map[string]struct {
		credentials []agents.Credential
		header      http.Header // of the request then, beside X-Other
		query       string
		missing     string // part of the error instead
	}{
		"none":                 {nil, http.Header{"Authorization": {"Bearer caller"}}, "key=argument&page=2", ""},
		"header":               {[]agents.Credential{{In: "header", Name: "authorization", Value: "Bearer {env.FAIRWAY_TEST_TOKEN}"}}, http.Header{"Authorization": {"Bearer from-env"}}, "key=argument&page=2", ""},
		"header of a file":     {[]agents.Credential{{In: "header", Name: "X-Key", Value: "{file." + secret + "}"}}, http.Header{"Authorization": {"Bearer caller"}, "X-Key": {"from-file"}}, "key=argument&page=2", ""},
		"query":                {[]agents.Credential{{In: "query", Name: "key", Value: "a&b={env.FAIRWAY_TEST_TOKEN}"}}, http.Header{"Authorization": {"Bearer caller"}}, "page=2&key=a%26b%3Dfrom-env", ""},
		"basic":                {[]agents.Credential{{In: "basic", Name: "ada", Value: "se:cret"}}, http.Header{"Authorization": {"Basic YWRhOnNlOmNyZXQ="}}, "key=argument&page=2", ""},
		"basic by placeholder": {[]agents.Credential{{In: "basic", Name: "{env.FAIRWAY_TEST_TOKEN}", Value: "x"}}, http.Header{"Authorization": {"Basic ZnJvbS1lbnY6eA=="}}, "key=argument&page=2", ""},
		"a brace":              {[]agents.Credential{{In: "header", Name: "X-Key", Value: `a\{b\}`}}, http.Header{"Authorization": {"Bearer caller"}, "X-Key": {"a{b}"}}, "key=argument&page=2", ""},
		"variable not set":     {[]agents.Credential{{In: "header", Name: "X-Key", Value: "Bearer {env.FAIRWAY_TEST_UNSET}"}}, nil, "", "header X-Key {env.FAIRWAY_TEST_UNSET} empty"},
		"no such file":         {[]agents.Credential{{In: "query", Name: "key", Value: "{file." + dir + "/none}"}}, nil, "", "query parameter key"},
		"lines":                {[]agents.Credential{{In: "header", Name: "X-Key", Value: "{file." + broken + "}"}}, nil, "", "X-Key allowed header"},
		"user with a colon":    {[]agents.Credential{{In: "basic", Name: "{env.FAIRWAY_TEST_USER}", Value: "x"}}, nil, "", "colon"},
		"one of several": {
			[]agents.Credential{{In: "header", Name: "X-Key", Value: "x"}, {In: "header", Name: "X-Other", Value: "{env.FAIRWAY_TEST_UNSET}"}},
			nil, "", "header X-Other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			checked, err := agents.NewCredentials(test.credentials, zap.New(core))
			if err != nil {
				t.Fatal(err)
			}
			if warned := logs.Len() > 0; warned != (test.missing != "") {
				t.Errorf("warned at start: %t", warned)
			}
			r := httptest.NewRequest("GET", "/trips?key=argument&page=2", nil)
			r.Header = http.Header{"Authorization": {"Bearer caller"}}
			err = checked.Apply(r, caddy.NewReplacer())
			if test.missing != "" {
				if err == nil || !keyword.All(err.Error(), test.missing) || strings.Contains(err.Error(), "lines\n") {
					t.Errorf("got %v, want %q", err, test.missing)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.URL.RawQuery != test.query || len(r.Header) != len(test.header) {
				t.Errorf("query %s, header %v", r.URL.RawQuery, r.Header)
			}
			for name := range test.header {
				if r.Header.Get(name) != test.header.Get(name) {
					t.Errorf("%s is %q", name, r.Header.Get(name))
				}
			}
		})
	}
}

func TestCredentialErrors(t *testing.T) {
	for want, configured := range map[string][]agents.Credential{
		`"cookie"`:                             {{In: "cookie", Name: "a", Value: "b"}},
		"not a valid header name":              {{In: "header", Name: "X Key", Value: "b"}},
		"Host":                                 {{In: "header", Name: "host", Value: "b"}},
		"Content-Length":                       {{In: "header", Name: "content-length", Value: "b"}},
		"parameter's name is empty":            {{In: "query", Name: "", Value: "b"}},
		"user is empty":                        {{In: "basic", Name: "", Value: "b"}},
		"the header X-Key: the value is empty": {{In: "header", Name: "x-key", Value: ""}},
		"the header X-Key":                     {{In: "header", Name: "x-key", Value: "a"}, {In: "header", Name: "X-Key", Value: "b"}},
		"the header Authorization":             {{In: "header", Name: "authorization", Value: "a"}, {In: "basic", Name: "a", Value: "b"}},
		"{http.request.header.X-Key}: placeholders of a":    {{In: "header", Name: "X-Key", Value: "{http.request.header.X-Key}"}},
		"the query parameter key: unrecognized placeholder": {{In: "query", Name: "key", Value: `{"json":1}`}},
	} {
		if _, err := agents.NewCredentials(configured, zap.NewNop()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestSupplement: the toolset's credentials win over what an adapter adds to a
// call, which may have come with it, and both over the caller's headers and the
// arguments.
func TestSupplement(t *testing.T) {
	var got *http.Request
	i := invocation{handler: func(w http.ResponseWriter, r *http.Request) error {
		got = r
		return handlertest.API(w, r)
	}}
	i.toolset.Credentials = agents.Credentials{{In: "header", Name: "Authorization", Value: "Bearer gateway"}, {In: "header", Name: "X-Key", Value: "gateway"}, {In: "query", Name: "limit", Value: "20"}}
	i.supplement = &security.Supplement{
		Header: http.Header{"X-Key": {"adapter"}, "Mcp-Progress": {"1"}, "User-Agent": {"adapter"}},
		Query:  map[string][]string{"token": {"t"}, "limit": {"30"}},
	}
	result, err := i.run(t)
	if err != nil {
		t.Fatal(err)
	}
	result.Release()
	for name, want := range map[string]string{"Authorization": "Bearer gateway", "X-Key": "gateway", "Mcp-Progress": "1", "User-Agent": "adapter"} {
		if got := got.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if want := "/trips/7?token=t&limit=20"; got.RequestURI != want || got.URL.RequestURI() != want {
		t.Errorf("RequestURI %s, URL %s", got.RequestURI, got.URL)
	}
}
