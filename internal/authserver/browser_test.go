package authserver_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/authserver"
)

// open opens a page of the gateway in a browser that is not logged in, and returns the last response.
func (b *browser) open(back string) (response *http.Response, body string) {
	b.t.Helper()
	front := b.s.Config.Handler
	b.s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sessions := authserver.NewSessions(b.s.front)
		switch r.URL.Path {
		case "/console":
			sessions.Begin(w, r, sessions.Audience("/console"), back)
		default:
			front.ServeHTTP(w, r)
		}
	})
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/console/calls" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return b.get(b.s.URL + "/console")
}

func TestSession_is_sealed_and_for_the_pages(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser(t)
	response, body := b.open("/console/calls?a=b")
	if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != s.URL+"/console/calls?a=b" {
		t.Fatalf("status %d to %s: %s", response.StatusCode, response.Header.Get("Location"), body)
	}
	var session *http.Cookie
	for _, c := range response.Cookies() {
		if c.Name == "__Host-fairway-session" {
			session = c
		}
	}
	if session == nil {
		t.Fatalf("got the cookies %v, want a session", response.Cookies())
	}
	got := http.Cookie{Secure: session.Secure, HttpOnly: session.HttpOnly, SameSite: session.SameSite, Path: session.Path, Domain: session.Domain, MaxAge: session.MaxAge}
	if want := (http.Cookie{Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, Path: "/", MaxAge: 3600}); !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	if strings.Contains(session.Value, "eyJ") {
		t.Error("the cookie contains a token in plain text")
	}
	header := http.Header{"Cookie": {"a=1; __Host-fairway-session=" + session.Value + "; b=2"}}
	taken := authserver.NewSessions(s.front).Take(header)
	if taken == nil {
		t.Fatal("the session is not taken")
	}
	claims := b.claims(taken.Token)
	for name, want := range map[string]any{"sub": "ann", "aud": s.URL + "/console", "scope": "read"} {
		if claims[name] != want {
			t.Errorf("%s is %v, want %v", name, claims[name], want)
		}
	}
	if got := header.Get("Cookie"); got != "a=1; b=2" {
		t.Errorf("the other cookies are %q", got)
	}
	for _, value := range []string{"", "x", session.Value[1:], strings.Repeat("A", 5000)} {
		header := http.Header{"Cookie": {"__Host-fairway-session=" + value}}
		if taken := authserver.NewSessions(s.front).Take(header); taken != nil || header.Get("Cookie") != "" {
			t.Errorf("the session %.10q is taken as %v, and leaves %q", value, taken, header.Get("Cookie"))
		}
	}
	if len(s.ledger.records) != 2 {
		t.Errorf("there are %d records, want those of the completed login and of the session", len(s.ledger.records))
	}
}

func TestSession_ends_at_the_server(t *testing.T) {
	s := newSite(t, nil)
	response, _ := s.browser(t).open("/console/calls")
	sessions := authserver.NewSessions(s.front)
	var taken *authserver.BrowserSession
	for _, c := range response.Cookies() {
		if c.Name == "__Host-fairway-session" {
			taken = sessions.Take(http.Header{"Cookie": {c.Name + "=" + c.Value}})
		}
	}
	if taken == nil || !sessions.IsOpen(t.Context(), taken) {
		t.Fatalf("the session %v is not open", taken)
	}
	end := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		sessions.End(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/logout", nil), taken, "/console")
		if cookie := w.Header().Get("Set-Cookie"); !strings.Contains(cookie, "Max-Age=0") {
			t.Errorf("the cookie is not deleted: %q", cookie)
		}
		return w
	}

	s.ledger.down = errors.New("down")
	if sessions.IsOpen(t.Context(), taken) {
		t.Error("a session is open without the store")
	}
	if w := end(); w.Code != http.StatusServiceUnavailable {
		t.Errorf("logout without the store: %d %s", w.Code, w.Body)
	}
	s.ledger.down = nil
	if !sessions.IsOpen(t.Context(), taken) {
		t.Error("the session has ended with the store")
	}
	if w := end(); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "/console") {
		t.Errorf("logout: %d %s", w.Code, w.Body)
	}
	other, err := authserver.New(authserver.Options{
		Issuer: s.URL, Secrets: []string{"a secret of the tests"}, Ledger: s.ledger, Provider: &authserver.OIDC{Issuer: s.idp.URL, ClientID: "gateway"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, node := range map[string]*authserver.Sessions{"this node": sessions, "another node": authserver.NewSessions(other)} {
		if node.IsOpen(t.Context(), taken) {
			t.Errorf("the session is open on %s after the logout", name)
		}
	}
	if w := end(); w.Code != http.StatusOK {
		t.Errorf("a second logout: %d", w.Code)
	}
}

func TestSession_that_does_not_fit_into_a_cookie(t *testing.T) {
	s := newSite(t, nil)
	s.idp.claims["groups"] = []string{"engineering", strings.Repeat("g", 3000)}
	response, body := s.browser(t).open("/console/calls")
	if response.StatusCode != http.StatusForbidden || !strings.Contains(body, "fewer groups") {
		t.Errorf("status %d: %s", response.StatusCode, body)
	}
}
