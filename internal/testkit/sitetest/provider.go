package sitetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Provider is an identity provider that logs in the user that a test chooses, and exchanges the latest tokens of its users. Each refresh token works once.
// Its tokens begin with "planted-".
type Provider struct {
	*httptest.Server
	Site *Site

	mu        sync.Mutex
	user      string
	asked     url.Values        // of the last login
	users     map[string]string // by refresh token
	access    map[string]string // users by access token or ID token that may be exchanged
	lifetime  int               // of access tokens, in seconds
	down      bool
	refused   bool
	issued    int
	exchanges []url.Values
	refreshes int
	t         *testing.T
	keys      *Issuer
}

func NewProvider(t *testing.T, s *Site) *Provider {
	t.Helper()
	p := &Provider{Site: s, t: t, keys: NewIssuer(t), users: map[string]string{}, access: map[string]string{}, lifetime: 300}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.keys.URL + "/keys",
			"scopes_supported": []string{"openid", "offline_access"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = r.URL.Query()
		http.Redirect(w, r, p.asked.Get("redirect_uri")+"?"+url.Values{"code": {"code-of-the-provider"}, "state": {p.asked.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fail := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q}`, code)
	}
	w.Header().Set("Content-Type", "application/json")
	user, form := p.user, r.FormValue
	switch grant := form("grant_type"); {
	case p.down:
		fail(http.StatusServiceUnavailable, "temporarily_unavailable")
		return
	case strings.HasPrefix(grant, "urn:"):
		p.exchanges = append(p.exchanges, r.PostForm)
		subject := p.access[form("subject_token")+form("assertion")]
		if subject == "" {
			fail(http.StatusBadRequest, "invalid_grant")
			return
		}
		p.issued++
		token := fmt.Sprintf("planted-exchanged-%s-%d", subject, p.issued)
		p.access[token] = subject
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600})
		return
	case grant == "refresh_token":
		user = p.users[form("refresh_token")]
		p.refreshes++
		if user == "" || p.refused {
			fail(http.StatusBadRequest, "invalid_grant")
			return
		}
		delete(p.users, form("refresh_token"))
		for token, of := range p.access {
			if of == user {
				delete(p.access, token)
			}
		}
	}
	p.issued++
	access, refresh := fmt.Sprint("planted-access-", p.issued), fmt.Sprint("planted-refresh-", p.issued)
	id := p.keys.Token(p.t, "gateway", "iss", p.URL, "sub", user, "nonce", p.asked.Get("nonce"), "email", user+"@example.com")
	p.users[refresh], p.access[access], p.access[id] = user, user, user
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": p.lifetime, "id_token": id})
}

// Set changes the state of the provider: the lifetime of access tokens in seconds, and whether it is down, or refuses refreshes.
func (p *Provider) Set(lifetime int, down, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lifetime, p.down, p.refused = lifetime, down, refused
}

// Exchanges returns the forms of the token exchanges, and Refreshes the number of refreshes.
func (p *Provider) Exchanges() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exchanges
}

func (p *Provider) Refreshes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshes
}

// AgentLogin returns the directive of a site whose users log in at the provider, with a machine client and further options.
func (p *Provider) AgentLogin(options string) string {
	return "agent_login {\nprovider oidc " + p.URL + "\nclient_id gateway\nclient_secret secret-of-the-gateway\nissuer " + p.Site.URL +
		"\nsecret 0123456789abcdef\nclient inspector {\nredirect http://127.0.0.1:7777/callback\n}\nclient cron {\nsecret planted-secret-of-cron\nmachine\n}\n" + options + "\n}\n"
}

// Login logs a user in at the site and returns the response with the tokens. Resource may be empty.
func (p *Provider) Login(user, resource string) map[string]any {
	p.t.Helper()
	back, answer := p.Consent(user, resource)
	if back == nil {
		p.t.Fatalf("the login of %s: %s", user, answer)
	}
	return p.Token(url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"inspector"}, "code": {back.Query().Get("code")}, "redirect_uri": {clientRedirect},
		"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
	})
}

// clientRedirect is the redirect address of the client.
const clientRedirect = "http://127.0.0.1:7777/callback"

// Consent logs a user in at the provider and allows the client at the site. It returns the address that the site redirects to, and the
// last page. The address is nil if there is none.
func (p *Provider) Consent(user, resource string) (back *url.URL, answer string) {
	p.t.Helper()
	p.mu.Lock()
	p.user = user
	p.mu.Unlock()
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Port() == "7777" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	// The verifier and the challenge are those of RFC 7636, appendix B.
	q := url.Values{
		"response_type": {"code"}, "client_id": {"inspector"}, "redirect_uri": {clientRedirect}, "state": {"s"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	if resource != "" {
		q.Set("resource", resource)
	}
	read := func(response *http.Response, err error) (*http.Response, string) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response, string(body)
	}
	_, page := read(browser.Get(p.Site.URL + "/login/authorize?" + q.Encode()))
	_, id, _ := strings.Cut(page, `name="login" value="`)
	id, _, _ = strings.Cut(id, `"`)
	r, _ := http.NewRequest(http.MethodPost, p.Site.URL+"/login/consent", strings.NewReader(url.Values{"login": {id}, "answer": {"allow"}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	response, answer := read(browser.Do(r))
	back, _ = response.Location()
	return back, answer
}

// Token sends a form to the site's token endpoint and returns the response.
func (p *Provider) Token(form url.Values) (tokens map[string]any) {
	p.t.Helper()
	response, err := http.PostForm(p.Site.URL+"/login/token", form)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&tokens); err != nil || tokens["access_token"] == nil {
		p.t.Fatalf("token endpoint: %d %v, error %v", response.StatusCode, tokens, err)
	}
	return tokens
}
