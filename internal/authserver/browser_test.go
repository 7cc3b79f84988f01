package authserver_test

import (
	"net/http"
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
	if session == nil || !session.Secure || !session.HttpOnly || session.SameSite != http.SameSiteLaxMode || session.Path != "/" || session.Domain != "" || session.MaxAge != 3600 {
		t.Fatalf("the cookie is %v", session)
	}
	if strings.Contains(session.Value, "eyJ") {
		t.Error("the cookie contains a token in plain text")
	}
	header := http.Header{"Cookie": {"a=1; __Host-fairway-session=" + session.Value + "; b=2"}}
	claims := b.claims(authserver.NewSessions(s.front).Take(header))
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
		if token := authserver.NewSessions(s.front).Take(header); token != "" || header.Get("Cookie") != "" {
			t.Errorf("the session %.10q is taken as %q, and leaves %q", value, token, header.Get("Cookie"))
		}
	}
	if len(s.ledger.records) != 1 {
		t.Errorf("there are %d records, want the one that says that the login was completed", len(s.ledger.records))
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
