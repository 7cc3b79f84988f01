package auth

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler passes on requests with a valid OAuth access token or API key, and rejects others. It
// uses the providers oauth and api_key, which also work in Caddy's authentication handler. In
// addition it follows the status codes for bearer tokens (RFC 6750), each with a problem
// document (RFC 9457):
//
//   - 400 if credentials are malformed or given twice
//   - 401 if credentials are missing or invalid
//   - 403 if a token lacks a required scope
//   - 503 if a token cannot be verified at the moment
//
// A 401 response has a WWW-Authenticate header with the URL of the resource's metadata, which
// the handler protected_resource serves. Requests for the metadata do not need credentials.
// Neither do preflight requests of browsers (OPTIONS with Access-Control-Request-Method), which
// cannot carry any, and requests for the health of the site's `otc` endpoints.
//
// Placeholders:
//
// Placeholder | Description
// ------------|------------
// `{http.auth.user.id}` | The subject of the token, or the name of the API key; see OAuth
// `{http.auth.user.scope}` | The scopes of the token, separated by spaces
// `{http.auth.user.client_id}` | The client that the token was issued to
// `{http.auth.user.issuer}` | The issuer of the token
type Handler struct {
	// The access tokens to accept. Default: none.
	OAuth *OAuth `json:"oauth,omitempty"`

	// The API keys to accept. Default: none.
	APIKey *APIKey `json:"api_key,omitempty"`

	// Paths that need no credentials, with the syntax of Caddy's path matcher. If a request to
	// such a path has credentials, they are removed and not checked. Default: none.
	Exempt caddyhttp.MatchPath `json:"exempt,omitempty"`

	// Whether to pass on requests without credentials. They have no user and no scopes.
	// Requests with invalid credentials are still rejected. Default: false.
	Optional bool `json:"optional,omitempty"`

	logger *zap.Logger
	site   site.Site
	app    func() (any, error) // the agents app, if there is one
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.agent_auth",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets up the configured providers.
func (a *Handler) Provision(ctx caddy.Context) error {
	a.logger, a.site = ctx.Logger(), site.At(ctx)
	a.app = func() (any, error) { return ctx.AppIfConfigured("agents") }
	if agents, err := a.app(); err == nil && agents != nil {
		agents.(*site.App).AddDigest(a)
	}
	if a.OAuth != nil {
		a.OAuth.qualifyIDs = a.APIKey != nil
		if err := a.OAuth.Provision(ctx); err != nil {
			return err
		}
	}
	if a.APIKey != nil {
		if err := a.APIKey.Provision(ctx); err != nil {
			return err
		}
	}
	return a.Exempt.Provision(ctx)
}

// Validate rejects a handler without any provider, because every request would be rejected.
func (a *Handler) Validate() error {
	if a.OAuth == nil && a.APIKey == nil {
		return errors.New("agent_auth has neither an issuer nor an API key, so it would reject every request")
	}
	return nil
}

// Cleanup releases what Provision opened.
func (a *Handler) Cleanup() error {
	if a.OAuth != nil {
		return a.OAuth.Cleanup()
	}
	return nil
}

// ServeHTTP passes an authenticated request on and rejects others.
func (a *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if a.isExempt(r) {
		a.removeCredentials(r)
		return next.ServeHTTP(w, r)
	}
	user, err := a.authenticate(r)
	if err != nil {
		if a.serveStranger(w, r, err) {
			return nil
		}
		return a.reject(w, r, err)
	}
	if user.ID != "" {
		setUser(r, user)
	}
	if !a.Optional {
		caddyhttp.SetVar(r.Context(), identity.VarLogin, a.login())
	}
	return next.ServeHTTP(w, r)
}

// serveStranger responds to a request without credentials if it is for the health of an otc endpoint, or if it comes from a
// browser that can log in. Such a request reaches no other handler.
func (a *Handler) serveStranger(w http.ResponseWriter, r *http.Request, err error) bool {
	if refusal, ok := errors.AsType[*oauth.Error](err); !ok || refusal.Code != oauth.Missing {
		return false
	}
	if agents, err := a.app(); err == nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		if serve := agents.(*site.App).PublicHealth(a.site, r.URL.Path); serve != nil {
			serve(w, r)
			return true
		}
	}
	return a.OAuth != nil && a.OAuth.site != nil && site.BrowserOf(r).SendToLogin(w, r)
}

// login describes the credentials that every request needs.
func (a *Handler) login() *identity.Login {
	if a.OAuth == nil {
		return new(identity.Login)
	}
	return a.OAuth.login()
}

// Anonymous returns what passes without credentials: all requests, or those for the paths. Package siteroutes needs it for
// its warnings.
func (a *Handler) Anonymous() (all bool, paths *caddyhttp.MatchPath) { return a.Optional, &a.Exempt }

// isExempt reports whether a request needs no credentials.
func (a *Handler) isExempt(r *http.Request) bool {
	if r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		return true
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, oauth.WellKnown); ok && isReadMethod(r.Method) && (rest == "" || rest[0] == '/') && isUnambiguousPath(rest) {
		return true
	}
	matches, err := a.Exempt.MatchWithError(r)
	return err == nil && matches
}

// isReadMethod reports whether a method can only read the metadata. Requests with other methods
// reach the next handlers.
func isReadMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// isUnambiguousPath reports whether all handlers interpret the path in the same way. A path with dot
// segments, escapes or empty segments could be normalized to another path by a later handler.
func isUnambiguousPath(path string) bool {
	return !strings.Contains(path, "..") && !strings.ContainsAny(path, `\%;`) && !strings.Contains(path, "//")
}

// removeKey removes this gateway's credentials from a request that does not need them.
func (a *Handler) removeCredentials(r *http.Request) {
	if a.OAuth != nil {
		a.OAuth.removeToken(r)
	}
	if a.APIKey != nil {
		a.APIKey.removeKey(r)
	}
}

// authenticate returns the user of a request. For an allowed request without credentials the
// user has no ID. The error is an *oauth.Error if the request must be rejected.
func (a *Handler) authenticate(r *http.Request) (caddyauth.User, error) {
	var token, key string
	var err error
	if a.OAuth != nil {
		if token, err = oauth.Bearer(r.Header); err != nil {
			return caddyauth.User{}, err
		}
	}
	if a.APIKey != nil {
		if key, err = a.APIKey.read(r); err != nil {
			return caddyauth.User{}, err
		}
	}
	switch {
	case token != "" && key != "":
		return caddyauth.User{}, &oauth.Error{
			Code:        oauth.InvalidRequest,
			Description: "the request has both an access token and an API key; send one",
		}
	case token != "":
		return a.OAuth.verify(r, token)
	case key != "":
		return a.APIKey.verify(r, key)
	case a.OAuth != nil && a.OAuth.site != nil && site.BrowserOf(r).LoggedIn():
		return a.OAuth.verify(r, "")
	case a.Optional:
		if a.OAuth != nil {
			a.OAuth.setAccessVars(r, nil)
		}
		caddyhttp.SetVar(r.Context(), identity.VarSignIn, func(scopes []string) string { return a.signIn(r, scopes) })
		return caddyauth.User{}, nil
	}
	if a.OAuth != nil {
		a.OAuth.warm()
	}
	return caddyauth.User{}, &oauth.Error{Code: oauth.Missing, Description: "no credentials: send " + a.acceptedCredentials()}
}

// acceptedCredentials describes the credentials that a client may send.
func (a *Handler) acceptedCredentials() string {
	var kinds []string
	if a.OAuth != nil {
		kinds = append(kinds, "an access token as Authorization: Bearer")
	}
	if a.APIKey != nil {
		kinds = append(kinds, "an API key in "+a.APIKey.location())
	}
	return strings.Join(kinds, ", or ")
}

// reject writes the response for a rejected request.
func (a *Handler) reject(w http.ResponseWriter, r *http.Request, err error) error {
	refusal, ok := errors.AsType[*oauth.Error](err)
	if !ok {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	if c := a.logger.Check(zapcore.DebugLevel, "rejected a request"); c != nil {
		c.Write(zap.String("code", string(refusal.Code)), zap.String("reason", refusal.Description))
	}
	switch refusal.Code {
	case oauth.Unavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	default:
		w.Header().Set("Www-Authenticate", a.challenge(r, refusal))
	}
	respond.WriteProblem(w, refusal.Status(), problemTitles[refusal.Code], text.Sentence(refusal.Description))
	return nil
}

// challenge returns the WWW-Authenticate header of the response.
func (a *Handler) challenge(r *http.Request, refusal *oauth.Error) string {
	if a.OAuth != nil {
		return a.OAuth.challenge(r, refusal)
	}
	return a.APIKey.challenge()
}

// signIn returns the challenge for a token with the scopes, by default those that clients are to request. There is no error, because the request has no
// credentials (RFC 6750, section 3.1).
func (a *Handler) signIn(r *http.Request, scopes []string) string {
	if a.OAuth == nil || len(scopes) == 0 {
		return a.challenge(r, &oauth.Error{Code: oauth.Missing})
	}
	scopes = slices.Concat(a.OAuth.RequireScope, scopes)
	slices.Sort(scopes)
	return oauth.ChallengeOf(nil, slices.Compact(scopes), a.OAuth.resource.metadataURL(r)).String()
}

// problemTitles are the titles of the problem documents.
var problemTitles = map[oauth.Code]string{
	oauth.Missing:           "Authentication required",
	oauth.InvalidRequest:    "Malformed credentials",
	oauth.InvalidToken:      "Invalid credentials",
	oauth.InsufficientScope: "Insufficient scope",
	oauth.Unavailable:       "Access token cannot be verified",
}

// setUser sets the placeholders of a user, as Caddy's authentication handler does.
func setUser(r *http.Request, user caddyauth.User) {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	repl.Set("http.auth.user.id", user.ID)
	for name, value := range user.Metadata {
		repl.Set("http.auth.user."+name, value)
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
