package login

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/authserver"
	"github.com/fairwayhq/fairway/internal/testkit"
)

func parse(t *testing.T, options string) (*Handler, error) {
	t.Helper()
	h := new(Handler)
	return h, h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("agent_login {\n" + options + "\n}"))
}

func TestCaddyfile_becomes_a_configuration(t *testing.T) {
	h, err := parse(t, `
		provider entra contoso.com
		client_id fairway
		client_secret {env.SECRET}
		provider_param domain_hint contoso.com
		group_claim roles
		issuer https://tools.example.com
		secret {env.NEW} {env.OLD}
		allow group a b
		allow domain example.com
		scope read
		scope write group a
		client cron {
			secret {env.CRON}
			machine read
		}
		token_lifetime 5m
		own_tokens`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"provider":{"kind":"entra","address":"contoso.com","client_id":"fairway","client_secret":"{env.SECRET}","params":{"domain_hint":"contoso.com"},"group_claim":"roles"},` +
		`"issuer":"https://tools.example.com","secret":"{env.NEW}","previous_secret":"{env.OLD}","allow":{"groups":["a","b"],"domains":["example.com"]},` +
		`"scopes":[{"name":"read"},{"name":"write","groups":["a"]}],"clients":[{"id":"cron","machine":true,"scopes":["read"],"secret":"{env.CRON}"}],"token_lifetime":300000000000,"own_tokens":true}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCaddyfile_errors_name_the_line_to_write(t *testing.T) {
	for name, test := range map[string]struct{ options, want string }{
		"no provider":      {"client_id a", "provider oidc"},
		"unknown provider": {"provider saml https://a.example", "unknown saml oidc entra"},
		"no address":       {"provider oidc", "oidc address https://login.example.com"},
		"an address":       {"provider github https://a.example", "github address"},
		"all companies":    {"provider entra common", "common contoso.com"},
		"allow nothing":    {"provider google\nallow group", "allow group engineering"},
		"allow unknown":    {"provider google\nallow role a", "group email domain user role"},
		"scope":            {"provider google\nscope a groups b", "scope group"},
		"scope twice":      {"provider google\nscope a\nscope a", "scope a twice"},
		"shell variable":   {"provider google\nclient_secret $SECRET", "{env.NAME}"},
		"unknown option":   {"provider google\nclient_ident x", "unrecognized client_id"},
	} {
		_, err := parse(t, test.options)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if !testkit.ContainsAll(err.Error(), test.want) {
			t.Errorf("%s: error %q, want %q", name, err, test.want)
		}
	}
}

// provision starts a configuration of one site and returns the error.
func provision(t *testing.T, host, options string) error {
	t.Helper()
	adapted, err := parse(t, options)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := json.Marshal(adapted)
	if err != nil {
		t.Fatal(err)
	}
	config := `{"admin":{"disabled":true},"logging":{"logs":{"default":{"level":"ERROR"}}},"apps":{"agents":{},"http":{"servers":{"a":{"listen":["127.0.0.1:443"],"automatic_https":{"disable":true},` +
		`"routes":[{"match":[{"host":["` + host + `"]}],"handle":[{"handler":"subroute","routes":[{"handle":[` + strings.Replace(string(handler), "{", `{"handler":"agent_login",`, 1) + `]}]}]}]}}}}}`
	var c caddy.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	return caddy.Validate(&c)
}

// agent_auth without an issuer trusts the login of its site, wherever the two are in the Caddyfile.
func TestAgentAuth_needs_the_login_of_its_site(t *testing.T) {
	const login = "agent_login {\nprovider oidc https://login.example.com\nclient_id a\nsecret 0123456789abcdef\n}\n"
	for name, test := range map[string]struct {
		caddyfile string
		isValid   bool
	}{
		"before":       {"tools.example.com {\n" + login + "agent_auth\n}", true},
		"after":        {"tools.example.com {\nagent_auth\n" + login + "}", true},
		"with keys":    {"tools.example.com {\n" + login + "agent_auth {\nlogin\napi_key {\nkey ann 0123456789abcdef\n}\n}\n}", true},
		"none":         {"tools.example.com {\nagent_auth\n}", false},
		"another site": {"tools.example.com {\n" + login + "}\nother.example.com {\nagent_auth\n}", false},
	} {
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte("{\nadmin off\nauto_https off\n}\n"+test.caddyfile), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var c caddy.Config
		if err := json.Unmarshal(adapted, &c); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&c); (err == nil) != test.isValid || err != nil && !testkit.ContainsAll(err.Error(), "issuer api_key agent_login") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestHandler_is_checked_at_start(t *testing.T) {
	const good = "provider oidc https://login.example.com\nclient_id a\nsecret 0123456789abcdef\n"
	t.Setenv("EMPTY", "")
	for name, test := range map[string]struct{ host, options, want string }{
		"the site's address is the issuer": {"tools.example.com", good, ""},
		"no address":                       {"*.example.com", good, "set issuer"},
		"http":                             {"tools.example.com", good + "issuer http://tools.example.com", "https"},
		"issuer with a query":              {"tools.example.com", good + "issuer https://tools.example.com?a=b", "query"},
		"no secret":                        {"tools.example.com", "provider oidc https://a.example\nclient_id a", "openssl rand"},
		"a short secret":                   {"tools.example.com", "provider oidc https://a.example\nclient_id a\nsecret short", "16"},
		"an unset variable":                {"tools.example.com", "provider oidc https://a.example\nclient_id {env.EMPTY}\nsecret 0123456789abcdef", "client_id"},
		"no client_id":                     {"tools.example.com", "provider oidc https://a.example\nsecret 0123456789abcdef", "client_id"},
		"everyone at GitHub":               {"tools.example.com", "provider github\nclient_id a\nsecret 0123456789abcdef", "allow anyone"},
		"everyone on purpose":              {"tools.example.com", "provider github\nclient_id a\nsecret 0123456789abcdef\nallow anyone", ""},
		"a contradiction":                  {"tools.example.com", good + "allow anyone\nallow group a", "contradicts"},
		"a client without a way":           {"tools.example.com", good + "client a", "redirect"},
		"a machine without a secret":       {"tools.example.com", good + "client a {\nmachine\n}", "secret keys"},
		"a dangerous redirect":             {"tools.example.com", good + "client a {\nredirect javascript:alert(1)\n}", "not allowed"},
		"missing keys":                     {"tools.example.com", good + "client a {\njwks missing.json\nmachine\n}", "missing.json"},
	} {
		err := provision(t, test.host, test.options)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// provider is a stand-in whose metadata the test chooses.
type provider struct {
	authserver.Provider
	issuer string
	knows  bool
	err    error
}

func (p *provider) KnowsDocuments(context.Context) (string, bool, error) {
	return p.issuer, p.knows, p.err
}

// deciding returns a handler that finds out who issues the tokens.
func deciding(t *testing.T, p *provider) *Handler {
	t.Helper()
	h := &Handler{logger: zap.NewNop(), provider: p}
	var err error
	h.server, err = authserver.New(authserver.Options{Issuer: "https://tools.example.com", Secrets: []string{"0123456789abcdef"}, Provider: p, Ledger: new(ledger)})
	if err != nil {
		t.Fatal(err)
	}
	if h.tokens, err = h.verifier(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Cleanup() })
	return h
}

func TestHandler_steps_aside(t *testing.T) {
	p := &provider{issuer: "https://login.example.com", knows: true, err: errors.New("down")}
	h := deciding(t, p)
	if _, _, err := h.TokenIssuer(t.Context()); err == nil {
		t.Error("the issuer is known while the provider is down")
	}
	p.err = nil
	issuer, tokens, err := h.TokenIssuer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if issuer != p.issuer {
		t.Errorf("issuer %s, want the provider", issuer)
	}
	if tokens == h.tokens {
		t.Error("own tokens are accepted, although none are issued")
	}
	w := httptest.NewRecorder()
	passed := false
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { passed = true; return nil })
	if err := h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/login/authorize", nil), next); err != nil {
		t.Fatal(err)
	}
	if !passed {
		t.Errorf("the endpoint responds with %d", w.Code)
	}
}

func TestHandler_issues_its_own_tokens(t *testing.T) {
	for name, p := range map[string]*provider{"unknown documents": {issuer: "https://login.example.com"}, "own_tokens": {issuer: "https://login.example.com", knows: true}} {
		h := deciding(t, p)
		h.OwnTokens = name == "own_tokens"
		if issuer, tokens, err := h.TokenIssuer(t.Context()); err != nil || issuer != "https://tools.example.com" || tokens != h.tokens {
			t.Errorf("%s: issuer %s, error %v", name, issuer, err)
		}
	}
}
