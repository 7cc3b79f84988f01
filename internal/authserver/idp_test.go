package authserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/fairwayhq/fairway/internal/authserver"
	"github.com/fairwayhq/fairway/internal/share"
)

// ledger is a Ledger in memory.
type ledger struct {
	mu      sync.Mutex
	records map[string]string
	down    error
}

func (l *ledger) Update(_ context.Context, key string, _ share.Owner, change func(string) (string, time.Duration, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return l.down
	}
	value, _, err := change(l.records[key])
	if err != nil {
		return err
	}
	if l.records[key] = value; value == "" {
		delete(l.records, key)
	}
	return nil
}

// text returns all records.
func (l *ledger) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, _ := json.Marshal(l.records)
	return string(text)
}

// idp is an identity provider that logs every user in at once, as one that the user has agreed to before.
type idp struct {
	*httptest.Server
	key *ecdsa.PrivateKey

	mu       sync.Mutex
	claims   map[string]any // of the ID tokens
	info     map[string]any // of the UserInfo endpoint
	params   url.Values     // of the last login
	refused  bool           // refreshes get invalid_grant
	down     bool           // the token endpoint responds with 503
	requests int            // to the token endpoint
	metadata map[string]any // further members
	lifetime int            // of access tokens, in seconds
	rotates  bool           // tokens are numbered, and each refresh token is accepted once
	last     string         // the latest refresh token
	held     chan struct{}  // refreshes wait until it is closed; nil for none
}

const idpCode = "code-of-the-provider"

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{lifetime: 300, claims: map[string]any{"sub": "ann", "email": "ann@example.com", "email_verified": true, "name": "Ann", "groups": []string{"engineering"}}}
	p.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		m := map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/jwks",
			"scopes_supported": []string{"openid", "offline_access"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		}
		maps.Copy(m, p.metadata)
		_ = json.NewEncoder(w).Encode(m)
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.params = r.URL.Query()
		p.mu.Unlock()
		http.Redirect(w, r, r.FormValue("redirect_uri")+"?"+url.Values{"code": {idpCode}, "state": {r.FormValue("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", p.token)
	mux.HandleFunc("/userinfo", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer access-of-the-provider" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.info)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	if p.held != nil && r.FormValue("grant_type") == "refresh_token" {
		<-p.held
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	w.Header().Set("Content-Type", "application/json")
	grant := r.FormValue("grant_type")
	switch {
	case p.down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case grant == "refresh_token" && (p.refused || !strings.HasPrefix(r.FormValue("refresh_token"), "refresh-of-the-provider") || p.rotates && r.FormValue("refresh_token") != p.last),
		grant == "authorization_code" && r.FormValue("code") != idpCode:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": "gateway", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "nonce": p.params.Get("nonce")}
	maps.Copy(claims, p.claims)
	number := ""
	if p.rotates {
		number = fmt.Sprint("-", p.requests)
	}
	p.last = "refresh-of-the-provider" + number
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": "access-of-the-provider" + number, "refresh_token": p.last, "token_type": "Bearer", "expires_in": p.lifetime, "id_token": p.sign("JWT", claims),
	})
}

// sign returns a JWT of the provider.
func (p *idp) sign(kind string, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "1"}}, (&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
	if err != nil {
		panic(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}

// site is a gateway with a login.
type site struct {
	*httptest.Server
	idp      *idp
	ledger   *ledger
	front    *authserver.Server
	reported []string
	mu       sync.Mutex
}

// newSite returns a gateway. change may modify the options.
func newSite(t *testing.T, change func(*authserver.Options)) *site {
	t.Helper()
	s := &site{idp: newIDP(t), ledger: &ledger{records: make(map[string]string)}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.front.Serve(w, r) {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	options := authserver.Options{
		Issuer:   s.URL,
		Secrets:  []string{"a secret of the tests"},
		Provider: &authserver.OIDC{Issuer: s.idp.URL, ClientID: "gateway", ClientSecret: "secret-of-the-gateway"},
		Ledger:   s.ledger,
		Scopes:   []authserver.Scope{{Name: "read"}, {Name: "admin", Groups: []string{"admins"}}},
		Clients:  []authserver.Client{{ID: "fixed", Name: "Fixed client", RedirectURIs: []string{callback}}},
		Report: func(message string, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				message += ": " + err.Error()
			}
			s.reported = append(s.reported, message)
		},
	}
	if change != nil {
		change(&options)
	}
	var err error
	if s.front, err = authserver.New(options); err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	callback  = "http://127.0.0.1:7777/callback"
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636, appendix B
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// browser is a browser that stops at the addresses of clients.
type browser struct {
	*http.Client
	t *testing.T
	s *site
}

func (s *site) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{&http.Client{Transport: s.Client().Transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t, s}
}

// asked returns the usual parameters of a login, with changes: pairs of a name and a value; an empty value removes the parameter.
func asked(changes ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {"fixed"}, "redirect_uri": {callback}, "state": {"state-of-the-client"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"}, "scope": {"read admin other"},
	}
	for i := 0; i < len(changes); i += 2 {
		if q.Del(changes[i]); changes[i+1] != "" {
			q.Set(changes[i], changes[i+1])
		}
	}
	return q
}

// get requests an address and returns the response with its body.
func (b *browser) get(address string) (*http.Response, string) {
	b.t.Helper()
	response, err := b.Get(address)
	return b.read(response, err)
}

func (b *browser) read(response *http.Response, err error) (*http.Response, string) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	buffer := make([]byte, 64<<10)
	for {
		n, err := response.Body.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			return response, text.String()
		}
	}
}

// authorize opens the consent page, and returns the ID of the login in it.
func (b *browser) authorize(q url.Values) string {
	b.t.Helper()
	response, body := b.get(b.s.URL + "/login/authorize?" + q.Encode())
	_, id, ok := strings.Cut(body, `name="login" value="`)
	if response.StatusCode != http.StatusOK || !ok {
		b.t.Fatalf("the consent page: %d %s %s", response.StatusCode, response.Header.Get("Location"), body)
	}
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// consent answers the consent page, and returns where the browser is sent.
func (b *browser) consent(id, answer string) string {
	b.t.Helper()
	r, _ := http.NewRequest(http.MethodPost, b.s.URL+"/login/consent", strings.NewReader(url.Values{"login": {id}, "answer": {answer}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	response, body := b.read(b.Do(r))
	if response.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("the consent: %d %s", response.StatusCode, body)
	}
	return response.Header.Get("Location")
}

// login logs in and returns the parameters that the client gets.
func (b *browser) login(q url.Values) url.Values {
	b.t.Helper()
	return b.follow(b.consent(b.authorize(q), "allow"))
}

// follow goes to the provider, and by it back to the gateway and to the client.
func (b *browser) follow(address string) url.Values {
	b.t.Helper()
	for range 3 {
		u, err := url.Parse(address)
		if err != nil {
			b.t.Fatal(err)
		}
		if !strings.HasPrefix(address, b.s.URL) && !strings.HasPrefix(address, b.s.idp.URL) {
			return u.Query()
		}
		response, body := b.get(address)
		if address = response.Header.Get("Location"); address == "" {
			b.t.Fatalf("%s: %d %s", u.Path, response.StatusCode, body)
		}
	}
	b.t.Fatal("too many redirects")
	return nil
}

// post sends a form to an endpoint and returns the JSON of the response.
func (b *browser) post(endpoint string, form url.Values) (int, map[string]any) {
	b.t.Helper()
	response, body := b.read(b.PostForm(b.s.URL+"/login/"+endpoint, form))
	var object map[string]any
	if body != "" {
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			b.t.Fatalf("%s: %d %s", endpoint, response.StatusCode, body)
		}
	}
	return response.StatusCode, object
}

// redeem exchanges a code, with changes of the parameters as in asked.
func (b *browser) redeem(code string, changes ...string) (int, map[string]any) {
	b.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {"fixed"}, "redirect_uri": {callback}, "code": {code}, "code_verifier": {verifier}}
	for i := 0; i < len(changes); i += 2 {
		if form.Del(changes[i]); changes[i+1] != "" {
			form.Set(changes[i], changes[i+1])
		}
	}
	return b.post("token", form)
}

func (b *browser) refresh(token any, changes ...string) (int, map[string]any) {
	b.t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"fixed"}, "refresh_token": {token.(string)}}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return b.post("token", form)
}

// claims verifies an access token with the published keys, and returns its claims.
func (b *browser) claims(token any) map[string]any {
	b.t.Helper()
	_, body := b.get(b.s.URL + "/login/jwks")
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(body), &set); err != nil {
		b.t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(token.(string), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		b.t.Fatal(err)
	}
	var claims map[string]any
	if err := parsed.Claims(set, &claims); err != nil {
		b.t.Fatal(err)
	}
	return claims
}
