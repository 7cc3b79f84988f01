package authserver

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// codeLifetime is how long a client may take to exchange its code.
const codeLifetime = time.Minute

// notBegun explains why a login cannot go on. The usual reasons are a page that was open for too long, and a link that was opened in another browser.
const notBegun = "This browser has not begun the login, or took longer than 15 minutes. Start again from the application."

// consent continues a login whose user has answered the consent page.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || !s.isOwnPage(r) {
		s.showError(w, http.StatusBadRequest, "The answer does not come from the page of this server.")
		return
	}
	id := r.PostForm.Get("login")
	asked, ok := s.fromCookie(r, id, kindConsent)
	if !ok {
		s.showError(w, http.StatusBadRequest, notBegun)
		return
	}
	if r.PostForm.Get("answer") != "allow" {
		s.writeCookie(w, loginCookie+id, "", 0)
		s.redirectFailure(w, r, asked, fail(codeDenied, "The user did not agree."))
		return
	}
	s.beginLogin(w, r, id, asked)
}

// beginLogin sends the browser to the provider.
func (s *Server) beginLogin(w http.ResponseWriter, r *http.Request, id string, asked *request) {
	asked.Login = &Login{State: id, Nonce: random(), Verifier: random() + random(), Callback: s.Callback(), Once: asked.Back != ""}
	address, err := s.options.Provider.LoginURL(r.Context(), asked.Login)
	if err != nil {
		s.options.Report("the identity provider cannot be reached", err)
		s.showError(w, http.StatusServiceUnavailable, "The identity provider cannot be reached. Try again in a few minutes.")
		return
	}
	if err := s.setCookie(w, id, kindLogin, asked); err != nil {
		s.showError(w, http.StatusBadRequest, "The request of the application is too large.")
		return
	}
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// isOwnPage reports whether a form was sent by a page of this server.
func (s *Server) isOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin := r.Header.Get("Origin")
	return origin == s.origin
}

// callback completes a login when the provider has sent the browser back.
func (s *Server) callback(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	id := query.Get("state")
	asked, ok := s.fromCookie(r, id, kindLogin)
	if !ok {
		s.showError(w, http.StatusBadRequest, notBegun)
		return
	}
	s.writeCookie(w, loginCookie+id, "", 0)
	user, tokens, f := s.complete(r, asked, query)
	if f == nil {
		f = admit(r.Context(), s, user, asked.Client)
	}
	if asked.Back != "" {
		NewSessions(s).finish(w, r, asked, user, f)
		return
	}
	var code string
	if f == nil {
		code, f = s.issueCode(r, asked, user, tokens)
	}
	if f != nil {
		s.redirectFailure(w, r, asked, f)
		return
	}
	s.redirect(w, r, asked, url.Values{"code": {code}})
}

// admit checks whether a user may log in, and reports the login to Options.Audit.
func admit(ctx context.Context, s *Server, user *User, client string) *failure {
	event, f := "logged_in", (*failure)(nil)
	if !s.options.Allow.allows(user) {
		event, f = "denied", fail(codeDenied, "You may not log in here: the operator allows certain users and groups only.")
	}
	if err := s.options.Audit(ctx, event, user, client); err != nil && f == nil {
		return s.records.failed(err)
	}
	return f
}

// complete exchanges the provider's code.
func (s *Server) complete(r *http.Request, asked *request, query url.Values) (*User, *Tokens, *failure) {
	isFirst, err := s.records.once(r.Context(), "login/"+asked.Login.State, NetworkOf(r), loginWait)
	if err != nil {
		return nil, nil, s.records.failed(err)
	}
	switch code := query.Get("error"); {
	case !isFirst:
		return nil, nil, fail(codeDenied, "The login was completed before.")
	case code == codeDenied:
		return nil, nil, fail(codeDenied, "The identity provider did not log the user in.")
	case code != "":
		s.options.Report("the identity provider refuses logins", errors.New(cutCode(code)))
		return nil, nil, fail(codeServer, "The identity provider refused the login with "+cutCode(code)+".")
	}
	user, tokens, err := s.options.Provider.Complete(r.Context(), asked.Login, query.Get("code"))
	switch {
	case errors.Is(err, ErrRefused):
		return nil, nil, fail(codeDenied, "The identity provider did not accept the login.")
	case errors.Is(err, errNoGroups):
		s.options.Report("a user cannot log in", err)
		return nil, nil, fail(codeServer, sentence(err))
	case err != nil:
		s.options.Report("a login at the identity provider failed", err)
		return nil, nil, fail(codeUnavailable, "The identity provider cannot complete the login at the moment.")
	case user.Subject == "" || len(user.Subject) > maxName:
		return nil, nil, fail(codeServer, "The identity provider gave no usable identifier of the user.")
	}
	return user, tokens, nil
}

// cutCode returns an error code of a provider in a form that can be shown.
func cutCode(code string) string {
	code = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, code)
	return code[:min(len(code), 64)]
}

// granted returns the scopes that a user gets of those asked for.
func (s *Server) granted(asked []string, user *User) (granted []string) {
	for _, scope := range s.options.Scopes {
		mayHave := len(scope.Groups) == 0 || slices.ContainsFunc(user.Groups, func(g string) bool { return slices.Contains(scope.Groups, g) })
		if mayHave && slices.Contains(asked, scope.Name) {
			granted = append(granted, scope.Name)
		}
	}
	return granted
}

// issueCode records a session that the client can take up with the code, once.
func (s *Server) issueCode(r *http.Request, asked *request, user *User, tokens *Tokens) (string, *failure) {
	code := random() + random()
	pending := &codeRecord{Request: *asked, User: *user, Tokens: *tokens}
	pending.Request.Login = nil
	if err := s.records.put(r.Context(), codeKey(code), ownerOf(user.Subject), pending, codeLifetime); err != nil {
		return "", s.records.failed(err)
	}
	return code, nil
}

// codeRecord is what a code stands for. After its use, only Session remains, so that a second use can end that session.
type codeRecord struct {
	Request request   `json:"request,omitzero"`
	User    User      `json:"user,omitzero"`
	Tokens  Tokens    `json:"tokens,omitzero"`
	Session string    `json:"session,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}
