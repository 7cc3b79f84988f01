package authserver_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/authserver"
)

// fakeGitHub responds as GitHub's server and API do, as far as the login uses them.
type fakeGitHub struct {
	*httptest.Server
	revoked bool // the user has revoked the token
	private bool // the token may not read organizations
}

func newGitHub(t *testing.T) *fakeGitHub {
	t.Helper()
	g := new(fakeGitHub)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login/oauth/access_token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("code") != "good" || r.FormValue("code_verifier") == "" {
			_, _ = w.Write([]byte(`{"error":"bad_verification_code"}`)) // GitHub reports errors with status 200
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"token-of-github","token_type":"bearer","scope":"read:user"}`))
	})
	resource := func(value any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch {
			case g.revoked || r.Header.Get("Authorization") != "Bearer token-of-github":
				w.WriteHeader(http.StatusUnauthorized)
			case g.private && r.URL.Path == "/user/orgs":
				w.WriteHeader(http.StatusForbidden)
			default:
				_ = json.NewEncoder(w).Encode(value)
			}
		}
	}
	mux.Handle("GET /user", resource(map[string]any{"id": 583231, "login": "ann"}))
	mux.Handle("GET /user/emails", resource([]map[string]any{{"email": "old@example.com", "verified": true}, {"email": "ann@example.com", "primary": true, "verified": true}}))
	mux.Handle("GET /user/orgs", resource([]map[string]any{{"login": "acme"}}))
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func TestGitHub_knows_the_user(t *testing.T) {
	server := newGitHub(t)
	g := &authserver.GitHub{ClientID: "gateway", ClientSecret: "secret", URL: server.URL, API: server.URL}
	login := &authserver.Login{State: "s", Verifier: strings.Repeat("v", 43), Callback: "https://tools.example.com/login/callback"}
	if address, err := g.LoginURL(t.Context(), login); err != nil || !strings.Contains(address, "scope=read%3Auser+user%3Aemail+read%3Aorg") {
		t.Errorf("address %s, error %v", address, err)
	}
	if _, _, err := g.Complete(t.Context(), login, "bad"); !errors.Is(err, authserver.ErrRefused) {
		t.Errorf("a wrong code: %v", err)
	}
	user, tokens, err := g.Complete(t.Context(), login, "good")
	if err != nil {
		t.Fatal(err)
	}
	if user.Subject != "583231" || user.Name != "ann" {
		t.Errorf("user %+v", user)
	}
	if user.Email != "ann@example.com" || !user.EmailVerified {
		t.Errorf("email %s, verified %t", user.Email, user.EmailVerified)
	}
	if !slices.Equal(user.Groups, []string{"acme"}) {
		t.Errorf("groups %q", user.Groups)
	}
	server.private = true
	if user, _, err := g.Refresh(t.Context(), tokens); err != nil || len(user.Groups) > 0 {
		t.Errorf("without the right to read organizations: %+v, %v", user, err)
	}
	server.revoked = true
	if _, _, err := g.Refresh(t.Context(), tokens); !errors.Is(err, authserver.ErrRefused) {
		t.Errorf("after the user has revoked the token: %v", err)
	}
}

func TestOIDC_says_whether_it_knows_documents(t *testing.T) {
	for name, metadata := range map[string]map[string]any{"yes": {"client_id_metadata_document_supported": true}, "no": {}} {
		p := newIDP(t)
		p.metadata = metadata
		provider := &authserver.OIDC{Issuer: p.URL, ClientID: "gateway"}
		issuer, ok, err := provider.KnowsDocuments(t.Context())
		if err != nil || issuer != p.URL || ok != (name == "yes") {
			t.Errorf("%s: %s %t %v", name, issuer, ok, err)
		}
	}
}

// Requests that come while the provider is down fail at once, and do not each wait for an attempt of their own.
func TestOIDC_tries_once_while_the_provider_is_down(t *testing.T) {
	attempts := 0
	provider := &authserver.OIDC{Issuer: "http://127.0.0.1:1", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		attempts++
		return nil, errors.New("down")
	})}
	for range 5 {
		if _, _, err := provider.KnowsDocuments(t.Context()); err == nil {
			t.Fatal("no error")
		}
	}
	if attempts != 1 {
		t.Errorf("%d attempts, want 1", attempts)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOIDC_reads_groups(t *testing.T) {
	for name, test := range map[string]struct {
		claim string
		value map[string]any
		want  []string
	}{
		"list":          {"", map[string]any{"groups": []string{"a", "b"}}, []string{"a", "b"}},
		"text":          {"roles", map[string]any{"roles": "Domain Admins"}, []string{"Domain Admins"}},
		"nested":        {"realm_access.roles", map[string]any{"realm_access": map[string]any{"roles": []string{"a"}}}, []string{"a"}},
		"name with dot": {"https://acme.example/groups", map[string]any{"https://acme.example/groups": []string{"a"}}, []string{"a"}},
		"missing":       {"realm_access.roles", map[string]any{"realm_access": "x"}, nil},
	} {
		s := newSite(t, func(o *authserver.Options) {
			provider := o.Provider.(*authserver.OIDC)
			provider.GroupClaim = test.claim
		})
		delete(s.idp.claims, "groups")
		maps.Copy(s.idp.claims, test.value)
		b := s.browser(t)
		_, tokens := b.redeem(b.login(asked()).Get("code"))
		got, _ := json.Marshal(b.claims(tokens["access_token"])["groups"])
		want, _ := json.Marshal(test.want)
		if string(got) != string(want) {
			t.Errorf("%s: groups %s, want %s", name, got, want)
		}
	}
}

// A provider may leave the user's data out of the ID token. Then they come from its UserInfo endpoint.
func TestOIDC_reads_user_info(t *testing.T) {
	p := newIDP(t)
	p.metadata = map[string]any{"userinfo_endpoint": p.URL + "/userinfo"}
	complete := func() (*authserver.User, error) {
		o := &authserver.OIDC{Issuer: p.URL, ClientID: "gateway", ClientSecret: "secret"}
		user, _, err := o.Complete(t.Context(), &authserver.Login{}, idpCode)
		return user, err
	}
	p.claims = map[string]any{"sub": "ann", "name": "Ann of the token"}
	p.info = map[string]any{"sub": "ann", "email": "ann@example.com", "email_verified": true, "name": "Ann", "groups": []string{"engineering"}}
	user, err := complete()
	if err != nil {
		t.Fatal(err)
	}
	if user.Email != "ann@example.com" || !user.EmailVerified || !slices.Equal(user.Groups, []string{"engineering"}) {
		t.Errorf("user %+v, want the data of the UserInfo endpoint", user)
	}
	if user.Name != "Ann of the token" {
		t.Errorf("name %q, want that of the ID token", user.Name)
	}
	p.info["sub"] = "bob"
	if user, err := complete(); !errors.Is(err, authserver.ErrRefused) {
		t.Errorf("data of another user: %+v, error %v", user, err)
	}
	p.info = map[string]any{"sub": "ann", "email": strings.Repeat("a", 2<<20)}
	if user, err := complete(); err == nil {
		t.Errorf("2 MiB of claims gave %+v", user)
	}
}
