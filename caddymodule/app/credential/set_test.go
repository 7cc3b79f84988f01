package credential_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// credentialOf returns the configuration of a credential.
func credentialOf(in, name, value string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"in": in, "name": name, "value": value})
	if err != nil {
		panic(err)
	}
	return raw
}

// load loads credentials, as a host module does.
func load(t *testing.T, configured []json.RawMessage, logger *zap.Logger) (credential.Set, error) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	before := len(configured)
	set, err := credential.Load(ctx, configured, logger)
	if err == nil && (len(set) != before || before > 0 && configured[0] == nil) {
		t.Errorf("%d credentials of %d; the configuration is %s", len(set), before, configured)
	}
	return set, err
}

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
	blank := filepath.Join(dir, "blank")
	if err := os.WriteFile(blank, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAIRWAY_TEST_TOKEN", "from-env")
	t.Setenv("FAIRWAY_TEST_USER", "a:b")
	for name, test := range map[string]struct {
		credentials []json.RawMessage
		header      http.Header // of the request then, beside X-Other
		query       string
		missing     string // part of the error instead
	}{
		"none":                 {nil, http.Header{"Authorization": {"Bearer caller"}}, "key=argument&page=2", ""},
		"header":               {[]json.RawMessage{credentialOf("header", "authorization", "Bearer {env.FAIRWAY_TEST_TOKEN}")}, http.Header{"Authorization": {"Bearer from-env"}}, "key=argument&page=2", ""},
		"header of a file":     {[]json.RawMessage{credentialOf("header", "X-Key", "{file."+secret+"}")}, http.Header{"Authorization": {"Bearer caller"}, "X-Key": {"from-file"}}, "key=argument&page=2", ""},
		"query":                {[]json.RawMessage{credentialOf("query", "key", "a&b={env.FAIRWAY_TEST_TOKEN}")}, http.Header{"Authorization": {"Bearer caller"}}, "page=2&key=a%26b%3Dfrom-env", ""},
		"basic":                {[]json.RawMessage{credentialOf("basic", "ada", "se:cret")}, http.Header{"Authorization": {"Basic YWRhOnNlOmNyZXQ="}}, "key=argument&page=2", ""},
		"basic by placeholder": {[]json.RawMessage{credentialOf("basic", "{env.FAIRWAY_TEST_TOKEN}", "x")}, http.Header{"Authorization": {"Basic ZnJvbS1lbnY6eA=="}}, "key=argument&page=2", ""},
		"a brace":              {[]json.RawMessage{credentialOf("header", "X-Key", `a\{b\}`)}, http.Header{"Authorization": {"Bearer caller"}, "X-Key": {"a{b}"}}, "key=argument&page=2", ""},
		"variable not set":     {[]json.RawMessage{credentialOf("header", "X-Key", "Bearer {env.FAIRWAY_TEST_UNSET}")}, nil, "", "header X-Key {env.FAIRWAY_TEST_UNSET} empty"},
		"no user":              {[]json.RawMessage{credentialOf("basic", "", "secret")}, http.Header{"Authorization": {"Basic OnNlY3JldA=="}}, "key=argument&page=2", ""},
		"no password":          {[]json.RawMessage{credentialOf("basic", "sk_test", "")}, http.Header{"Authorization": {"Basic c2tfdGVzdDo="}}, "key=argument&page=2", ""},
		"a dollar sign":        {[]json.RawMessage{credentialOf("header", "X-Key", "$ecret")}, http.Header{"Authorization": {"Bearer caller"}, "X-Key": {"$ecret"}}, "key=argument&page=2", ""},
		"a space at the end":   {[]json.RawMessage{credentialOf("header", "X-Key", "Bearer a ")}, http.Header{"Authorization": {"Bearer caller"}, "X-Key": {"Bearer a "}}, "key=argument&page=2", ""},
		"a scheme, no token":   {[]json.RawMessage{credentialOf("header", "X-Key", "Bearer {file."+blank+"}")}, nil, "", "X-Key scheme empty"},
		"no such file":         {[]json.RawMessage{credentialOf("query", "key", "{file."+dir+"/none}")}, nil, "", "query parameter key"},
		"lines":                {[]json.RawMessage{credentialOf("header", "X-Key", "{file."+broken+"}")}, nil, "", "X-Key allowed header"},
		"user with a colon":    {[]json.RawMessage{credentialOf("basic", "{env.FAIRWAY_TEST_USER}", "x")}, nil, "", "colon"},
		"one of several": {
			[]json.RawMessage{credentialOf("header", "X-Key", "x"), credentialOf("header", "X-Other", "{env.FAIRWAY_TEST_UNSET}")},
			nil, "", "header X-Other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			checked, err := load(t, test.credentials, zap.New(core))
			if err != nil {
				t.Fatal(err)
			}
			if warned := logs.Len() > 0; warned != (test.missing != "") {
				t.Errorf("warned at start: %t", warned)
			}
			r := httptest.NewRequest("GET", "/trips?key=argument&page=2", nil)
			r.Header = http.Header{"Authorization": {"Bearer caller"}}
			err = checked.Apply(r)
			if test.missing != "" {
				if err == nil || !testkit.ContainsAll(err.Error(), test.missing) || strings.Contains(err.Error(), "lines\n") {
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
	for want, configured := range map[string][]json.RawMessage{
		`agents.credentials.cookie`:                         {credentialOf("cookie", "a", "b")},
		"not a valid header name":                           {credentialOf("header", "X Key", "b")},
		"Host":                                              {credentialOf("header", "host", "b")},
		"Content-Length":                                    {credentialOf("header", "content-length", "b")},
		"parameter's name is empty":                         {credentialOf("query", "", "b")},
		"the user and the password are empty":               {credentialOf("basic", "", "")},
		"the header Authorization: the value ends after":    {credentialOf("header", "Authorization", "Bearer ")},
		"the header X-Key: the value ends after":            {credentialOf("header", "X-Key", "GenieKey ")},
		"the header Authorization: the value has $NAME":     {credentialOf("header", "Authorization", "Bearer $API_TOKEN")},
		"the query parameter key: the value has $NAME":      {credentialOf("query", "key", "$KEY")},
		"basic: the value has $NAME":                        {credentialOf("basic", "ops", "$PASSWORD")},
		"the header X-Key: the value is empty":              {credentialOf("header", "x-key", "")},
		"the header X-Key":                                  {credentialOf("header", "x-key", "a"), credentialOf("header", "X-Key", "b")},
		"the header Authorization":                          {credentialOf("header", "authorization", "a"), credentialOf("basic", "a", "b")},
		"{http.request.header.X-Key}: placeholders of a":    {credentialOf("header", "X-Key", "{http.request.header.X-Key}")},
		"the query parameter key: unrecognized placeholder": {credentialOf("query", "key", `{"json":1}`)},
	} {
		if _, err := load(t, configured, zap.NewNop()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
