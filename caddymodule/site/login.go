package site

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// A Login is the login of a site, which the directive agent_login sets up.
type Login interface {
	// TokenIssuer returns the issuer of the site's access tokens, and what verifies them. The error is an *oauth.Error.
	TokenIssuer(ctx context.Context) (issuer string, tokens Tokens, err error)

	// Origin returns the scheme and host at which clients reach the site, and ScopeNames the scopes that tokens may have.
	Origin() string
	ScopeNames() []string

	// Issues reports whether the login itself has issued the verified tokens of the site. If not, they are those of the identity provider.
	Issues() bool

	sessions
}

// Tokens verifies access tokens (package oauth/verify). Its errors are *oauth.Error.
type Tokens interface {
	// VerifyFrom returns the content of a token that was sent from an address, and that is for one of the audiences.
	VerifyFrom(ctx context.Context, address, token string, audiences ...string) (*oauth.Token, error)

	// Inspect returns the content of a token whose signature is valid, also if it is refused for another reason.
	Inspect(ctx context.Context, token string) (*oauth.Token, error)

	// ValidUntil returns until when a verified token is accepted.
	ValidUntil(token *oauth.Token) time.Time
}

type siteLogin struct {
	site  Site
	login Login
}

// AddLogin makes the agent_auth handlers of the site trust the login.
func (a *App) AddLogin(at Site, l Login) { a.logins = append(a.logins, siteLogin{at, l}) }

// LoginAt returns the login of a site, or nil. Only handlers that are already provisioned are included.
func (a *App) LoginAt(at Site) Login {
	for _, l := range a.logins {
		if l.site.SameSite(at) {
			return l.login
		}
	}
	return nil
}

// sitePages are pages of the gateway that users open with a browser.
type sitePages struct {
	site Site
	path string
	owns func(*http.Request) bool
}

// AddPages makes the login of the site, if there is one, log in the users of pages at a path. Owns reports whether a request is for them.
func (a *App) AddPages(at Site, path string, owns func(*http.Request) bool) {
	a.pages = append(a.pages, sitePages{at, path, owns})
}

// PagesAt returns the path of the pages that a request to the site is for. It returns false if the request is for none.
func (a *App) PagesAt(at Site, r *http.Request) (path string, ok bool) {
	for _, p := range a.pages {
		if p.site.SameSite(at) && p.owns(r) {
			return p.path, true
		}
	}
	return "", false
}

// Browser is a browser that requests a page of the gateway on a site with a login. The login puts it into the context of the request.
type Browser struct {
	// Token is the content of the verified token of the user, nil if no one is logged in. Text is the token, and Audience what it is for.
	Token          *oauth.Token
	Text, Audience string

	// Begin sends the browser to the login, from which it comes back to the requested page. End ends the session
	// on all nodes; it is nil if no one is logged in.
	Begin func(http.ResponseWriter, *http.Request)
	End   func(w http.ResponseWriter, again string)
}

type browserKey struct{}

// ContextWithBrowser returns a context with a browser, or with none if b is nil.
func ContextWithBrowser(ctx context.Context, b *Browser) context.Context {
	return context.WithValue(ctx, browserKey{}, b)
}

// BrowserOf returns the browser that a request comes from. It is nil unless the request is for a page of the gateway, and a login has seen it.
// Requests that the page makes in this process for the user have it too.
func BrowserOf(r *http.Request) *Browser {
	b, _ := r.Context().Value(browserKey{}).(*Browser)
	return b
}

// LoggedIn reports whether a user is logged in.
func (b *Browser) LoggedIn() bool { return b != nil && b.Token != nil }

// SendToLogin sends the browser to the login, and reports whether it has done so: only if it requests a page, and no one is logged in. A part of
// a page that updates itself loads the whole page again instead.
func (b *Browser) SendToLogin(w http.ResponseWriter, r *http.Request) bool {
	if b == nil || b.Token != nil || r.Method != http.MethodGet {
		return false
	}
	if r.Header.Get("Hx-Request") != "" {
		w.Header().Set("Hx-Refresh", "true")
		return false
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	b.Begin(w, r)
	return true
}
