package authserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/authserver"
	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestLogin_gives_a_token_for_one_resource(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	back := b.login(asked("resource", s.URL+"/mcp"))
	if back.Get("iss") != s.URL {
		t.Errorf("iss %q, want %s", back.Get("iss"), s.URL)
	}
	if back.Get("state") != "state-of-the-client" {
		t.Errorf("state %q", back.Get("state"))
	}
	status, tokens := b.redeem(back.Get("code"))
	if status != http.StatusOK {
		t.Fatalf("status %d: %v", status, tokens)
	}
	if tokens["scope"] != "read" {
		t.Errorf("scope %q, want only what ann may have", tokens["scope"])
	}
	claims := b.claims(tokens["access_token"])
	for name, want := range map[string]any{
		"iss": s.URL, "aud": s.URL + "/mcp", "sub": "ann", "client_id": "fixed", "scope": "read", "email": "ann@example.com", "email_verified": true, "name": "Ann",
	} {
		if claims[name] != want {
			t.Errorf("%s is %v, want %v", name, claims[name], want)
		}
	}
	if groups, _ := json.Marshal(claims["groups"]); string(groups) != `["engineering"]` {
		t.Errorf("groups %s", groups)
	}
}

// The parameter resource never reaches the provider: Entra ID refuses resources that it does not know.
func TestLogin_sends_the_provider_no_resource(t *testing.T) {
	s := newSite(t, nil)
	s.browser(t).login(asked("resource", s.URL+"/mcp"))
	if s.idp.params.Has("resource") {
		t.Errorf("the provider got %v", s.idp.params)
	}
	if s.idp.params.Get("code_challenge_method") != "S256" {
		t.Errorf("the provider got no PKCE challenge: %v", s.idp.params)
	}
}

func TestRefresh_rotates_and_asks_the_provider(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	_, first := b.redeem(b.login(asked()).Get("code"))
	before := s.idp.requests
	status, second := b.refresh(first["refresh_token"])
	if status != http.StatusOK {
		t.Fatalf("status %d: %v", status, second)
	}
	if s.idp.requests != before+1 {
		t.Errorf("the provider got %d requests, want 1", s.idp.requests-before)
	}
	if first["refresh_token"] == second["refresh_token"] {
		t.Error("the refresh token did not change")
	}
	s.idp.claims["groups"] = []string{"admins"}
	_, third := b.refresh(second["refresh_token"])
	if third["scope"] != "read admin" {
		t.Errorf("after ann became an administrator, scope is %q", third["scope"])
	}
}

func TestRefresh_ends_with_the_login_at_the_provider(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	_, tokens := b.redeem(b.login(asked()).Get("code"))
	s.idp.down = true
	if status, answer := b.refresh(tokens["refresh_token"]); status != http.StatusServiceUnavailable {
		t.Errorf("while the provider is down: %d %v", status, answer)
	}
	s.idp.down = false
	status, tokens := b.refresh(tokens["refresh_token"])
	if status != http.StatusOK {
		t.Fatalf("after an outage of the provider: %d %v", status, tokens)
	}
	s.idp.refused = true
	if _, answer := b.refresh(tokens["refresh_token"]); answer["error"] != "invalid_grant" {
		t.Errorf("after the provider has ended the login: %v", answer)
	}
	s.idp.refused = false
	if _, answer := b.refresh(tokens["refresh_token"]); answer["error"] != "invalid_grant" {
		t.Errorf("an ended session goes on: %v", answer)
	}
}

func TestRevoke_ends_the_session(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	_, tokens := b.redeem(b.login(asked()).Get("code"))
	if status, answer := b.post("revoke", map[string][]string{"client_id": {"fixed"}, "token": {tokens["refresh_token"].(string)}}); status != http.StatusOK {
		t.Errorf("revoke: %d %v", status, answer)
	}
	if _, answer := b.refresh(tokens["refresh_token"]); answer["error"] != "invalid_grant" {
		t.Errorf("after revocation: %v", answer)
	}
	if status, _ := b.post("revoke", map[string][]string{"client_id": {"fixed"}, "token": {"unknown"}}); status != http.StatusOK {
		t.Errorf("revoke of an unknown token: %d", status)
	}
}

func TestRegister_makes_a_client(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	register := func(body string) (int, map[string]any) {
		response, text := b.read(b.Post(s.URL+"/login/register", "application/json", strings.NewReader(body)))
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%d %s", response.StatusCode, text)
		}
		return response.StatusCode, object
	}
	status, client := register(`{"client_name":"Tool","redirect_uris":["http://localhost:1234/cb"],"application_type":"native","token_endpoint_auth_method":"none"}`)
	if status != http.StatusCreated {
		t.Fatalf("status %d: %v", status, client)
	}
	id := client["client_id"].(string)
	back := b.login(asked("client_id", id, "redirect_uri", "http://localhost:4321/cb")) // a native application listens on any port
	if status, tokens := b.redeem(back.Get("code"), "client_id", id, "redirect_uri", "http://localhost:4321/cb"); status != http.StatusOK {
		t.Errorf("status %d: %v", status, tokens)
	}
	if len(s.ledger.records) != 3 {
		t.Errorf("registration is stateless, but there are %d records", len(s.ledger.records))
	}

	status, client = register(`{"client_name":"Web","redirect_uris":["https://web.example/cb"],"token_endpoint_auth_method":"client_secret_basic"}`)
	secret, _ := client["client_secret"].(string)
	if status != http.StatusCreated || secret == "" {
		t.Fatalf("status %d: %v", status, client)
	}
	id = client["client_id"].(string)
	redeem := func(secret string) (int, map[string]any) {
		code := b.login(asked("client_id", id, "redirect_uri", "https://web.example/cb")).Get("code")
		return b.redeem(code, "client_id", id, "redirect_uri", "https://web.example/cb", "client_secret", secret)
	}
	if status, _ := redeem("wrong"); status != http.StatusUnauthorized {
		t.Errorf("with a wrong secret: %d", status)
	}
	if status, tokens := redeem(secret); status != http.StatusOK {
		t.Errorf("with the secret: %d %v", status, tokens)
	}

	for _, redirect := range []string{"javascript:alert(1)", "http://web.example/cb", "data:text/html,x", "https://u@web.example/cb", "https://web.example/cb#f", "file:///etc/passwd", "//web.example", "https://web.example/\\x"} {
		body, _ := json.Marshal(map[string]any{"redirect_uris": []string{redirect}})
		if status, answer := register(string(body)); status != http.StatusBadRequest || answer["error"] != "invalid_redirect_uri" {
			t.Errorf("redirect address %s: %d %v", redirect, status, answer)
		}
	}
	for _, body := range []string{``, `[]`, `{"redirect_uris":1}`, `{"redirect_uris":["https://a.example/"],"token_endpoint_auth_method":"tls"}`, `{"x":"` + strings.Repeat("a", 1<<20) + `"}`} {
		if status, answer := register(body); status != http.StatusBadRequest || answer["error"] != "invalid_client_metadata" {
			t.Errorf("body %.20s: %d %v", body, status, answer)
		}
	}
	status, answer := register(`{"redirect_uris":["http://localhost/cb"],"application_type":"web"}`)
	if message, _ := answer["error_description"].(string); status != http.StatusBadRequest || !testkit.ContainsAll(message, "web native") {
		t.Errorf("a web application on the user's device: %d %v", status, answer)
	}
}

// A request whose parameters are not a form differs from one without parameters.
func TestToken_needs_a_form(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	for _, endpoint := range []string{"token", "revoke"} {
		for _, kind := range []string{"application/json", "multipart/form-data; boundary=x", ""} {
			r, _ := http.NewRequest(http.MethodPost, s.URL+"/login/"+endpoint, strings.NewReader(`{"client_id":"fixed"}`))
			r.Header.Set("Content-Type", kind)
			response, body := b.read(b.Do(r))
			if response.StatusCode != http.StatusBadRequest || !testkit.ContainsAll(body, "invalid_request application/x-www-form-urlencoded") {
				t.Errorf("%s, %q: %d %s", endpoint, kind, response.StatusCode, body)
			}
		}
		r, _ := http.NewRequest(http.MethodPost, s.URL+"/login/"+endpoint, strings.NewReader("client_id=fixed&token=x&grant_type=other"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
		if _, body := b.read(b.Do(r)); strings.Contains(body, "Content-Type") {
			t.Errorf("%s, a form: %s", endpoint, body)
		}
	}
}

func TestRegister_has_a_rate(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	for range 20 {
		response, body := b.read(b.Post(s.URL+"/login/register", "application/json", strings.NewReader(`{"redirect_uris":["https://a.example/"]}`)))
		if response.StatusCode != http.StatusCreated {
			t.Fatalf("status %d: %s", response.StatusCode, body)
		}
	}
	response, _ := b.read(b.Post(s.URL+"/login/register", "application/json", strings.NewReader(`{"redirect_uris":["https://a.example/"]}`)))
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d after 20 registrations", response.StatusCode)
	}
}

func TestMetadata_are_where_clients_look(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/mcp"} {
		response, body := b.get(s.URL + path)
		var m struct {
			Issuer  string
			Methods []string `json:"code_challenge_methods_supported"`
			Iss     bool     `json:"authorization_response_iss_parameter_supported"`
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatalf("%s: %d %s", path, response.StatusCode, body)
		}
		if m.Issuer != s.URL || len(m.Methods) != 1 || !m.Iss {
			t.Errorf("%s: %+v", path, m)
		}
		if response.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: web pages cannot read it", path)
		}
	}
	if response, _ := b.get(s.URL + "/login/unknown"); response.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown address: %d", response.StatusCode)
	}
	if response, _ := b.get(s.URL + "/login/token"); response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of the token endpoint: %d", response.StatusCode)
	}
}

func TestMetadata_of_an_issuer_with_a_path(t *testing.T) {
	s := newSite(t, nil)
	front, err := authserver.New(authserver.Options{
		Issuer: "https://tools.example.com/tenant", Secrets: []string{"a secret of the tests"}, Provider: &authserver.OIDC{Issuer: s.idp.URL}, Ledger: s.ledger,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.front = front
	b := s.browser(t)
	for _, path := range []string{"/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant", "/tenant/.well-known/openid-configuration"} {
		response, body := b.get(s.URL + path)
		if !strings.Contains(body, `"issuer":"https://tools.example.com/tenant"`) {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
		if !strings.Contains(body, `"token_endpoint":"https://tools.example.com/tenant/login/token"`) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

func TestAuthorize_refuses(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	pages := []struct {
		name    string
		changes []string
	}{
		{"an unknown client", []string{"client_id", "other"}},
		{"a redirect address that differs by one byte", []string{"redirect_uri", callback + "/"}},
		{"another path", []string{"redirect_uri", "http://127.0.0.1:7777/callback2"}},
		{"another host", []string{"redirect_uri", "http://127.0.0.1.evil.example:7777/callback"}},
		{"credentials in the address", []string{"redirect_uri", "http://127.0.0.1@evil.example/callback"}},
		{"upper case", []string{"redirect_uri", "http://127.0.0.1:7777/Callback"}},
	}
	for _, test := range pages {
		response, _ := b.get(s.URL + "/login/authorize?" + asked(test.changes...).Encode())
		if response.StatusCode != http.StatusBadRequest || response.Header.Get("Location") != "" {
			t.Errorf("%s: status %d, location %q; want a page", test.name, response.StatusCode, response.Header.Get("Location"))
		}
	}
	if response, _ := b.get(s.URL + "/login/authorize?" + asked().Encode() + "&client_id=fixed"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a parameter twice: %d", response.StatusCode)
	}
	redirects := []struct {
		name, want string
		changes    []string
	}{
		{"no PKCE", "invalid_request", []string{"code_challenge", ""}},
		{"plain PKCE", "invalid_request", []string{"code_challenge_method", "plain"}},
		{"no method", "invalid_request", []string{"code_challenge_method", ""}},
		{"the implicit grant", "unsupported_response_type", []string{"response_type", "token"}},
		{"fragments", "invalid_request", []string{"response_mode", "fragment"}},
		{"a foreign resource", "invalid_target", []string{"resource", "https://api.example.com/"}},
		{"a resource with a similar origin", "invalid_target", []string{"resource", s.URL + ".evil.example"}},
		{"no page", "consent_required", []string{"prompt", "none"}},
		{"a long state", "invalid_request", []string{"state", strings.Repeat("s", 2000)}},
	}
	for _, test := range redirects {
		response, _ := b.get(s.URL + "/login/authorize?" + asked(test.changes...).Encode())
		if to := response.Header.Get("Location"); !strings.HasPrefix(to, callback+"?") || !strings.Contains(to, "error="+test.want+"&") || !strings.Contains(to, "iss=") {
			t.Errorf("%s: status %d, location %q; want %s", test.name, response.StatusCode, to, test.want)
		}
	}
}

// TestRegister_checks_schemes_and_names: a private scheme has a dot, and people see a name.
func TestRegister_checks_schemes_and_names(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	register := func(body []byte) (int, string) {
		response, text := b.read(b.Post(s.URL+"/login/register", "application/json", bytes.NewReader(body)))
		return response.StatusCode, text
	}
	for redirect, want := range map[string]int{
		"com.example.app:/cb": http.StatusCreated, "cursor://anysphere.cursor-mcp/oauth/callback": http.StatusCreated,
		"opener:x": http.StatusBadRequest, "my-store://open": http.StatusBadRequest,
	} {
		body, _ := json.Marshal(map[string]any{"redirect_uris": []string{redirect}})
		if status, answer := register(body); status != want {
			t.Errorf("redirect address %s: %d %s, want %d", redirect, status, answer, want)
		}
	}
	for _, name := range []string{"\u200b", " \u202e\u2066 ", "\u3164\ufe0f"} {
		body, _ := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{"https://a.example/"}})
		if status, answer := register(body); status != http.StatusBadRequest {
			t.Errorf("the name %q: %d %s", name, status, answer)
		}
	}
}

// TestErrors_of_registered_clients are shown on a page with a link, because anyone can register an address and send others to the login.
func TestErrors_of_registered_clients(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	for _, redirect := range []string{"https://app.example/cb?a=1", "com.example.app:/cb"} {
		registration, _ := json.Marshal(map[string]any{"client_name": "Good\u202e \n\x1b tool", "redirect_uris": []string{redirect}})
		_, text := b.read(b.Post(s.URL+"/login/register", "application/json", strings.NewReader(string(registration))))
		var client struct {
			ID string `json:"client_id"`
		}
		if err := json.Unmarshal([]byte(text), &client); err != nil {
			t.Fatal(err)
		}
		response, page := b.get(s.URL + "/login/authorize?" + asked("client_id", client.ID, "redirect_uri", redirect, "response_type", "token").Encode())
		if to := response.Header.Get("Location"); response.StatusCode != http.StatusBadRequest || to != "" {
			t.Errorf("status %d, location %q, want a page", response.StatusCode, to)
		}
		address, _, _ := strings.Cut(redirect, "?")
		if !strings.Contains(page, `href="`+address) || !strings.Contains(page, "error=unsupported_response_type") {
			t.Errorf("the page has no link to %s: %s", address, page)
		}
		_, consent := b.get(s.URL + "/login/authorize?" + asked("client_id", client.ID, "redirect_uri", redirect).Encode())
		if !strings.Contains(consent, "<bdi>Good tool</bdi>") || strings.ContainsAny(consent, "\u202e\x1b") {
			t.Errorf("the page has not the visible name: %s", consent)
		}
	}
}

func TestLogin_is_for_allowed_users(t *testing.T) {
	for _, test := range []struct {
		name    string
		allow   authserver.Allow
		claims  map[string]any
		allowed bool
	}{
		{"every user", authserver.Allow{}, nil, true},
		{"group", authserver.Allow{Groups: []string{"engineering"}}, nil, true},
		{"other group", authserver.Allow{Groups: []string{"sales"}}, nil, false},
		{"domain", authserver.Allow{Domains: []string{"Example.com"}}, nil, true},
		{"other domain", authserver.Allow{Domains: []string{"ample.com"}}, nil, false},
		{"unverified", authserver.Allow{Domains: []string{"example.com"}}, map[string]any{"email_verified": false}, false},
		{"verified in text", authserver.Allow{Emails: []string{"ann@example.com"}}, map[string]any{"email_verified": "true"}, true},
		{"one of several", authserver.Allow{Groups: []string{"sales"}, Users: []string{"ann"}}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, func(o *authserver.Options) { o.Allow = test.allow })
			maps.Copy(s.idp.claims, test.claims)
			back := s.browser(t).login(asked())
			if back.Has("code") != test.allowed {
				t.Errorf("the client got %v", back)
			}
			if !test.allowed && back.Get("error") != "access_denied" {
				t.Errorf("error %q", back.Get("error"))
			}
		})
	}
}

func TestLogin_of_a_user_with_a_link_to_groups(t *testing.T) {
	s := newSite(t, nil)
	delete(s.idp.claims, "groups")
	s.idp.claims["_claim_names"] = map[string]any{"groups": "src1"}
	s.idp.claims["_claim_sources"] = map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/groups"}}
	back := s.browser(t).login(asked())
	if !strings.Contains(back.Get("error_description"), "overage") {
		t.Errorf("the client got %v", back)
	}
	if len(s.reported) != 1 {
		t.Errorf("the operator learned %q", s.reported)
	}
}

func TestLogin_of_a_user_whose_groups_are_not_strings(t *testing.T) {
	s := newSite(t, nil)
	s.idp.claims["groups"] = []any{"engineering", 1}
	if back := s.browser(t).login(asked()); back.Has("code") || !strings.Contains(back.Get("error_description"), "string") {
		t.Errorf("the client got %v", back)
	}
}

func TestLogin_with_many_claims(t *testing.T) {
	s := newSite(t, nil)
	groups := make([]string, 500)
	for i := range groups {
		groups[i] = "a group with a long name, as directories have them"
	}
	s.idp.claims["groups"] = groups
	b := s.browser(t)
	status, answer := b.redeem(b.login(asked()).Get("code"))
	if status != http.StatusInternalServerError {
		t.Errorf("status %d", status)
	}
	if text, _ := answer["error_description"].(string); !strings.Contains(text, "fewer groups") {
		t.Errorf("answer %v", answer)
	}
}

func TestStore_outage_is_temporary(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	code := b.login(asked()).Get("code")
	s.ledger.down = errors.New("down")
	if status, answer := b.redeem(code); status != http.StatusServiceUnavailable {
		t.Errorf("during the outage: %d %v", status, answer)
	}
	s.ledger.down = nil
	if status, answer := b.redeem(code); status != http.StatusOK {
		t.Errorf("after the outage: %d %v", status, answer)
	}
}

func TestSecrets_rotate(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	_, tokens := b.redeem(b.login(asked()).Get("code"))
	options := authserver.Options{
		Issuer: s.URL, Secrets: []string{"a new secret of the tests", "a secret of the tests"}, Ledger: s.ledger,
		Provider: &authserver.OIDC{Issuer: s.idp.URL, ClientID: "gateway"}, Clients: []authserver.Client{{ID: "fixed", RedirectURIs: []string{callback}}},
	}
	var err error
	if s.front, err = authserver.New(options); err != nil {
		t.Fatal(err)
	}
	b.claims(tokens["access_token"])
	status, renewed := b.refresh(tokens["refresh_token"])
	if status != http.StatusOK {
		t.Fatalf("with the new secret: %d %v", status, renewed)
	}
	options.Secrets = options.Secrets[:1]
	if s.front, err = authserver.New(options); err != nil {
		t.Fatal(err)
	}
	if status, answer := b.refresh(renewed["refresh_token"]); status != http.StatusOK {
		t.Errorf("without the old secret: %d %v", status, answer)
	}
}
