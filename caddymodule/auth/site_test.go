package auth_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// who answers with what the handlers behind agent_auth know of a request.
const who = `respond "{http.auth.user.id}|{http.auth.user.scope}|{http.auth.user.client_id}|{http.vars.agents.resource_metadata}|{http.vars.agents.scopes}|{header.Authorization}"`

// TestAgentAuth_answers_credentials has the answers to good and bad credentials.
func TestAgentAuth_answers_credentials(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := sitetest.Run(t, "", `
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
	resource := s.URL + "/mcp"
	metadata := s.URL + "/.well-known/oauth-protected-resource/mcp"
	good := i.Token(t, resource)
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
			[]string{"Authorization", "Bearer " + i.Token(t, resource, "exp", 1)},
			401,
			`Bearer error="invalid_token", error_description="the token has expired; request a new one", scope="trips:read", resource_metadata="` + metadata + `"`,
			"expired",
		},
		"audience/other":  {"/mcp", []string{"Authorization", "Bearer " + i.Token(t, s.URL)}, 401, `error="invalid_token"`, "resource"},
		"opaque":          {"/mcp", []string{"Authorization", "Bearer abc"}, 401, `error="invalid_token"`, ""},
		"malformed":       {"/mcp", []string{"Authorization", "Bearer a b"}, 400, `error="invalid_request"`, ""},
		"twice":           {"/mcp", []string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}, 400, `error="invalid_request"`, "several"},
		"both kinds":      {"/mcp", []string{"Authorization", "Bearer " + good, "X-API-Key", "secret-of-grace"}, 400, `error="invalid_request"`, "both"},
		"scope":           {"/mcp", []string{"Authorization", "Bearer " + i.Token(t, resource, "scope", "x")}, 403, `error="insufficient_scope"`, "trips:read"},
		"in the query":    {"/mcp?access_token=" + i.Token(t, resource, "jti", "q"), nil, 401, `Bearer scope=`, ""},
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
			s := s.With(t)
			got := s.Ask("GET", test.path, test.header...)
			if got.Status != test.status || !testkit.ContainsAll(got.Body, test.body) {
				t.Fatalf("got %d %s", got.Status, got.Body)
			}
			challenge := got.Header.Get("WWW-Authenticate")
			if !strings.Contains(challenge, test.challenge) || (challenge != "") != (test.status != 200) {
				t.Errorf("got the challenge %s", challenge)
			}
			if test.status == 200 {
				return
			}
			if got.Header.Get("Content-Type") != "application/problem+json" || got.Header.Get("Cache-Control") != "no-store" || !json.Valid([]byte(got.Body)) {
				t.Errorf("not a problem: %v %s", got.Header, got.Body)
			}
			if test.path == "/mcp" && challenge == "" {
				t.Error("no challenge")
			}
		})
	}
	if log := s.Log(); strings.Contains(log, good) {
		t.Error("the log has a token")
	}
	for line := range strings.Lines(s.Log()) {
		if !strings.Contains(line, "http.log.access") && strings.Contains(line, "secret-of-") && strings.Contains(line, "agent_auth") {
			t.Errorf("the log has a key: %s", line)
		}
	}
}

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// TestAgentAuth_metadata reads the metadata as clients do.
func TestAgentAuth_metadata(t *testing.T) {
	s := sitetest.Run(t, "", `
	agent_auth {
		issuer https://auth.test https://other.test/a
		resource /mcp
		require_scope trips:read
		resource_name "Trips"
		resource_documentation https://docs.test/
	}
	`+who)
	want := `{"resource":"` + s.URL + `/mcp","authorization_servers":["https://auth.test","https://other.test/a"],"scopes_supported":["trips:read"],` +
		`"bearer_methods_supported":["header"],"resource_name":"Trips","resource_documentation":"https://docs.test/"}`
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		got := s.Ask("GET", path)
		if got.Status != 200 || got.Body != want {
			t.Errorf("%s: got %d %s\nwant 200 %s", path, got.Status, got.Body, want)
		}
		header := [...]string{got.Header.Get("Content-Type"), got.Header.Get("Access-Control-Allow-Origin"), got.Header.Get("Cache-Control")}
		if want := [...]string{"application/json", "*", "public, max-age=600"}; header != want {
			t.Errorf("%s: got the headers %q, want %q", path, header, want)
		}
		if got := s.Ask("HEAD", path); got.Status != 200 || got.Body != "" || got.Header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s: got %+v", path, got)
		}
		got = s.Ask("OPTIONS", path, "Origin", "https://app.test", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "mcp-protocol-version")
		if got.Status != 204 || got.Header.Get("Access-Control-Allow-Headers") != "*" || got.Header.Get("Access-Control-Allow-Methods") == "" {
			t.Errorf("OPTIONS %s: got %+v", path, got)
		}
		if got := s.Ask("POST", path); got.Status != 405 || got.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("POST %s: got %+v", path, got)
		}
	}
	for _, path := range []string{"/.well-known/oauth-protected-resourcex", "/.well-known/oauth-protected-resource/../../mcp", "/.well-known/oauth-protected-resource//mcp"} {
		if got := s.Ask("GET", path); got.Status == 200 && strings.Count(got.Body, "|") == 5 {
			t.Errorf("%s is let through: %+v", path, got)
		}
	}
}

// TestAgentAuth_upstream wants the gateway's credentials to stay there, unless the
// configuration says otherwise, over tool calls too.
func TestAgentAuth_upstream(t *testing.T) {
	i := sitetest.NewIssuer(t)
	for rule, test := range map[string]struct {
		options       string
		authorization string // of the upstream's request; T is the token
		key           string
	}{
		"kept":   {"api_key {\n\t\t\tkey grace k1\n\t\t}", "", ""},
		"passed": {"pass_token\n\t\tapi_key {\n\t\t\tkey grace k1\n\t\t\tpass_through\n\t\t}", "Bearer T", "k1"},
	} {
		t.Run(rule, func(t *testing.T) {
			a := sitetest.NewAPI(t, nil)
			s := sitetest.Run(t, "", `
	agent_auth {
		issuer `+i.URL+`
		`+test.options+`
	}
	mcp TRIPS
	reverse_proxy `+strings.TrimPrefix(a.URL, "http://"))
			token := i.Token(t, s.URL+"/")
			for _, credential := range [][2]string{{"Authorization", "Bearer " + token}, {"X-API-Key", "k1"}} {
				r := s.CallRequest("listTrips", "")
				r.Header.Set(credential[0], credential[1])
				if r := s.Result(s.Do(r)); r.IsError {
					t.Fatalf("got %+v", r)
				}
				called := a.Last(t).Header.Get(credential[0])
				s.Ask("GET", "/trips", credential[0], credential[1])
				asked := a.Last(t).Header.Get(credential[0])
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

// TestAgentAuth_query_key wants a key of the query to be removed, and nothing else.
func TestAgentAuth_query_key(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_KEY", "k 1")
	s := sitetest.Run(t, "", `
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
		got := s.Ask("GET", path)
		if want == "" {
			if got.Status == 200 || got.Header.Get("WWW-Authenticate") != `ApiKey in="query", name="api_key"` {
				t.Errorf("%s: got %+v", path, got)
			}
			continue
		}
		if got.Status != 200 || got.Body != want {
			t.Errorf("%s: got %d %q, want %q", path, got.Status, got.Body, want)
		}
	}
}

// TestAgentAuth_optional lets unauthenticated requests pass without a user.
func TestAgentAuth_optional(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := sitetest.Run(t, "", "agent_auth {\n\tissuer "+i.URL+"\n\toptional\n}\n"+who)
	metadata := s.URL + "/.well-known/oauth-protected-resource"
	if got := s.Ask("GET", "/"); got.Status != 200 || got.Body != "|||"+metadata+"|[]|" {
		t.Errorf("without a token: %+v", got)
	}
	if got := s.Ask("GET", "/", "Authorization", "Basic YTpi"); got.Status != 200 || !strings.HasSuffix(got.Body, "|Basic YTpi") {
		t.Errorf("with another scheme: %+v", got)
	}
	if got := s.Ask("GET", "/", "Authorization", "Bearer abc"); got.Status != 401 {
		t.Errorf("with a bad token: %+v", got)
	}
	if got := s.Ask("GET", "/", "Authorization", "Bearer "+i.Token(t, s.URL)); got.Status != 200 || !strings.HasPrefix(got.Body, "ada|trips:read|") {
		t.Errorf("with a good token: %+v", got)
	}
}

// TestAgentAuth_preflight lets preflights pass, and no other OPTIONS.
func TestAgentAuth_preflight(t *testing.T) {
	s := sitetest.Run(t, "", "agent_auth {\n\tissuer https://auth.test\n}\n"+who)
	if got := s.Ask("OPTIONS", "/", "Origin", "https://app.test", "Access-Control-Request-Method", "POST"); got.Status != 200 {
		t.Errorf("a preflight: %+v", got)
	}
	if got := s.Ask("OPTIONS", "/", "Origin", "https://app.test"); got.Status != 401 {
		t.Errorf("no preflight: %+v", got)
	}
}

// TestAgentAuth_issuer_down wants 503 while keys are not known, and keys that are
// known to be kept over a reload.
func TestAgentAuth_issuer_down(t *testing.T) {
	i := sitetest.NewIssuer(t)
	i.Down.Store(true)
	block := "agent_auth {\n\tissuer " + i.URL + "\n}\n" + who
	s := sitetest.Run(t, "", block)
	token := "Bearer " + i.Token(t, s.URL)
	got := s.Ask("GET", "/", "Authorization", token)
	if got.Status != 503 || got.Header.Get("Retry-After") == "" || !strings.Contains(got.Body, "keys") {
		t.Fatalf("got %+v", got)
	}
	s.Logged("keys", "issuer", i.URL, "status 500")
	i.Down.Store(false)
	sitetest.Eventually(t, "the keys", func() bool { return s.Ask("GET", "/", "Authorization", token).Status == 200 })

	i.Down.Store(true)
	if err := s.Load("", block+"\nheader X-Changed yes"); err != nil {
		t.Fatal(err)
	}
	if got := s.Ask("GET", "/", "Authorization", token); got.Status != 200 || got.Header.Get("X-Changed") != "yes" {
		t.Errorf("after a reload: %+v", got)
	}
	if n := i.Fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// TestAgentAuth_two_issuers wants users of the same name to be two.
func TestAgentAuth_two_issuers(t *testing.T) {
	a, b := sitetest.NewIssuer(t), sitetest.NewIssuer(t)
	s := sitetest.Run(t, "", "agent_auth {\n\tissuer "+a.URL+"\n\tissuer "+b.URL+"\n}\nrespond {http.auth.user.id}")
	for _, i := range []*sitetest.Issuer{a, b} {
		if got := s.Ask("GET", "/", "Authorization", "Bearer "+i.Token(t, s.URL)); got.Body != i.URL+"#ada" {
			t.Errorf("got %+v", got)
		}
		got := s.Ask("GET", "/", "Authorization", "Bearer "+i.Token(t, s.URL, "sub", nil))
		if got.Body != i.URL+"#inspector" {
			t.Errorf("without sub: %+v", got)
		}
	}
	if got := s.Ask("GET", "/", "Authorization", "Bearer "+a.Token(t, s.URL, "iss", b.URL)); got.Status != 401 {
		t.Errorf("one issuer signs for the other: %+v", got)
	}
}

// TestAuthenticationProviders uses both in Caddy's own handler.
func TestAuthenticationProviders(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := sitetest.NewSite(t)
	var config any
	if err := json.Unmarshal(s.Config("", "agent_auth {\n\tissuer "+i.URL+"\n\tapi_key {\n\t\tkey grace k1\n\t}\n}\n"+who), &config); err != nil {
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
	if got := s.Ask("GET", "/", "Authorization", "Bearer "+i.Token(t, s.URL)); got.Status != 200 || !strings.HasPrefix(got.Body, "ada|trips:read|inspector|"+s.URL) {
		t.Errorf("a token: %+v", got)
	}
	if got := s.Ask("GET", "/", "X-API-Key", "k1"); got.Status != 200 || !strings.HasPrefix(got.Body, "grace|") {
		t.Errorf("a key: %+v", got)
	}
	if got := s.Ask("GET", "/"); got.Status != 401 || got.Header.Get("WWW-Authenticate") == "" {
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

// TestAgentAuth_host refuses sites whose requests would say whom tokens are for.
func TestAgentAuth_host(t *testing.T) {
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
			s := sitetest.NewSite(t)
			caddyfile := "{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n}\n" + test.address + " {\n\tagent_auth {\n\t\tissuer https://auth.test\n\t\t" + test.options + "\n\t}\n\trespond ok\n}"
			config, _, err := sitetest.Adapt(strings.ReplaceAll(caddyfile, "PORT", s.URL[strings.LastIndexByte(s.URL, ':')+1:]))
			if err != nil {
				t.Fatal(err)
			}
			var parsed *caddy.Config
			if err := json.Unmarshal([]byte(config), &parsed); err != nil {
				t.Fatal(err)
			}
			err = caddy.Validate(parsed)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !testkit.ContainsAll(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestAPIKey_secrets wants errors to name a key and never to show one.
func TestAPIKey_secrets(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_EMPTY", "")
	for rule, test := range map[string]struct{ keys, want string }{
		"no such variable": {"key ada {env.FAIRWAY_TEST_NO_SUCH}", "ada placeholder secret"},
		"empty variable":   {"key ada {env.FAIRWAY_TEST_EMPTY}", `API key "ada"`},
		"shell variable":   {"key ada $ADA_KEY", "ada variable replaced"},
		"same secret":      {"key ada open-sesame\n\t\t\tkey eve open-sesame", "eve same secret ada"},
		"same digest":      {"key ada open-sesame\n\t\t\tkey eve sha256:" + digest("open-sesame"), "eve same secret ada"},
	} {
		t.Run(rule, func(t *testing.T) {
			s := sitetest.NewSite(t)
			err := s.Load("", "agent_auth {\n\t\tapi_key {\n\t\t\t"+test.keys+"\n\t\t}\n\t}\n\trespond ok")
			if err == nil {
				_ = caddy.Stop()
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("got %q, want %q", err, test.want)
			}
		})
	}
}

// TestAgentAuth_adapt_errors wants every error to say what is wrong and where.
func TestAgentAuth_adapt_errors(t *testing.T) {
	inAuth := func(option string) string {
		return "http://a.test {\n\tagent_auth {\n\t\tissuer https://auth.test\n\t\t" + option + "\n\t}\n}"
	}
	inKeys := func(option string) string { return inAuth("api_key {\n\t\t\t" + option + "\n\t\t}") }
	for rule, test := range map[string]struct{ caddyfile, want, line string }{
		"no issuer":             {"http://a.test {\n\tagent_auth {\n\t\tjwks a\n\t}\n}", "jwks issuer", ""},
		"argument":              {"http://a.test {\n\tagent_auth /mcp https://auth.test\n}", "matcher block", ":2"},
		"unknown":               {inAuth("frobnicate"), "unrecognized agent_auth frobnicate", ":4"},
		"scopes":                {inAuth("scopes a b"), "unrecognized scopes require_scope scopes_supported", ":4"},
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
			_, _, err := sitetest.Adapt(test.caddyfile)
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}

// TestMetadataPath_is_for_reading: what is not a read of the metadata needs
// credentials at their path too.
func TestMetadataPath_is_for_reading(t *testing.T) {
	s := sitetest.Run(t, "", "agent_auth {\napi_key {\nkey ada secret-of-ada\n}\n}\n"+who)
	for method, status := range map[string]int{"GET": 200, "HEAD": 200, "POST": 401, "DELETE": 401} {
		if got := s.Ask(method, "/.well-known/oauth-protected-resource/x"); got.Status != status {
			t.Errorf("%s: status %d, want %d", method, got.Status, status)
		}
	}
}

// TestAgentAuth_warnings checks the warnings about metadata that clients cannot reach, and about API keys that can be
// guessed.
func TestAgentAuth_warnings(t *testing.T) {
	const (
		issuer   = "agent_auth {\n\tissuer https://auth.test\n}\n"
		hidden   = "clients cannot read the metadata of agent_auth"
		guessed  = "API key is short"
		listable = "anyone can list the tools"
		key      = "agent_auth {\n\tapi_key {\n\t\tkey ada {env.FAIRWAY_TEST_KEY}\n\t}\n}\n"
	)
	t.Setenv("FAIRWAY_TEST_KEY", "short")
	resource := strings.Replace(issuer, "\n}", "\n\tresource /mcp\n}", 1)
	for name, test := range map[string]struct{ block, want string }{
		"agent_auth for a path":      {"agent_auth /mcp*" + strings.TrimPrefix(issuer, "agent_auth"), ""},
		"in handle":                  {"handle /mcp* {\n" + resource + "respond ok\n}", hidden},
		"in handle_path":             {"handle_path /mcp/* {\n" + resource + "respond ok\n}", hidden},
		"in a route of a matcher":    {"@mcp path /mcp /mcp/*\nroute @mcp {\n" + resource + "respond ok\n}", hidden},
		"in handle for the metadata": {"@mcp path /mcp* /.well-known/*\nhandle @mcp {\n" + resource + "respond ok\n}", ""},
		"in handle of everything":    {"handle {\n" + resource + "respond ok\n}", ""},
		"keys in handle":             {"handle /mcp* {\n" + key + "respond ok\n}", ""},
		"a short key":                {"agent_auth {\n\tapi_key {\n\t\tkey ada secret\n\t}\n}\nrespond ok", guessed},
		"a long key":                 {"agent_auth {\n\tapi_key {\n\t\tkey ada 0123456789abcdef\n\t}\n}\nrespond ok", ""},
		"after the endpoint":         {"route {\nmcp TRIPS\n" + key + "respond ok\n}", listable},
		"after it, in a block":       {"mcp TRIPS\nhandle {\n" + key + "respond ok\n}", listable},
		"after it, in a route":       {"mcp TRIPS\nroute {\n" + key + "respond ok\n}", listable},
		"after it, for another path": {"route {\nmcp TRIPS\nhandle /admin* {\n" + key + "respond ok\n}\nrespond ok\n}", ""},
		"on both sides":              {key + "route {\nmcp TRIPS\n" + key + "respond ok\n}", ""},
		"meant":                      {"route {\nmcp TRIPS {\nallow_anonymous\n}\n" + key + "respond ok\n}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Start("", "@x host 127.0.0.1\n"+test.block)
			log := s.Log()
			for _, text := range []string{hidden, guessed, listable} {
				if strings.Contains(log, text) != (text == test.want) {
					t.Errorf("%q is in the log: %t", text, text != test.want)
				}
			}
		})
	}
}
