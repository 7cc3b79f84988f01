package authserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/fairwayhq/fairway/internal/authserver"
)

// The tests in this file are named after holes that were found in other login fronts for MCP.

// FastMCP GHSA-c2jp-c369-7pvx, cloudflare/ai#51: the provider skips its consent page for the gateway's client, so a code went to the one who had registered
// a redirect address. Each login shows our own page.
func TestHole_confused_deputy(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	b.login(asked())
	response, body := b.get(s.URL + "/login/authorize?" + asked().Encode()) // after a first login too
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	if !strings.Contains(body, "127.0.0.1:7777") {
		t.Error("the page does not show where the code goes")
	}
	if !strings.Contains(body, "Fixed client") {
		t.Error("the page does not show who asks")
	}
	if policy := response.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the page can be shown in a frame: %s", policy)
	}
}

// The same: a page of another site cannot answer the consent page.
func TestHole_consent_by_another_site(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	id := b.authorize(asked())
	for _, header := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}}, {"Origin": {"null"}}, {}} {
		r, _ := http.NewRequest(http.MethodPost, s.URL+"/login/consent", strings.NewReader(url.Values{"login": {id}, "answer": {"allow"}}.Encode()))
		r.Header = header
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, _ := b.read(b.Do(r))
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%v: status %d", header, response.StatusCode)
		}
	}
}

// CVE-2026-27124, GHSA-rww4-4w9c-7733 (FastMCP): consent in the attacker's browser, login in the victim's.
func TestHole_callback_in_another_browser(t *testing.T) {
	s := newSite(t, nil)
	attacker, victim := s.browser(t), s.browser(t)
	address := attacker.consent(attacker.authorize(asked()), "allow")
	response, _ := victim.get(address)
	response, body := victim.get(response.Header.Get("Location"))
	if response.StatusCode != http.StatusBadRequest || response.Header.Get("Location") != "" {
		t.Errorf("status %d, location %q: %s", response.StatusCode, response.Header.Get("Location"), body)
	}
}

func TestHole_cookie_can_be_set_by_this_host_only(t *testing.T) {
	s := newSite(t, nil)
	response, _ := s.browser(t).get(s.URL + "/login/authorize?" + asked().Encode())
	cookie := response.Header.Get("Set-Cookie")
	for _, want := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Lax", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie lacks %s: %s", want, cookie)
		}
	}
}

// Obot 0.23.2, better-auth GHSA-p2fr-6hmx-4528: the audience came from the token request.
func TestHole_resource_of_the_token_request(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	code := b.login(asked("resource", s.URL+"/mcp")).Get("code")
	if _, answer := b.redeem(code, "resource", s.URL+"/admin"); answer["error"] != "invalid_target" {
		t.Errorf("another resource with the code: %v", answer)
	}
	_, tokens := b.redeem(b.login(asked("resource", s.URL+"/mcp")).Get("code"), "resource", s.URL+"/mcp")
	if _, answer := b.refresh(tokens["refresh_token"], "resource", s.URL+"/admin"); answer["error"] != "invalid_target" {
		t.Errorf("another resource with the refresh token: %v", answer)
	}
	_, renewed := b.refresh(tokens["refresh_token"])
	if claims := b.claims(renewed["access_token"]); claims["aud"] != s.URL+"/mcp" {
		t.Errorf("aud %v", claims["aud"])
	}
}

// fastapi_mcp#327, obsidian-web-mcp#3: registration gave clients the credentials of the gateway.
func TestHole_registration_reveals_the_gateway(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	response, body := b.read(b.Post(s.URL+"/login/register", "application/json", strings.NewReader(`{"redirect_uris":["https://a.example/"],"token_endpoint_auth_method":"client_secret_post"}`)))
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("status %d", response.StatusCode)
	}
	if strings.Contains(body, "secret-of-the-gateway") || strings.Contains(body, `"gateway"`) {
		t.Errorf("the registration has the gateway's credentials: %s", body)
	}
}

// activepieces#15016: endless registrations, secrets that never expire, an issuer that follows the request.
func TestHole_registrations_expire(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	r, _ := http.NewRequest(http.MethodPost, s.URL+"/login/register", strings.NewReader(`{"redirect_uris":["https://a.example/"],"token_endpoint_auth_method":"client_secret_post"}`))
	r.Header.Set("X-Forwarded-Proto", "http")
	r.Header.Set("X-Forwarded-Host", "evil.example")
	_, body := b.read(b.Do(r))
	var client struct {
		Expires int64 `json:"client_secret_expires_at"`
	}
	if err := json.Unmarshal([]byte(body), &client); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(time.Unix(client.Expires, 0)); left < time.Hour || left > 366*24*time.Hour {
		t.Errorf("the secret expires in %s", left)
	}
	if len(s.ledger.records) != 0 {
		t.Errorf("the registration takes room: %s", s.ledger.text())
	}
	r, _ = http.NewRequest(http.MethodGet, s.URL+"/.well-known/oauth-authorization-server", nil)
	r.Host = "evil.example"
	r.Header.Set("X-Forwarded-Host", "evil.example")
	if _, body := b.read(b.Do(r)); strings.Contains(body, "evil.example") {
		t.Errorf("the metadata follow the request: %s", body)
	}
}

// ToolHive 0.40, Obot 0.23.2: metadata documents made the gateway send requests into its own network.
func TestHole_documents_of_private_addresses(t *testing.T) {
	var requests int
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	t.Cleanup(inside.Close)
	s := newSite(t, nil) // with the transport of production
	b := s.browser(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(inside.URL, "https://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1"} {
		response, body := b.get(s.URL + "/login/authorize?" + asked("client_id", "https://"+host+":"+port+"/client.json").Encode())
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d %s", host, response.StatusCode, body)
		}
	}
	if requests > 0 {
		t.Errorf("%d requests reached a private address", requests)
	}
}

// agentgateway: anyone got tokens of the gateway itself through a token endpoint that only passed requests on.
func TestHole_tokens_of_the_gateway(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	for _, form := range []url.Values{
		{"grant_type": {"client_credentials"}, "client_id": {"fixed"}},
		{"grant_type": {"client_credentials"}, "client_id": {"gateway"}},
		{"grant_type": {"password"}, "client_id": {"fixed"}, "username": {"ann"}, "password": {"x"}},
		{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {"fixed"}},
		{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {"fixed"}},
		{"client_id": {"fixed"}},
		{},
	} {
		if status, answer := b.post("token", form); status == http.StatusOK || answer["access_token"] != nil {
			t.Errorf("%v: %d %v", form, status, answer)
		}
	}
	if s.idp.requests > 0 {
		t.Errorf("%d requests reached the provider", s.idp.requests)
	}
}

// cloudflare/agents#1666: parallel logins shared one PKCE verifier.
func TestHole_parallel_logins(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	first, second := b.authorize(asked("state", "1")), b.authorize(asked("state", "2"))
	toFirst, toSecond := b.consent(first, "allow"), b.consent(second, "allow")
	a, _ := url.Parse(toFirst)
	c, _ := url.Parse(toSecond)
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if a.Query().Get(name) == c.Query().Get(name) {
			t.Errorf("two logins share %s", name)
		}
	}
	if back := b.follow(toSecond); back.Get("state") != "2" || back.Get("code") == "" {
		t.Errorf("the second login: %v", back)
	}
	if back := b.follow(toFirst); back.Get("state") != "1" || back.Get("code") == "" {
		t.Errorf("the first login: %v", back)
	}
}

// gestalt#1626: codes and refresh tokens worked twice.
func TestHole_replay_of_a_code(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	code := b.login(asked()).Get("code")
	_, tokens := b.redeem(code)
	if _, answer := b.redeem(code); answer["error"] != "invalid_grant" {
		t.Errorf("the code works twice: %v", answer)
	}
	if _, answer := b.refresh(tokens["refresh_token"]); answer["error"] != "invalid_grant" {
		t.Errorf("the session goes on after its code was used twice: %v", answer)
	}
}

func TestHole_replay_of_a_refresh_token(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	_, first := b.redeem(b.login(asked()).Get("code"))
	_, second := b.refresh(first["refresh_token"])
	_, third := b.refresh(second["refresh_token"])
	if _, answer := b.refresh(first["refresh_token"]); answer["error"] != "invalid_grant" {
		t.Errorf("a replaced refresh token works: %v", answer)
	}
	if _, answer := b.refresh(third["refresh_token"]); answer["error"] != "invalid_grant" {
		t.Errorf("the family goes on after a replay: %v", answer)
	}
	if len(s.reported) == 0 {
		t.Error("the operator did not learn of it")
	}
}

// Parallel refreshes with one token, and a repeated one, have the same refresh token, so that no client loses its session.
func TestRefresh_is_repeated(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	_, tokens := b.redeem(b.login(asked()).Get("code"))
	answers := make([]map[string]any, 8)
	var done sync.WaitGroup
	for i := range answers {
		done.Go(func() { _, answers[i] = b.refresh(tokens["refresh_token"]) })
	}
	done.Wait()
	for i, answer := range answers {
		if answer["refresh_token"] == nil || answer["refresh_token"] != answers[0]["refresh_token"] {
			t.Errorf("refresh %d: %v, want the refresh token of the first", i, answer)
		}
	}
	if status, answer := b.refresh(answers[0]["refresh_token"]); status != http.StatusOK {
		t.Errorf("the next refresh: %d %v", status, answer)
	}
}

// The same: a sealed value of one kind was accepted as another.
func TestHole_values_of_another_kind(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	_, body := b.read(b.Post(s.URL+"/login/register", "application/json", strings.NewReader(`{"redirect_uris":["http://127.0.0.1/cb"]}`)))
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(body), &client); err != nil {
		t.Fatal(err)
	}
	id := b.authorize(asked())
	site, _ := url.Parse(s.URL)
	consent := b.Jar.Cookies(site)[0]
	if _, answer := b.refresh(client.ID); answer["error"] != "invalid_grant" {
		t.Errorf("a client ID as refresh token: %v", answer)
	}
	if _, answer := b.redeem(client.ID); answer["error"] != "invalid_grant" {
		t.Errorf("a client ID as code: %v", answer)
	}
	if response, _ := b.get(s.URL + "/login/authorize?" + asked("client_id", consent.Value).Encode()); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a cookie as client ID: %d", response.StatusCode)
	}
	// The cookie of the consent page in place of the one of the login at the provider.
	if response, _ := b.get(s.URL + "/login/callback?code=x&state=" + id); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a callback before the consent: %d", response.StatusCode)
	}
	// The cookie of one login under the name of another.
	other := b.authorize(asked())
	b.Jar.SetCookies(site, []*http.Cookie{{Name: "__Host-fairway-login-" + other, Value: consent.Value, Path: "/", Secure: true}})
	r, _ := http.NewRequest(http.MethodPost, s.URL+"/login/consent", strings.NewReader(url.Values{"login": {other}, "answer": {"allow"}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if response, _ := b.read(b.Do(r)); response.StatusCode != http.StatusBadRequest {
		t.Errorf("the cookie of another login: %d", response.StatusCode)
	}
}

func TestHole_values_of_another_client(t *testing.T) {
	s := newSite(t, func(o *authserver.Options) {
		o.Clients = append(o.Clients, authserver.Client{ID: "other", RedirectURIs: []string{"https://other.example/cb"}})
	})
	b := s.browser(t)
	if _, answer := b.redeem(b.login(asked()).Get("code"), "client_id", "other"); answer["error"] != "invalid_grant" {
		t.Errorf("the code of another client: %v", answer)
	}
	_, tokens := b.redeem(b.login(asked()).Get("code"))
	if _, answer := b.refresh(tokens["refresh_token"], "client_id", "other"); answer["error"] != "invalid_grant" {
		t.Errorf("the refresh token of another client: %v", answer)
	}
	if status, answer := b.refresh(tokens["refresh_token"]); status != http.StatusOK {
		t.Errorf("another client has ended the session: %v", answer)
	}
}

func TestHole_wrong_verifier(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	for _, verifier := range []string{"", "short", strings.Repeat("a", 43), strings.Repeat("a", 500)} {
		if _, answer := b.redeem(b.login(asked()).Get("code"), "code_verifier", verifier); answer["error"] != "invalid_grant" {
			t.Errorf("verifier %.10q: %v", verifier, answer)
		}
	}
	if _, answer := b.redeem(b.login(asked()).Get("code"), "redirect_uri", callback+"x"); answer["error"] != "invalid_grant" {
		t.Errorf("another redirect_uri: %v", answer)
	}
}

// ContextForge GHSA-vgf8-3685-66j9: a token of one environment worked in another.
func TestHole_tokens_of_another_environment(t *testing.T) {
	staging, production := newSite(t, nil), newSite(t, nil) // with the same secret, by mistake
	b := staging.browser(t)
	_, tokens := b.redeem(b.login(asked()).Get("code"))
	claims := b.claims(tokens["access_token"])
	if claims["iss"] == production.URL || claims["aud"] == production.URL {
		t.Errorf("the token is not bound to its environment: %v", claims)
	}
	if _, answer := production.browser(t).refresh(tokens["refresh_token"]); answer["error"] != "invalid_grant" {
		t.Errorf("the refresh token works in the other environment: %v", answer)
	}
}

// No credential of the provider is in the store in plain text, in a page, or in what the operator gets.
func TestHole_secrets_in_the_store(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	code := b.login(asked()).Get("code")
	pending := s.ledger.text()
	_, tokens := b.redeem(code)
	answer, _ := json.Marshal(tokens)
	b.refresh(tokens["refresh_token"])
	b.refresh(tokens["refresh_token"])
	texts := map[string]string{"the store before": pending, "the store": s.ledger.text(), "the response": string(answer), "reports": fmt.Sprint(s.reported)}
	for place, text := range texts {
		for _, secret := range []string{"access-of-the-provider", "refresh-of-the-provider", "secret-of-the-gateway", "ann@example.com", idpCode, "a secret of the tests", code} {
			if strings.Contains(text, secret) {
				t.Errorf("%s contains %s", place, secret)
			}
		}
	}
}

// documentSite returns a gateway that reads metadata documents from a server on loopback, whose document the test may change.
func documentSite(t *testing.T) (s *site, id string, document map[string]any) {
	t.Helper()
	document = map[string]any{"client_name": "Document client", "redirect_uris": []string{callback}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/client.json":
			w.Header().Set("Cache-Control", "no-store")
			_ = json.NewEncoder(w).Encode(document)
		case "/moved.json":
			http.Redirect(w, r, "/client.json", http.StatusFound)
		case "/large.json":
			_, _ = w.Write([]byte(strings.Repeat(" ", 6<<10) + "{}"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	id = server.URL + "/client.json"
	document["client_id"] = id
	return newSite(t, func(o *authserver.Options) { o.Transport = server.Client().Transport }), id, document
}

func TestDocument_describes_a_client(t *testing.T) {
	s, id, _ := documentSite(t)
	b := s.browser(t)
	_, body := b.get(s.URL + "/login/authorize?" + asked("client_id", id).Encode())
	if !strings.Contains(body, "published by 127.0.0.1 (verified)") {
		t.Errorf("the page does not show the verified domain: %s", body)
	}
	back := b.login(asked("client_id", id))
	if status, tokens := b.redeem(back.Get("code"), "client_id", id); status != http.StatusOK {
		t.Errorf("status %d: %v", status, tokens)
	}
}

func TestDocument_is_checked(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"another ID":       func(d map[string]any) { d["client_id"] = d["client_id"].(string) + "?" },
		"no ID":            func(d map[string]any) { delete(d, "client_id") },
		"no redirects":     func(d map[string]any) { delete(d, "redirect_uris") },
		"another redirect": func(d map[string]any) { d["redirect_uris"] = []string{"https://a.example/"} },
		"a secret":         func(d map[string]any) { d["client_secret"] = "x" },
		"a secret's use":   func(d map[string]any) { d["token_endpoint_auth_method"] = "client_secret_basic" },
		"no keys":          func(d map[string]any) { d["token_endpoint_auth_method"] = "private_key_jwt" },
		"a dangerous link": func(d map[string]any) { d["redirect_uris"] = []string{callback, "javascript:x"} },
		"a wrong type":     func(d map[string]any) { d["redirect_uris"] = callback },
		"a long name":      func(d map[string]any) { d["client_name"] = strings.Repeat("x", 300) },
	} {
		s, id, document := documentSite(t)
		change(document)
		if response, body := s.browser(t).get(s.URL + "/login/authorize?" + asked("client_id", id).Encode()); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
	}
	s, id, _ := documentSite(t)
	base := strings.TrimSuffix(id, "/client.json")
	for _, id := range []string{base + "/moved.json", base + "/large.json", base + "/missing.json", base, base + "/", base + "/a/../client.json", id + "#f", "http" + strings.TrimPrefix(id, "https")} {
		if response, body := s.browser(t).get(s.URL + "/login/authorize?" + asked("client_id", id).Encode()); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", id, response.StatusCode, body)
		}
	}
}

// assertion returns a client's assertion with changed claims.
func assertion(key *ecdsa.PrivateKey, claims map[string]any, changes map[string]any) string {
	maps.Copy(claims, changes)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		panic(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}

func TestMachine_gets_tokens_for_itself(t *testing.T) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s := newSite(t, func(o *authserver.Options) {
		o.Clients = append(o.Clients,
			authserver.Client{ID: "cron", Secret: "secret of cron", Machine: true, Scopes: []string{"read"}},
			authserver.Client{ID: "bot", Keys: &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}}, Machine: true},
		)
	})
	b := s.browser(t)
	status, tokens := b.post("token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"cron"}, "client_secret": {"secret of cron"}, "resource": {s.URL + "/mcp"}})
	if status != http.StatusOK {
		t.Fatalf("status %d: %v", status, tokens)
	}
	if claims := b.claims(tokens["access_token"]); claims["sub"] != "cron" || claims["aud"] != s.URL+"/mcp" || claims["scope"] != "read" {
		t.Errorf("claims %v", claims)
	}
	if tokens["refresh_token"] != nil {
		t.Error("a machine got a refresh token")
	}
	byKey := func(changes map[string]any) (int, map[string]any) {
		claims := map[string]any{"iss": "bot", "sub": "bot", "aud": s.URL, "exp": time.Now().Add(time.Minute).Unix(), "jti": fmt.Sprint(time.Now().UnixNano())}
		return b.post("token", url.Values{
			"grant_type": {"client_credentials"}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion(key, claims, changes)},
		})
	}
	if status, answer := byKey(nil); status != http.StatusOK {
		t.Errorf("with a key: %d %v", status, answer)
	}
	if status, answer := byKey(map[string]any{"aud": s.URL + "/login/token", "jti": "once"}); status != http.StatusOK {
		t.Errorf("with the token endpoint as audience: %d %v", status, answer)
	}
	for name, changes := range map[string]map[string]any{
		"used before": {"jti": "once"}, "another audience": {"aud": "https://other.example"}, "expired": {"exp": time.Now().Add(-time.Hour).Unix()}, "long": {"exp": time.Now().Add(time.Hour).Unix()},
		"no jti": {"jti": ""}, "another issuer": {"iss": "cron"}, "another subject": {"sub": "cron"}, "another client": {"iss": "cron", "sub": "cron"},
	} {
		if status, answer := byKey(changes); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
}

func TestIdentityAssertion_is_a_grant(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	grant := func(kind string, changes map[string]any) (int, map[string]any) {
		claims := map[string]any{
			"iss": s.idp.URL, "sub": "ann", "aud": s.URL, "client_id": "fixed", "resource": s.URL + "/mcp", "scope": "read admin", "jti": fmt.Sprint(time.Now().UnixNano()),
			"iat": time.Now().Unix(), "exp": time.Now().Add(5 * time.Minute).Unix(),
		}
		maps.Copy(claims, changes)
		return b.post("token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "client_id": {"fixed"}, "assertion": {s.idp.sign(kind, claims)}})
	}
	status, tokens := grant("oauth-id-jag+jwt", map[string]any{"jti": "once"})
	if status != http.StatusOK {
		t.Fatalf("status %d: %v", status, tokens)
	}
	if claims := b.claims(tokens["access_token"]); claims["sub"] != "ann" || claims["aud"] != s.URL+"/mcp" || claims["scope"] != "read" {
		t.Errorf("claims %v", claims)
	}
	if tokens["refresh_token"] != nil {
		t.Error("the grant gave a refresh token")
	}
	for name, changes := range map[string]map[string]any{
		"used before": {"jti": "once"}, "no jti": {"jti": ""}, "another audience": {"aud": "https://other.example"}, "two audiences": {"aud": []string{s.URL, "https://other.example"}},
		"another client": {"client_id": "other"}, "a foreign resource": {"resource": "https://other.example/mcp"}, "no resource": {"resource": ""},
		"expired": {"exp": time.Now().Add(-time.Hour).Unix()}, "no expiry": {"exp": nil}, "a long one": {"exp": time.Now().Add(24 * time.Hour).Unix()}, "another issuer": {"iss": "https://other.example"}, "no subject": {"sub": ""},
	} {
		if status, answer := grant("oauth-id-jag+jwt", changes); answer["error"] != "invalid_grant" {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	if status, answer := grant("JWT", nil); answer["error"] != "invalid_grant" {
		t.Errorf("an ID token in place of the assertion: %d %v", status, answer)
	}
	stranger := newIDP(t)
	s.idp.key = stranger.key // published keys are cached, so this key is unknown until they are fetched again
	s.idp.Close()
	if status, answer := grant("oauth-id-jag+jwt", nil); status == http.StatusOK {
		t.Errorf("an unknown key: %d %v", status, answer)
	}
}
