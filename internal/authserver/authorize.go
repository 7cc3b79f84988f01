package authserver

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// A request is what a client asks for, after it was checked. It travels in sealed cookies until the code is issued.
type request struct {
	Client    string   `json:"c"`
	Redirect  string   `json:"r"`
	State     string   `json:"s,omitempty"` // of the client
	Challenge string   `json:"p"`           // PKCE, S256
	Resource  string   `json:"a"`
	Scopes    []string `json:"o,omitempty"`
	Expires   int64    `json:"e"` // seconds since 1970
	Login     *Login   `json:"l,omitempty"`
	Back      string   `json:"b,omitempty"` // path of a page of the gateway, which the browser returns to; "" if a client wants a code
}

// loginWait is how long a user may take to log in.
const loginWait = 15 * time.Minute

// authorize checks what a client asks for and shows the consent page (RFC 6749, section 4.1.1). The page is shown for each login, because the provider
// asks for the user's consent to the gateway only, and not to the client.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.showError(w, http.StatusBadRequest, "The address of the login is malformed.")
		return
	}
	for name, values := range query {
		if len(values) > 1 {
			s.showError(w, http.StatusBadRequest, "The parameter "+name+" is given twice.")
			return
		}
	}
	c, f := s.clients.client(r.Context(), query.Get("client_id"), NetworkOf(r))
	if f != nil {
		s.showError(w, http.StatusBadRequest, f.description)
		return
	}
	redirect := query.Get("redirect_uri")
	if redirect == "" && len(c.RedirectURIs) == 1 {
		redirect = c.RedirectURIs[0]
	}
	if !c.redirects(redirect) {
		// The browser must not be sent to an address that the client has not registered.
		s.showError(w, http.StatusBadRequest, "The redirect address is not one that the application has registered.")
		return
	}
	asked := &request{Client: c.ID, Redirect: redirect, State: query.Get("state"), Challenge: query.Get("code_challenge"), Expires: time.Now().Add(loginWait).Unix()}
	if f := s.readRequest(asked, query); f != nil {
		if s.clients.fixed[c.ID] != nil {
			s.redirectFailure(w, r, asked, f)
			return
		}
		// Anyone can register a client, so a link to this server must not lead to its address without a page (RFC 9700, section 4.11.2).
		s.show(w, http.StatusBadRequest, &pageContent{Error: f.description, Name: c.name(), Back: template.URL(asked.location(s.options.Issuer, f.query()))}) //nolint:gosec // the address has an allowed scheme
		return
	}
	id := random()
	if err := s.setCookie(w, id, kindConsent, asked); err != nil {
		s.showError(w, http.StatusBadRequest, "The request of the application is too large.")
		return
	}
	s.showConsent(w, c, asked, id)
}

// readRequest checks the parameters other than the client and its redirect URI.
func (s *Server) readRequest(asked *request, query url.Values) *failure {
	switch {
	case query.Get("request") != "" || query.Get("request_uri") != "":
		return fail("request_not_supported", "Send the parameters in the address.")
	case query.Get("response_type") != "code":
		return fail(codeType, "The server supports response_type=code only.")
	case query.Get("response_mode") != "" && query.Get("response_mode") != "query":
		return fail(codeRequest, "The server supports response_mode=query only.")
	case query.Get("code_challenge_method") != "S256" || len(asked.Challenge) != 43:
		return fail(codeRequest, "PKCE is required: send code_challenge and code_challenge_method=S256.")
	case len(asked.State) > maxState:
		asked.State = ""
		return fail(codeRequest, "The state is longer than 1,024 bytes.")
	case query.Get("prompt") == "none":
		return fail("consent_required", "The user has to agree to each login.")
	}
	var f *failure
	if asked.Resource, _, f = s.targets.of(query.Get("resource")); f != nil {
		return f
	}
	for name := range strings.FieldsSeq(query.Get("scope")) {
		if slices.ContainsFunc(s.options.Scopes, func(known Scope) bool { return known.Name == name }) && !slices.Contains(asked.Scopes, name) {
			asked.Scopes = append(asked.Scopes, name)
		}
	}
	return nil
}

// targets are what tokens may be for.
type targets struct {
	origin string                 // of the issuer, in normal form
	known  func() oauth.Resources // Options.Resources
}

// of returns the normal form of the resource that a client names, and the audiences of its tokens. By default, and if the client names the issuer's
// origin, these are all resources of the site: some clients name none or the origin, whatever the metadata of the resource say.
func (t *targets) of(text string) (named string, audiences []string, f *failure) {
	named, err := oauth.NormalResource(cmp.Or(text, t.origin))
	if err != nil || len(text) > maxURI {
		return "", nil, fail(codeTarget, "The resource is not an absolute URL without user, query and fragment.")
	}
	var all oauth.Resources
	if t.known != nil {
		all = t.known()
	}
	if len(all) == 0 { // others verify the tokens
		all = oauth.Resources{{URL: t.origin}}
		if oauth.IsWithin(named, t.origin) {
			all[0].Parts = []string{named}
		}
	}
	if audiences = all.Audiences(named, t.origin); len(audiences) == 0 {
		return "", nil, fail(codeTarget, "The resource is none of this site. Tokens are issued for: "+strings.Join(all.List(), ", ")+".")
	}
	return named, audiences, nil
}

// narrowed returns the audiences of a token of a login. The token request may name a part of what the login is for (RFC 8707, section 2.2).
func (t *targets) narrowed(login, text string) ([]string, *failure) {
	_, audiences, f := t.of(login)
	if f != nil {
		return nil, fail(codeGrant, "The resource of the login is none of this site any more; log in again.")
	}
	named, part, f := t.of(text)
	if f != nil || named == t.origin {
		return audiences, f
	}
	for _, one := range part {
		if !slices.ContainsFunc(audiences, func(a string) bool { return oauth.IsWithin(one, a) }) {
			return nil, fail(codeTarget, "The resource is not the one of the login.")
		}
	}
	return part, nil
}

// redirectFailure reports a failure to the client by the browser (RFC 6749, section 4.1.2.1; RFC 9207, section 2).
func (s *Server) redirectFailure(w http.ResponseWriter, r *http.Request, asked *request, f *failure) {
	s.redirect(w, r, asked, f.query())
}

// redirect sends the browser back to the client.
func (s *Server) redirect(w http.ResponseWriter, r *http.Request, asked *request, query url.Values) {
	w.Header().Set("Location", asked.location(s.options.Issuer, query))
	w.WriteHeader(http.StatusSeeOther)
}

// location returns the address of the client with a response of the issuer.
func (asked *request) location(issuer string, query url.Values) string {
	query.Set("iss", issuer)
	if asked.State != "" {
		query.Set("state", asked.State)
	}
	separator := "?"
	if strings.Contains(asked.Redirect, "?") {
		separator = "&"
	}
	return asked.Redirect + separator + query.Encode()
}

// loginCookie and its id are the name of the cookie of one login. Each login has a cookie of its own, so that several can be under way in one browser.
const loginCookie = "login-"

// cookieName returns the full name of a cookie.
func (s *Server) cookieName(name string) string {
	if s.secure {
		return "__Host-fairway-" + name
	}
	return "fairway-" + name // browsers accept __Host- with https only
}

// maxCookie is the length of a cookie that all browsers accept.
const maxCookie = 4000

// setCookie gives the browser the sealed state of a login. It binds the login to the browser: another browser cannot continue it.
func (s *Server) setCookie(w http.ResponseWriter, id string, purpose kind, asked *request) error {
	value, err := s.records.sealed(purpose, id, asked)
	if err != nil {
		return err
	}
	if len(value) > maxCookie {
		return errors.New("the state of the login is too large for a cookie")
	}
	s.writeCookie(w, loginCookie+id, value, loginWait)
	return nil
}

// writeCookie sets a cookie for a time, or deletes it if that is 0.
func (s *Server) writeCookie(w http.ResponseWriter, name, value string, lasts time.Duration) {
	maxAge := cmp.Or(int(lasts.Seconds()), -1)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is left out for an issuer on loopback without https only
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: maxAge, Secure: s.secure, HttpOnly: true,
		// Lax, because the provider sends the browser back from another site, and so that links in messages lead to a page.
		SameSite: http.SameSiteLaxMode,
	})
}

// fromCookie returns the state of a login that this browser has begun.
func (s *Server) fromCookie(r *http.Request, id string, purpose kind) (*request, bool) {
	if len(id) != len(random()) {
		return nil, false
	}
	cookie, err := r.Cookie(s.cookieName(loginCookie + id))
	if err != nil {
		return nil, false
	}
	asked := new(request)
	if err := s.records.unsealed(purpose, id, cookie.Value, asked); err != nil || time.Now().After(time.Unix(asked.Expires, 0)) {
		return nil, false
	}
	return asked, true
}
