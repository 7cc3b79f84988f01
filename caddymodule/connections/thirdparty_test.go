package connections_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// thirdParty is a service with OAuth 2.0 and an API. Its tokens contain the word planted.
type thirdParty struct {
	*httptest.Server

	mu        sync.Mutex
	expiresIn int               // of tokens, in seconds; 0 if they do not say it
	isDown    bool              // the token endpoint responds with 503
	refuses   string            // error code of the token endpoint; "" for none
	tokens    map[string]bool   // access tokens that the API accepts
	codes     map[string]string // challenge of each code that was not used
	refresh   map[string]bool   // refresh tokens that were not used
	issued    int
	requests  []string // to the token endpoint: the grant type
	revoked   []string
	scopes    string // that the last user was asked for
}

func newThirdParty(t *testing.T) *thirdParty {
	t.Helper()
	p := &thirdParty{expiresIn: 3600, tokens: map[string]bool{}, codes: map[string]string{}, refresh: map[string]bool{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *thirdParty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/authorize":
		q := r.URL.Query()
		p.issued++
		code := fmt.Sprintf("code-%d", p.issued)
		p.codes[code], p.scopes = q.Get("code_challenge"), q.Get("scope")
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	case "/token":
		p.serveToken(w, r)
	case "/revoke":
		p.revoked = append(p.revoked, r.FormValue("token"))
		delete(p.refresh, r.FormValue("token"))
	default:
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if key := r.Header.Get("X-Their-Key"); key != "" {
			token = key
		}
		w.Header().Set("Content-Type", "application/json")
		if !p.tokens[token] {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"bad token"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"token_length":%d}`, len(token))
	}
}

func (p *thirdParty) serveToken(w http.ResponseWriter, r *http.Request) {
	grant := r.FormValue("grant_type")
	p.requests = append(p.requests, grant)
	w.Header().Set("Content-Type", "application/json")
	fail := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":"planted-description"}`, code)
	}
	id, secret, _ := r.BasicAuth()
	challenge, isCode := p.codes[r.FormValue("code")]
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	switch {
	case p.isDown:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "planted-description")
		return
	case p.refuses != "":
		fail(http.StatusBadRequest, p.refuses)
		return
	case id != "gateway" || secret != "planted-client-secret":
		fail(http.StatusUnauthorized, "invalid_client")
		return
	case grant == "authorization_code" && (!isCode || challenge != base64.RawURLEncoding.EncodeToString(sum[:])),
		grant == "refresh_token" && !p.refresh[r.FormValue("refresh_token")]:
		fail(http.StatusBadRequest, "invalid_grant")
		return
	}
	delete(p.codes, r.FormValue("code"))
	delete(p.refresh, r.FormValue("refresh_token"))
	p.issued++
	access, refresh := fmt.Sprintf("planted-access-%d", p.issued), fmt.Sprintf("planted-refresh-%d", p.issued)
	p.tokens[access], p.refresh[refresh] = true, true
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"token_type":"bearer","expires_in":%d}`, access, refresh, p.expiresIn)
}

// set changes the third party.
func (p *thirdParty) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// count returns how many requests of the grant type the token endpoint has got.
func (p *thirdParty) count(grant string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if r == grant {
			n++
		}
	}
	return n
}

// options are the options of a site whose users have accounts at the third party.
type options struct{ provider, connections, more string }

// providerBlock configures the third party.
func (p *thirdParty) providerBlock() string {
	return fmt.Sprintf(`provider acme {
		authorize_url %[1]s/authorize
		token_url %[1]s/token
		revoke_url %[1]s/revoke
		client_id gateway
		client_secret planted-client-secret
		scope orders.read orders.write
	}`, p.URL)
}

// start begins a site.
func start(t *testing.T, p *thirdParty, o options) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	load(t, s, p, o)
	return s
}

func load(t *testing.T, s *sitetest.Site, p *thirdParty, o options) {
	t.Helper()
	if o.provider == "" {
		o.provider = p.providerBlock()
	}
	if o.connections == "" {
		o.connections = "secret planted-vault-secret-1"
	}
	s.Start("agents {\nstore bolt DIR/store.db\naudit {\nsink file DIR/audit.jsonl\n}\ntoolset trips TRIPS {\ncredential user {\n"+o.provider+"\n}\n}\n}\n", `route {
		test_user
		agent_connections {
			origin `+s.URL+`
			`+o.connections+`
		}
		`+o.more+`
		mcp /mcp trips {
			task_after 1m
		}
		otc trips
		reverse_proxy `+strings.TrimPrefix(p.URL, "http://")+`
	}`)
}

// browser is the browser of a user.
type browser struct {
	*testing.T
	client *http.Client
	user   string
}

func newBrowser(t *testing.T, user string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{
		Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, user}
}

// visit is a response to the browser.
type visit struct {
	status   int
	location string
	body     string
	header   http.Header
}

func (b *browser) do(method, address string, form url.Values, header ...string) visit {
	b.Helper()
	r, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("X-Test-User", b.user)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return visit{response.StatusCode, response.Header.Get("Location"), string(body), response.Header}
}

func (b *browser) get(address string) visit { b.Helper(); return b.do(http.MethodGet, address, nil) }

// begin opens a link and sends its form. It returns where the browser goes next.
func (b *browser) begin(s *sitetest.Site, link string, fields ...string) visit {
	b.Helper()
	if shown := b.get(link); shown.status != http.StatusOK {
		b.Fatalf("the page of the link: %d %s", shown.status, shown.body)
	}
	form := url.Values{"link": {link[strings.LastIndex(link, "/")+1:]}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.do(http.MethodPost, s.URL+"/connections/connect", form)
}

// callback lets the user agree at the third party. It returns the address of the callback.
func (b *browser) callback(s *sitetest.Site, link string, fields ...string) string {
	b.Helper()
	begun := b.begin(s, link, fields...)
	if begun.status != http.StatusSeeOther {
		b.Fatalf("begin: %d %s", begun.status, begun.body)
	}
	return b.get(begun.location).location
}

// connect connects an account.
func (b *browser) connect(s *sitetest.Site, link string, fields ...string) {
	b.Helper()
	if done := b.get(b.callback(s, link, fields...)); done.status != http.StatusSeeOther || !strings.Contains(done.location, "connected=acme") {
		b.Fatalf("callback: %d %s %s", done.status, done.location, done.body)
	}
}
