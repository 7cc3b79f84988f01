package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// idp is an identity provider that logs in the user that a test chooses, without a question.
type idp struct {
	*httptest.Server
	mu    sync.Mutex
	user  string
	asked url.Values // of the last login
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	keys := sitetest.NewIssuer(t)
	p := &idp{user: "ada"}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": keys.URL + "/keys",
			"scopes_supported": []string{"openid", "offline_access"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = r.URL.Query()
		http.Redirect(w, r, p.asked.Get("redirect_uri")+"?"+url.Values{"code": {"code-of-the-provider"}, "state": {p.asked.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		id := keys.Token(t, "gateway", "iss", p.URL, "sub", p.user, "nonce", p.asked.Get("nonce"), "groups", []string{"engineering"})
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "access-of-the-provider", "token_type": "Bearer", "expires_in": 300, "id_token": id})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// as makes the provider log in another user.
func (p *idp) as(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = user
}

// loginSite runs a site whose users log in at the provider.
func loginSite(t *testing.T, p *idp, authentication, after string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "agent_login {\nprovider oidc "+p.URL+"\nclient_id gateway\nclient_secret secret-of-the-gateway\nissuer "+s.URL+
		"\nsecret 0123456789abcdef\nallow group engineering\nscope trips\n}\n"+authentication+"\nagents_console {\nauditors eve\n}\nmcp TRIPS\n"+after)
	return s
}

// visitor is a browser with cookies.
type visitor struct {
	*http.Client
	s *sitetest.Site
}

func newVisitor(s *sitetest.Site) *visitor {
	s.T.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.T.Fatal(err)
	}
	return &visitor{&http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}, s}
}

// send sends a request as a browser, and follows redirects.
func (v *visitor) send(method, path, body string, header ...string) (response *http.Response, text string) {
	v.s.T.Helper()
	r, err := http.NewRequest(method, v.s.URL+path, strings.NewReader(body))
	if err != nil {
		v.s.T.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err = v.Do(r)
	if err != nil {
		v.s.T.Fatal(err)
	}
	defer response.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, response.Body); err != nil {
		v.s.T.Fatal(err)
	}
	return response, b.String()
}

// session returns the cookie of the session, nil if there is none.
func (v *visitor) session() *http.Cookie {
	u, _ := url.Parse(v.s.URL)
	for _, c := range v.Jar.Cookies(u) {
		if c.Name == "fairway-session" {
			return c
		}
	}
	return nil
}

// TestConsole_logs_in_by_the_front opens a page without a credential, comes back logged in, tries a tool as the user, and logs out.
func TestConsole_logs_in_by_the_front(t *testing.T) {
	for name, authentication := range map[string]string{"agent_auth": "agent_auth {\nrequire_scope trips\n}", "login only": ""} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			var got http.Header
			s := loginSite(t, p, authentication, "reverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Clone()
				sitetest.Echo(w, r)
			}))
			v := newVisitor(s)
			response, text := v.send("GET", "/console/calls?tool=getTrip", "")
			if at := response.Request.URL.RequestURI(); response.StatusCode != http.StatusOK || at != "/console/calls?tool=getTrip" {
				t.Fatalf("got the status %d at %s, want 200 at /console/calls?tool=getTrip: %s", response.StatusCode, at, text)
			}
			if !strings.Contains(text, ">ada</span>") || !strings.Contains(text, "Log out") {
				t.Fatalf("got a page without the user ada and the link Log out: %s", text)
			}
			if p.asked.Get("prompt") != "" || strings.Contains(p.asked.Get("scope"), "offline_access") || p.asked.Has("resource") {
				t.Errorf("the provider is asked for more than a login: %v", p.asked)
			}
			response, text = v.send("POST", "/console/api/tools/mcp/getTrip", `{"arguments":{"id":"7"}}`, "Content-Type", "application/json")
			if response.StatusCode != http.StatusOK || !strings.Contains(text, `"outcome":"ok"`) {
				t.Errorf("a call: %d %s", response.StatusCode, text)
			}
			if got == nil || strings.Contains(got.Get("Cookie"), "fairway-session") || got.Get("Authorization") != "" {
				t.Errorf("the API got %v", got)
			}
			if _, text = v.send("GET", "/console/api/calls", ""); strings.Contains(text, `"user":"ada"`) != (authentication != "") { // the endpoint is open without it
				t.Errorf("the call is not one of the user: %s", text)
			}
			if response, text = v.send("POST", "/console/logout", "", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site"); response.StatusCode != http.StatusForbidden || v.session() == nil {
				t.Errorf("logout by another site: %d %s", response.StatusCode, text)
			}
			ended := "fairway-session=" + v.session().Value
			if a := s.Ask("GET", "/console/api/calls", "Cookie", ended); a.Status != http.StatusOK {
				t.Errorf("the cookie before the logout: %d", a.Status)
			}
			if response, text = v.send("POST", "/console/logout", "", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"); !strings.Contains(text, "logged out") || v.session() != nil {
				t.Errorf("logout: %d %s", response.StatusCode, text)
			}
			if response, _ = v.send("GET", "/console/api/calls", "", "Accept", "application/json"); response.StatusCode != http.StatusUnauthorized {
				t.Errorf("after the logout: %d", response.StatusCode)
			}
			if a := s.Ask("GET", "/console/api/calls", "Cookie", ended); a.Status != http.StatusUnauthorized {
				t.Errorf("a copy of the cookie after the logout: %d", a.Status)
			}
			for _, secret := range []string{"secret-of-the-gateway", "access-of-the-provider", "0123456789abcdef", "eyJ"} {
				if s.HasLogged(secret) {
					t.Errorf("the log contains %s", secret)
				}
			}
		})
	}
}

// TestConsole_session_is_for_the_console uses the cookie of a session elsewhere, changed, and by other means.
func TestConsole_session_is_for_the_console(t *testing.T) {
	p := newIDP(t)
	var got http.Header
	s := loginSite(t, p, "agent_auth {\nexempt /open\n}", "reverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		sitetest.Echo(w, r)
	}))
	v := newVisitor(s)
	response, _ := v.send("GET", "/console", "")
	cookie := v.session()
	if cookie == nil {
		t.Fatalf("no session: %d", response.StatusCode)
	}
	header := "fairway-session=" + cookie.Value
	for path, want := range map[string]int{"/console": 200, "/mcp": 401, "/trips/7": 401, "/open": 200} {
		if a := s.Ask("GET", path, "Cookie", "a=1; "+header+"; b=2"); a.Status != want {
			t.Errorf("%s with the session: status %d, want %d", path, a.Status, want)
		}
	}
	if got.Get("Cookie") != "a=1; b=2" {
		t.Errorf("the API got the cookies %q, want all but the session", got.Get("Cookie"))
	}
	for name, h := range map[string][]string{
		"changed":          {"Cookie", header[:len(header)-2] + "xx"},
		"of another login": {"Cookie", "fairway-session=" + strings.Repeat("A", 200)},
		"as a bearer":      {"Authorization", "Bearer " + cookie.Value},
	} {
		if a := s.Ask("GET", "/console/api/calls", h...); a.Status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, a.Status)
		}
	}
	for _, h := range [][]string{{}, {"Accept", "application/json"}, {"Accept", "text/html", "Hx-Request", "true"}} {
		a := s.Ask("GET", "/console", h...)
		if a.Status != http.StatusUnauthorized || a.Header.Get("Location") != "" {
			t.Errorf("a program with %q: status %d to %s", h, a.Status, a.Header.Get("Location"))
		}
		if refreshes := a.Header.Get("Hx-Refresh") != ""; refreshes != (len(h) == 4) {
			t.Errorf("%q: the page is loaded again: %v", h, refreshes)
		}
	}
	if a := s.Ask("POST", "/console/tools/mcp/getTrip", "Accept", "text/html"); a.Status != http.StatusUnauthorized {
		t.Errorf("a form of a stranger: status %d, want 401", a.Status)
	}
}

// TestConsole_login_has_the_roles_of_the_user checks that an auditor is one after a login, and that a user without the group of allow stays out.
func TestConsole_login_has_the_roles_of_the_user(t *testing.T) {
	p := newIDP(t)
	s := loginSite(t, p, "agent_auth", "respond ok")
	for user, isAuditor := range map[string]bool{"eve": true, "bob": false} {
		p.as(user)
		if _, text := newVisitor(s).send("GET", "/console", ""); strings.Contains(text, "auditor</span>") != isAuditor || !strings.Contains(text, ">"+user+"</span>") {
			t.Errorf("%s: auditor is not %v: %s", user, isAuditor, text)
		}
	}
	stranger := sitetest.NewSite(t)
	stranger.Start("agents {\n\tstore bolt DIR/store2.db\n}", "agent_login {\nprovider oidc "+p.URL+"\nclient_id gateway\nissuer "+stranger.URL+"\nsecret 0123456789abcdef\nallow group admins\n}\nagents_console\nmcp TRIPS\nrespond ok\nbind 127.0.0.1")
	v := newVisitor(stranger)
	if response, text := v.send("GET", "/console", ""); response.StatusCode != http.StatusForbidden || !strings.Contains(text, "may not log in") || v.session() != nil {
		t.Errorf("a user who may not log in: %d %s", response.StatusCode, text)
	}
}

// TestConsole_login_is_of_this_browser completes a login in a browser that has not begun it.
func TestConsole_login_is_of_this_browser(t *testing.T) {
	p := newIDP(t)
	s := loginSite(t, p, "agent_auth", "respond ok")
	attacker := newVisitor(s)
	attacker.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/login/callback") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	response, _ := attacker.send("GET", "/console", "")
	link, err := response.Location()
	if err != nil {
		t.Fatal(err)
	}
	victim := newVisitor(s)
	if response, text := victim.send("GET", link.RequestURI(), ""); response.StatusCode != http.StatusBadRequest || victim.session() != nil {
		t.Errorf("a link of an attacker: %d %s", response.StatusCode, text)
	}
	if response, text := attacker.send("GET", link.RequestURI(), ""); response.StatusCode != http.StatusOK || attacker.session() == nil {
		t.Errorf("the browser that began: %d %s", response.StatusCode, text)
	}
}

// TestConsole_session_is_revoked_by_the_operator ends the sessions of a user, and leaves those of others.
func TestConsole_session_is_revoked_by_the_operator(t *testing.T) {
	p := newIDP(t)
	s := loginSite(t, p, "agent_auth", "respond ok")
	cookies := make(map[string]string)
	for _, user := range []string{"ada", "bob"} {
		p.as(user)
		v := newVisitor(s)
		v.send("GET", "/console", "")
		cookies[user] = "fairway-session=" + v.session().Value
	}
	records, err := site.SectionOf[*stores.Section](caddy.ActiveContext())
	if err != nil {
		t.Fatal(err)
	}
	counts, err := records.Users.LogOut(t.Context(), "ada")
	if err != nil || len(counts) != 1 || counts["logins at "+s.URL] != 1 {
		t.Errorf("ended %v, %v, want one session", counts, err)
	}
	for user, want := range map[string]int{"ada": http.StatusUnauthorized, "bob": http.StatusOK} {
		if a := s.Ask("GET", "/console/api/calls", "Cookie", cookies[user]); a.Status != want {
			t.Errorf("%s: status %d, want %d", user, a.Status, want)
		}
	}
}
