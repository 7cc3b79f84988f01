package caddymodule_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/keyword"
)

// issuer is an authorization server that publishes one key.
type issuer struct {
	*httptest.Server
	key     *ecdsa.PrivateKey
	down    atomic.Bool
	fetches atomic.Int32
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig"}}})
	})
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

// token returns a token for the audience; changes are names and values of claims,
// where nil removes one.
func (i *issuer) token(t *testing.T, audience string, changes ...any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "sub": "ada", "aud": audience, "client_id": "inspector", "scope": "trips:read",
		"exp": time.Now().Add(time.Hour).Unix(),
	}
	for n := 0; n+1 < len(changes); n += 2 {
		claims[changes[n].(string)] = changes[n+1]
		if changes[n+1] == nil {
			delete(claims, changes[n].(string))
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// ask sends a request with headers, which are names and values.
func (s *site) ask(method, path string, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	got := s.do(r)
	got.body = unset.ReplaceAllString(got.body, "")
	return got
}

// unset is a placeholder that has no value.
var unset = regexp.MustCompile(`\{http\.[a-z._]+\}`)

// who answers with what the handlers behind agent_auth know of a request.
const who = `respond "{http.auth.user.id}|{http.auth.user.scope}|{http.auth.user.client_id}|{http.vars.agents.resource_metadata}|{http.vars.agents.scopes}|{header.Authorization}"`

// TestAgentAuth has the answers to good and bad credentials.
func TestAgentAuth(t *testing.T) {
	i := newIssuer(t)
	s := run(t, "", `
	agent_auth /mcp* {
		issuer `+i.URL+`
		require_scope trips:read
		exempt /mcp/health /mcp/open/*
		api_key {
			key grace secret-of-grace
			key hash sha256:`+digest("secret-of-hash")+`
		}
	}
	`+who)
	resource := s.url + "/mcp"
	metadata := s.url + "/.well-known/oauth-protected-resource/mcp"
	good := i.token(t, resource)
	for rule, test := range map[string]struct {
		path      string
		header    []string
		status    int
		challenge string // WWW-Authenticate
		body      string // part of it
	}{
		"good": {
			"/mcp",
			[]string{"Authorization", "Bearer " + good},
			200, "",
			i.URL + "#ada|trips:read|inspector|" + metadata + "|[trips:read]|",
		},
		"good/below": {"/mcp/x", []string{"Authorization", "bearer " + good}, 200, "", "#ada|"},
		"missing": {
			"/mcp", nil, 401, `Bearer scope="trips:read", resource_metadata="` + metadata + `"`,
			"Authorization Bearer X-Api-Key",
		},
		"other scheme": {"/mcp", []string{"Authorization", "Basic YTpi"}, 401, `Bearer scope="trips:read", resource_metadata="` + metadata + `"`, ""},
		"expired": {
			"/mcp",
			[]string{"Authorization", "Bearer " + i.token(t, resource, "exp", 1)},
			401,
			`Bearer error="invalid_token", error_description="the token has expired; request a new one", scope="trips:read", resource_metadata="` + metadata + `"`,
			"expired",
		},
		"audience/other":  {"/mcp", []string{"Authorization", "Bearer " + i.token(t, s.url)}, 401, `error="invalid_token"`, "resource"},
		"opaque":          {"/mcp", []string{"Authorization", "Bearer abc"}, 401, `error="invalid_token"`, ""},
		"malformed":       {"/mcp", []string{"Authorization", "Bearer a b"}, 400, `error="invalid_request"`, ""},
		"twice":           {"/mcp", []string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}, 400, `error="invalid_request"`, "several"},
		"both kinds":      {"/mcp", []string{"Authorization", "Bearer " + good, "X-API-Key", "secret-of-grace"}, 400, `error="invalid_request"`, "both"},
		"scope":           {"/mcp", []string{"Authorization", "Bearer " + i.token(t, resource, "scope", "x")}, 403, `error="insufficient_scope"`, "trips:read"},
		"in the query":    {"/mcp?access_token=" + i.token(t, resource, "jti", "q"), nil, 401, `Bearer scope=`, ""},
		"key":             {"/mcp", []string{"X-API-Key", "secret-of-grace"}, 200, "", "grace|||||"},
		"key/digest":      {"/mcp", []string{"X-API-Key", "secret-of-hash"}, 200, "", "hash|||||"},
		"key/unknown":     {"/mcp", []string{"X-API-Key", "secret-of-grac"}, 401, `Bearer scope=`, "API key"},
		"key/digest sent": {"/mcp", []string{"X-API-Key", "sha256:" + digest("secret-of-hash")}, 401, `Bearer scope=`, "API key"},
		"key/twice":       {"/mcp", []string{"X-API-Key", "a", "X-API-Key", "secret-of-grace"}, 400, `error="invalid_request"`, "several"},
		"key/long":        {"/mcp", []string{"X-API-Key", strings.Repeat("x", 2000)}, 401, "", "API key"},
		"exempt":          {"/mcp/health", nil, 200, "", "|||||"},
		"exempt/below":    {"/mcp/open/x", []string{"Authorization", "Bearer " + good}, 200, "", "|||||"},
		"exempt/out of":   {"/mcp/open/../x", nil, 401, "", ""},
		"exempt/not":      {"/mcp/healthy", nil, 401, "", ""},
		"another path":    {"/trips", []string{"Authorization", "Bearer " + good}, 200, "", "|||||Bearer " + good},
	} {
		t.Run(rule, func(t *testing.T) {
			s := s.with(t)
			got := s.ask("GET", test.path, test.header...)
			if got.status != test.status || !keyword.All(got.body, test.body) {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			challenge := got.header.Get("WWW-Authenticate")
			if !strings.Contains(challenge, test.challenge) || (challenge != "") != (test.status != 200) {
				t.Errorf("got the challenge %s", challenge)
			}
			if test.status == 200 {
				return
			}
			if got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Cache-Control") != "no-store" || !json.Valid([]byte(got.body)) {
				t.Errorf("not a problem: %v %s", got.header, got.body)
			}
			if test.path == "/mcp" && challenge == "" {
				t.Error("no challenge")
			}
		})
	}
	if log := s.log(); strings.Contains(log, good) {
		t.Error("the log has a token")
	}
	for line := range strings.Lines(s.log()) {
		if !strings.Contains(line, "http.log.access") && strings.Contains(line, "secret-of-") && strings.Contains(line, "agent_auth") {
			t.Errorf("the log has a key: %s", line)
		}
	}
}

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// TestAgentAuthMetadata reads the metadata as clients do.
func TestAgentAuthMetadata(t *testing.T) {
	s := run(t, "", `
	agent_auth {
		issuer https://auth.test https://other.test/a
		resource /mcp
		require_scope trips:read
		resource_name "Trips"
		resource_documentation https://docs.test/
	}
	`+who)
	want := `{"resource":"` + s.url + `/mcp","authorization_servers":["https://auth.test","https://other.test/a"],"scopes_supported":["trips:read"],` +
		`"bearer_methods_supported":["header"],"resource_name":"Trips","resource_documentation":"https://docs.test/"}`
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		got := s.ask("GET", path)
		if got.status != 200 || got.body != want || got.header.Get("Content-Type") != "application/json" ||
			got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("Cache-Control") != "public, max-age=600" {
			t.Errorf("%s: got %+v", path, got)
		}
		if got := s.ask("HEAD", path); got.status != 200 || got.body != "" || got.header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s: got %+v", path, got)
		}
		got = s.ask("OPTIONS", path, "Origin", "https://app.test", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "mcp-protocol-version")
		if got.status != 204 || got.header.Get("Access-Control-Allow-Headers") != "*" || got.header.Get("Access-Control-Allow-Methods") == "" {
			t.Errorf("OPTIONS %s: got %+v", path, got)
		}
		if got := s.ask("POST", path); got.status != 405 || got.header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("POST %s: got %+v", path, got)
		}
	}
	for _, path := range []string{"/.well-known/oauth-protected-resourcex", "/.well-known/oauth-protected-resource/../../mcp", "/.well-known/oauth-protected-resource//mcp"} {
		if got := s.ask("GET", path); got.status == 200 && strings.Count(got.body, "|") == 5 {
			t.Errorf("%s is let through: %+v", path, got)
		}
	}
}

// TestAgentAuthUpstream wants the gateway's credentials to stay there, unless the
// configuration says otherwise, over tool calls too.
func TestAgentAuthUpstream(t *testing.T) {
	i := newIssuer(t)
	for rule, test := range map[string]struct {
		options       string
		authorization string // of the upstream's request; T is the token
		key           string
	}{
		"kept":   {"api_key {\n\t\t\tkey grace k1\n\t\t}", "", ""},
		"passed": {"pass_token\n\t\tapi_key {\n\t\t\tkey grace k1\n\t\t\tpass_through\n\t\t}", "Bearer T", "k1"},
	} {
		t.Run(rule, func(t *testing.T) {
			a := newAPI(t, nil)
			s := run(t, "", `
	agent_auth {
		issuer `+i.URL+`
		`+test.options+`
	}
	mcp TRIPS
	reverse_proxy `+strings.TrimPrefix(a.URL, "http://"))
			token := i.token(t, s.url+"/")
			for _, credential := range [][2]string{{"Authorization", "Bearer " + token}, {"X-API-Key", "k1"}} {
				r := s.callRequest("listTrips", "")
				r.Header.Set(credential[0], credential[1])
				if r := s.result(s.do(r)); r.IsError {
					t.Fatalf("got %+v", r)
				}
				called := a.last(t).Header.Get(credential[0])
				s.ask("GET", "/trips", credential[0], credential[1])
				asked := a.last(t).Header.Get(credential[0])
				want := test.key
				if credential[0] == "Authorization" {
					want = strings.ReplaceAll(test.authorization, "T", token)
				}
				if called != want || asked != want {
					t.Errorf("%s upstream is %q in a tool call and %q in a request, want %q", credential[0], called, asked, want)
				}
			}
		})
	}
}

// TestAgentAuthQueryKey wants a key of the query to be removed, and nothing else.
func TestAgentAuthQueryKey(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_KEY", "k 1")
	s := run(t, "", `
	agent_auth {
		api_key {
			query api_key
			key grace {env.FAIRWAY_TEST_KEY}
		}
	}
	respond "{http.auth.user.id} {query}"`)
	for path, want := range map[string]string{
		"/?a=1&api_key=k+1&b=%20&a=2":    "grace a=1&b=%20&a=2",
		"/?api_key=k%201":                "grace ",
		"/?%61pi_key=k+1&x":              "grace x",
		"/?api_key=k+1&api_key=k+1":      "",
		"/?api_key=k":                    "",
		"/":                              "",
		"/?API_KEY=k+1":                  "",
		"/?api_keys=x&api_key=k+1&api_k": "grace api_keys=x&api_k",
	} {
		got := s.ask("GET", path)
		if want == "" {
			if got.status == 200 || got.header.Get("WWW-Authenticate") != `ApiKey in="query", name="api_key"` {
				t.Errorf("%s: got %+v", path, got)
			}
			continue
		}
		if got.status != 200 || got.body != want {
			t.Errorf("%s: got %d %q, want %q", path, got.status, got.body, want)
		}
	}
}

// TestAgentAuthOptional lets unauthenticated requests pass without a user.
func TestAgentAuthOptional(t *testing.T) {
	i := newIssuer(t)
	s := run(t, "", "agent_auth {\n\tissuer "+i.URL+"\n\toptional\n}\n"+who)
	metadata := s.url + "/.well-known/oauth-protected-resource"
	if got := s.ask("GET", "/"); got.status != 200 || got.body != "|||"+metadata+"|[]|" {
		t.Errorf("without a token: %+v", got)
	}
	if got := s.ask("GET", "/", "Authorization", "Basic YTpi"); got.status != 200 || !strings.HasSuffix(got.body, "|Basic YTpi") {
		t.Errorf("with another scheme: %+v", got)
	}
	if got := s.ask("GET", "/", "Authorization", "Bearer abc"); got.status != 401 {
		t.Errorf("with a bad token: %+v", got)
	}
	if got := s.ask("GET", "/", "Authorization", "Bearer "+i.token(t, s.url)); got.status != 200 || !strings.HasPrefix(got.body, "ada|trips:read|") {
		t.Errorf("with a good token: %+v", got)
	}
}

// TestAgentAuthPreflight lets preflights pass, and no other OPTIONS.
func TestAgentAuthPreflight(t *testing.T) {
	s := run(t, "", "agent_auth {\n\tissuer https://auth.test\n}\n"+who)
	if got := s.ask("OPTIONS", "/", "Origin", "https://app.test", "Access-Control-Request-Method", "POST"); got.status != 200 {
		t.Errorf("a preflight: %+v", got)
	}
	if got := s.ask("OPTIONS", "/", "Origin", "https://app.test"); got.status != 401 {
		t.Errorf("no preflight: %+v", got)
	}
}

// TestAgentAuthIssuerDown wants 503 while keys are not known, and keys that are
// known to be kept over a reload.
func TestAgentAuthIssuerDown(t *testing.T) {
	i := newIssuer(t)
	i.down.Store(true)
	block := "agent_auth {\n\tissuer " + i.URL + "\n}\n" + who
	s := run(t, "", block)
	token := "Bearer " + i.token(t, s.url)
	got := s.ask("GET", "/", "Authorization", token)
	if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "keys") {
		t.Fatalf("got %+v", got)
	}
	s.logged("keys", "issuer", i.URL, "status 500")
	i.down.Store(false)
	eventually(t, "the keys", func() bool { return s.ask("GET", "/", "Authorization", token).status == 200 })

	i.down.Store(true)
	if err := s.load("", block+"\nheader X-Changed yes"); err != nil {
		t.Fatal(err)
	}
	if got := s.ask("GET", "/", "Authorization", token); got.status != 200 || got.header.Get("X-Changed") != "yes" {
		t.Errorf("after a reload: %+v", got)
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// TestAgentAuthTwoIssuers wants users of the same name to be two.
func TestAgentAuthTwoIssuers(t *testing.T) {
	a, b := newIssuer(t), newIssuer(t)
	s := run(t, "", "agent_auth {\n\tissuer "+a.URL+"\n\tissuer "+b.URL+"\n}\nrespond {http.auth.user.id}")
	for _, i := range []*issuer{a, b} {
		if got := s.ask("GET", "/", "Authorization", "Bearer "+i.token(t, s.url)); got.body != i.URL+"#ada" {
			t.Errorf("got %+v", got)
		}
		got := s.ask("GET", "/", "Authorization", "Bearer "+i.token(t, s.url, "sub", nil))
		if got.body != i.URL+"#inspector" {
			t.Errorf("without sub: %+v", got)
		}
	}
	if got := s.ask("GET", "/", "Authorization", "Bearer "+a.token(t, s.url, "iss", b.URL)); got.status != 401 {
		t.Errorf("one issuer signs for the other: %+v", got)
	}
}

// TestAuthenticationProviders uses both in Caddy's own handler.
func TestAuthenticationProviders(t *testing.T) {
	i := newIssuer(t)
	s := newSite(t)
	var config any
	if err := json.Unmarshal(s.config("", "agent_auth {\n\tissuer "+i.URL+"\n\tapi_key {\n\t\tkey grace k1\n\t}\n}\n"+who), &config); err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(withAuthentication(config))
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(plain, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	if got := s.ask("GET", "/", "Authorization", "Bearer "+i.token(t, s.url)); got.status != 200 || !strings.HasPrefix(got.body, "ada|trips:read|inspector|"+s.url) {
		t.Errorf("a token: %+v", got)
	}
	if got := s.ask("GET", "/", "X-API-Key", "k1"); got.status != 200 || !strings.HasPrefix(got.body, "grace|") {
		t.Errorf("a key: %+v", got)
	}
	if got := s.ask("GET", "/"); got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
		t.Errorf("nothing: %+v", got)
	}
}

// withAuthentication turns each agent_auth into the handler authentication.
func withAuthentication(config any) any {
	switch config := config.(type) {
	case []any:
		for i := range config {
			config[i] = withAuthentication(config[i])
		}
	case map[string]any:
		if config["handler"] == "agent_auth" {
			return map[string]any{"handler": "authentication", "providers": map[string]any{"oauth": config["oauth"], "api_key": config["api_key"]}}
		}
		for name := range config {
			config[name] = withAuthentication(config[name])
		}
	}
	return config
}

// TestAgentAuthHost refuses sites whose requests would say whom tokens are for.
func TestAgentAuthHost(t *testing.T) {
	const refused = "any host"
	for rule, test := range map[string]struct{ address, options, want string }{
		"any host":              {":PORT", "", refused},
		"any host/path":         {":PORT", "resource /mcp", refused},
		"any host/URL":          {":PORT", "resource https://api.test/mcp", ""},
		"any host/audience":     {":PORT", "audience https://api.test/mcp", ""},
		"one host":              {"http://api.test:PORT", "", ""},
		"several hosts":         {"http://api.test:PORT, http://b.test:PORT", "resource /mcp", ""},
		"wild host of a domain": {"http://*.api.test:PORT", "", ""},
		"wild host":             {"http://*:PORT", "", refused},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newSite(t)
			caddyfile := "{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n}\n" + test.address + " {\n\tagent_auth {\n\t\tissuer https://auth.test\n\t\t" + test.options + "\n\t}\n\trespond ok\n}"
			config, _, err := adapt(strings.ReplaceAll(caddyfile, "PORT", s.url[strings.LastIndexByte(s.url, ':')+1:]))
			if err != nil {
				t.Fatal(err)
			}
			var parsed *caddy.Config
			if err := json.Unmarshal([]byte(config), &parsed); err != nil {
				t.Fatal(err)
			}
			err = caddy.Validate(parsed)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !keyword.All(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestAPIKeySecrets wants errors to name a key and never to show one.
func TestAPIKeySecrets(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_EMPTY", "")
	for rule, test := range map[string]struct{ keys, want string }{
		"no such variable": {"key ada {env.FAIRWAY_TEST_NO_SUCH}", "ada placeholder secret"},
		"empty variable":   {"key ada {env.FAIRWAY_TEST_EMPTY}", `API key "ada"`},
		"same secret":      {"key ada open-sesame\n\t\t\tkey eve open-sesame", "eve same secret ada"},
		"same digest":      {"key ada open-sesame\n\t\t\tkey eve sha256:" + digest("open-sesame"), "eve same secret ada"},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newSite(t)
			err := s.load("", "agent_auth {\n\t\tapi_key {\n\t\t\t"+test.keys+"\n\t\t}\n\t}\n\trespond ok")
			if err == nil {
				_ = caddy.Stop()
				t.Fatal("no error")
			}
			if !keyword.All(err.Error(), test.want) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("got %q, want %q", err, test.want)
			}
		})
	}
}

// TestAgentAuthAdaptErrors wants every error to say what is wrong and where.
func TestAgentAuthAdaptErrors(t *testing.T) {
	inAuth := func(option string) string {
		return "http://a.test {\n\tagent_auth {\n\t\tissuer https://auth.test\n\t\t" + option + "\n\t}\n}"
	}
	inKeys := func(option string) string { return inAuth("api_key {\n\t\t\t" + option + "\n\t\t}") }
	for rule, test := range map[string]struct{ caddyfile, want, line string }{
		"nothing":               {"http://a.test {\n\tagent_auth\n}", "issuer api_key", ":2"},
		"no issuer":             {"http://a.test {\n\tagent_auth {\n\t\trequire_scope a\n\t}\n}", "require_scope issuer", ""},
		"argument":              {"http://a.test {\n\tagent_auth /mcp https://auth.test\n}", "matcher block", ":2"},
		"unknown":               {inAuth("frobnicate"), "unrecognized agent_auth frobnicate", ":4"},
		"unknown matcher":       {"http://a.test {\n\tagent_auth @ghost {\n\t}\n}", "@ghost", ":2"},
		"issuer/none":           {inAuth("issuer"), "wrong argument count", ":4"},
		"issuer/twice":          {inAuth("issuer https://auth.test"), "https://auth.test twice", ":4"},
		"issuer/plain http":     {inAuth("issuer http://login.test"), "plain http", ":4"},
		"jwks/twice":            {inAuth("jwks a\n\t\tjwks b"), "jwks twice", ":5"},
		"jwks/several issuers":  {inAuth("issuer https://b.test\n\t\tjwks a"), "jwks issuer", ""},
		"algorithms/none":       {inAuth("algorithms none"), "none", ":4"},
		"algorithms/HS256":      {inAuth("algorithms ES256 HS256"), "HS256", ":4"},
		"resource":              {inAuth("resource mcp"), "absolute", ":4"},
		"resource/wildcard":     {inAuth("resource /mcp*"), "wildcards", ":4"},
		"leeway":                {inAuth("leeway 1h"), "10 minutes", ":4"},
		"require_scope/quote":   {inAuth("require_scope `a\"b`"), "scope", ":4"},
		"exempt/relative":       {inAuth("exempt health"), "slash", ":4"},
		"optional/argument":     {inAuth("optional yes"), "wrong argument count", ":4"},
		"api_key/argument":      {inAuth("api_key ada x"), "block", ":4"},
		"api_key/empty":         {inAuth("api_key"), "key", ":4"},
		"api_key/twice":         {inAuth("api_key {\n\t\t\tkey a b\n\t\t}\n\t\tapi_key {\n\t\t}"), "api_key twice", ":7"},
		"api_key/unknown":       {inKeys("frobnicate"), "unrecognized api_key frobnicate", ":5"},
		"api_key/both":          {inKeys("key a b\n\t\t\theader X\n\t\t\tquery x"), "header query", ""},
		"api_key/Authorization": {inKeys("header authorization"), "authorization purposes", ":5"},
		"api_key/bad header":    {inKeys("header `X Key`"), "header", ":5"},
		"key/no secret":         {inKeys("key ada"), "name secret", ":5"},
		"key/twice":             {inKeys("key ada x\n\t\t\tkey ada y"), "key ada twice", ":6"},
		"key/bad digest":        {inKeys("key ada sha256:beef"), "64", ":5"},
		"key/number sign":       {inKeys("key a#b x"), "name", ":5"},
	} {
		t.Run(rule, func(t *testing.T) {
			_, _, err := adapt(test.caddyfile)
			if err == nil {
				t.Fatal("no error")
			}
			if !keyword.All(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}

// TestMetadataPathIsForReading: what is not a read of the metadata needs
// credentials at their path too.
func TestMetadataPathIsForReading(t *testing.T) {
	s := run(t, "", "agent_auth {\napi_key {\nkey ada secret-of-ada\n}\n}\n"+who)
	for method, status := range map[string]int{"GET": 200, "HEAD": 200, "POST": 401, "DELETE": 401} {
		if got := s.ask(method, "/.well-known/oauth-protected-resource/x"); got.status != status {
			t.Errorf("%s: status %d, want %d", method, got.status, status)
		}
	}
}
