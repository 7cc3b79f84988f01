package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const placeholders = "{http.auth.user.id}|{http.auth.user.groups}|{http.auth.user.scope}|" +
	"{http.auth.user.claim.department.name}|{http.auth.user.claim.level}|{http.auth.user.claim.tags}|{http.auth.user.claim.none}|"

// TestAgentAuth_claims_are_placeholders has what handlers learn of the claims of a token.
func TestAgentAuth_claims_are_placeholders(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := sitetest.Run(t, "", `
	agent_auth /mcp* {
		issuer `+i.URL+`
		user_claim email
		group_claim groups realm_access.roles
		scope_claim roles
		scope_includes admin read write
		require_scope write
	}
	@engineer expression `+"`\"engineering\" in {http.auth.user.groups}`"+`
	respond @engineer "engineer|`+placeholders+`"
	respond "|`+placeholders+`"`)
	ask := func(t *testing.T, claims ...any) sitetest.Response {
		t.Helper()
		token := i.Token(t, s.URL+"/mcp", append([]any{"email", "ada@test", "email_verified", true, "roles", []string{"admin"}}, claims...)...)
		return s.With(t).Ask("GET", "/mcp", "Authorization", "Bearer "+token)
	}
	got := ask(t, "groups", []string{"engineering", "ops"}, "realm_access", map[string]any{"roles": []string{"x y"}},
		"department", map[string]any{"name": "R&D"}, "level", 3, "tags", []string{"a", "b"})
	if want := "engineer|ada@test|engineering,ops,x y|trips:read admin read write|R&D|3|a,b||"; got.Status != 200 || got.Body != want {
		t.Errorf("got %d %s, want %s", got.Status, got.Body, want)
	}
	if got := ask(t, "email_verified", false); got.Status != 401 {
		t.Errorf("an email that is not verified: got %d %s", got.Status, got.Body)
	}
	if got := ask(t, "roles", "reader"); got.Status != 403 {
		t.Errorf("too few scopes: got %d %s", got.Status, got.Body)
	}
	if got := ask(t, "x", strings.Repeat("x", 1<<20)); got.Status != 401 && got.Status != 431 {
		t.Errorf("1 MB of claims: got %d %.200s", got.Status, got.Body)
	}
	if got := ask(t, "hasgroups", true); got.Status != 200 || !strings.HasPrefix(got.Body, "|ada@test||") {
		t.Errorf("groups left out: got %d %s", got.Status, got.Body)
	}
	warnings := 0
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "overage") {
			warnings++
			if strings.Contains(line, "ada@test") {
				t.Errorf("the warning names the user: %s", line)
			}
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings about unknown groups, want 1", warnings)
	}
}

// TestAgentAuth_several_issuers_are_part_of_the_id keeps users of two issuers apart, and claims of one as they are.
func TestAgentAuth_several_issuers_are_part_of_the_id(t *testing.T) {
	one, two := sitetest.NewIssuer(t), sitetest.NewIssuer(t)
	s := sitetest.Run(t, "", `
	agent_auth /mcp* {
		issuer `+one.URL+` `+two.URL+`
		user_claim name
	}
	respond "{http.auth.user.id}"`)
	for _, issuer := range []*sitetest.Issuer{one, two} {
		got := s.Ask("GET", "/mcp", "Authorization", "Bearer "+issuer.Token(t, s.URL+"/mcp", "name", "x#ada"))
		if got.Body != issuer.URL+"#x#ada" {
			t.Errorf("got %s", got.Body)
		}
	}
}

// TestAgentAuth_introspects_opaque_tokens and keeps the token and the secret out of the log.
func TestAgentAuth_introspects_opaque_tokens(t *testing.T) {
	i := sitetest.NewIssuer(t)
	var url string
	idp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		switch token := r.PostFormValue("token"); {
		case secret != "planted-secret" || token == "planted-failure":
			http.Error(w, "planted-body", http.StatusBadGateway)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"active": token == "planted-good", "sub": "ada", "aud": url + "/mcp", "groups": []string{"ops"}})
		}
	}))
	t.Cleanup(idp.Close)
	s := sitetest.Run(t, "", `
	agent_auth /mcp* {
		issuer `+i.URL+`
		introspection `+idp.URL+` {
			client_id gateway
			client_secret planted-secret
		}
	}
	respond "{http.auth.user.id}|{http.auth.user.groups}"`)
	url = s.URL
	for token, want := range map[string]int{"planted-good": 200, "planted-bad": 401, "planted-failure": 503} {
		got := s.Ask("GET", "/mcp", "Authorization", "Bearer "+token)
		if got.Status != want || want == 200 && got.Body != "ada|ops" {
			t.Errorf("%s: got %d %s, want %d", token, got.Status, got.Body, want)
		}
		if strings.Contains(got.Body+got.Header.Get("WWW-Authenticate"), "planted") {
			t.Errorf("%s: the response has it: %s", token, got.Body)
		}
	}
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "planted") && !strings.Contains(line, "adapted config") && !strings.Contains(line, `"logger":"admin`) {
			t.Errorf("the log has a secret: %.300s", line)
		}
	}
	if !strings.Contains(s.Log(), "introspecting a token failed") {
		t.Error("the failure is not in the log")
	}
}
