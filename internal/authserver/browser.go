package authserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// browserLifetime is how long a browser stays logged in. Then it is sent to the provider again, which usually asks the user nothing.
const browserLifetime = time.Hour

// sessionCookie is the name of the cookie with the session of a browser.
const sessionCookie = "session"

// pagesClient is the client_id of the tokens in sessions of browsers. No client can have it, because the cookies are sealed.
const pagesClient = "pages"

// Sessions log in browsers at pages of the gateway itself, such as the console. A session is a sealed cookie with an access token for these pages,
// and a record that says that the session has not ended.
type Sessions struct{ server *Server }

// A BrowserSession is the content of the cookie.
type BrowserSession struct {
	ID    string `json:"id"`    // of the record
	Token string `json:"token"` // the access token
}

// NewSessions returns the sessions of browsers that log in by the server.
func NewSessions(s *Server) *Sessions { return &Sessions{s} }

// Audience returns the audience of the sessions for the pages at a path of the gateway.
func (b *Sessions) Audience(path string) string { return b.server.origin + path }

// Begin sends a browser to the provider. When the user has logged in, the browser gets a session for the audience, and returns to
// back, the path and the query of a page. The user is not asked for consent, because no application gets access.
func (b *Sessions) Begin(w http.ResponseWriter, r *http.Request, audience, back string) {
	asked := &request{Client: pagesClient, Resource: audience, Back: back, Expires: time.Now().Add(loginWait).Unix()}
	for _, scope := range b.server.options.Scopes {
		asked.Scopes = append(asked.Scopes, scope.Name)
	}
	w.Header().Set("Cache-Control", "no-store")
	b.server.beginLogin(w, r, random(), asked)
}

// finish gives the browser its session, and sends it back to the page.
func (b *Sessions) finish(w http.ResponseWriter, r *http.Request, asked *request, user *User, f *failure) {
	if f != nil {
		b.server.showError(w, http.StatusForbidden, f.description)
		return
	}
	id := random()
	g := &grant{client: pagesClient, user: user, audiences: []string{asked.Resource}, scopes: b.server.granted(asked.Scopes, user), expires: time.Now().Add(browserLifetime)}
	token, err := b.server.accessToken(g)
	sealed := ""
	if err == nil {
		sealed, err = b.server.records.sealed(kindSession, "", BrowserSession{id, token})
	}
	if err != nil || len(sealed) > maxCookie {
		b.server.options.Report("a session does not fit into a cookie", err)
		b.server.showError(w, http.StatusForbidden, "The session does not fit into a cookie. Have the identity provider send fewer groups of the user.")
		return
	}
	opened := &session{Client: pagesClient, Resource: asked.Resource, Scopes: asked.Scopes, User: *user}
	if err := b.server.records.put(r.Context(), sessionKey(id), ownerOf(user.Subject), opened, browserLifetime); err != nil {
		b.server.showError(w, http.StatusServiceUnavailable, b.server.records.failed(err).description)
		return
	}
	b.server.writeCookie(w, sessionCookie, sealed, browserLifetime)
	w.Header().Set("Location", b.server.origin+asked.Back)
	w.WriteHeader(http.StatusSeeOther)
}

// Take removes the cookie with the session from the header of a request, and returns the session. The caller has to verify its token, and that it
// is open. Take returns nil if there is no session of this server.
func (b *Sessions) Take(header http.Header) *BrowserSession {
	name := b.server.cookieName(sessionCookie) + "="
	lines := header["Cookie"]
	var found *BrowserSession
	for i, line := range lines {
		if !strings.Contains(line, name) {
			continue
		}
		var others []string
		for cookie := range strings.SplitSeq(line, ";") {
			value, isSession := strings.CutPrefix(strings.TrimSpace(cookie), name)
			switch read := new(BrowserSession); {
			case !isSession:
				others = append(others, strings.TrimSpace(cookie))
			case found == nil && len(value) <= maxCookie && b.server.records.unsealed(kindSession, "", value, read) == nil:
				found = read
			}
		}
		if lines[i] = strings.Join(others, "; "); len(others) == 0 && len(lines) == 1 {
			header.Del("Cookie")
		}
	}
	return found
}

// IsOpen reports whether a session has not ended. Without the store, none is open.
func (b *Sessions) IsOpen(ctx context.Context, of *BrowserSession) bool {
	err := update(ctx, b.server.records, sessionKey(of.ID), func(*session) (time.Duration, error) { return 0, errCurrent })
	if err != nil && !errors.Is(err, errCurrent) && !errors.Is(err, errGone) {
		_ = b.server.records.failed(err) // reports it
	}
	return errors.Is(err, errCurrent)
}

// End ends the session of a browser on all nodes. The page that the browser gets has a link to again, an address of the gateway.
func (b *Sessions) End(w http.ResponseWriter, r *http.Request, of *BrowserSession, again string) {
	b.server.writeCookie(w, sessionCookie, "", 0)
	err := update(r.Context(), b.server.records, sessionKey(of.ID), func(*session) (time.Duration, error) { return 0, nil })
	if err != nil && !errors.Is(err, errGone) {
		_ = b.server.records.failed(err) // reports it
		b.server.showError(w, http.StatusServiceUnavailable,
			"This browser is logged out, but the gateway's store does not respond: a copy of the session's cookie works until the session expires.")
		return
	}
	b.server.show(w, http.StatusOK, &pageContent{Again: again})
}
