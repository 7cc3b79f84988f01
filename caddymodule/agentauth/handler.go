package agentauth

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler lets requests through that bring an OAuth access token or an API key.
// It does with the providers oauth and api_key what Caddy's authentication
// handler does with any, and beyond that what the rules for bearer tokens ask
// for and that handler cannot say: 400 for credentials that are malformed or come
// twice, 403 for tokens that allow too little, 503 while a token can be neither
// accepted nor refused, each with a problem document (RFC 9457).
//
// A request without credentials is answered 401 with a WWW-Authenticate that
// names the metadata of the resource; the handler protected_resource serves that.
// Preflights of browsers (OPTIONS with Access-Control-Request-Method), which never
// have credentials, and the metadata themselves are let through.
//
// Placeholders:
//
// Placeholder | Description
// ------------|------------
// `{http.auth.user.id}` | The subject of the token, or the name of the API key; see OAuth
// `{http.auth.user.scope}` | The scopes of the token, with spaces between them
// `{http.auth.user.client_id}` | The client that the token was given to
// `{http.auth.user.issuer}` | The issuer of the token
type Handler struct {
	// Which access tokens are accepted. Default: none.
	OAuth *OAuth `json:"oauth,omitempty"`

	// Which API keys are accepted. Default: none.
	APIKey *APIKey `json:"api_key,omitempty"`

	// Paths that need no credentials, as in Caddy's path matcher. What comes with
	// credentials nevertheless goes on without them.
	Exempt caddyhttp.MatchPath `json:"exempt,omitempty"`

	// Lets requests without credentials through, as nobody: no user is set, and
	// the scopes are none. Bad credentials are refused all the same.
	Optional bool `json:"optional,omitempty"`

	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.agent_auth",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets up the two kinds of credentials.
func (a *Handler) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	if a.OAuth != nil {
		a.OAuth.qualified = a.APIKey != nil
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

// Validate refuses a handler that nobody could pass.
func (a *Handler) Validate() error {
	if a.OAuth == nil && a.APIKey == nil {
		return errors.New("no issuer and no API key: nobody could ever be let through")
	}
	return nil
}

// Cleanup gives up what Provision opened.
func (a *Handler) Cleanup() error {
	if a.OAuth != nil {
		return a.OAuth.Cleanup()
	}
	return nil
}

// ServeHTTP passes a request on with its user, or refuses it.
func (a *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if a.isOpen(r) {
		a.strip(r)
		return next.ServeHTTP(w, r)
	}
	user, err := a.authenticate(r)
	if err != nil {
		return a.refuse(w, r, err)
	}
	if user.ID != "" {
		setUser(r, user)
	}
	if !a.Optional {
		caddyhttp.SetVar(r.Context(), VarLogin, a.login())
	}
	return next.ServeHTTP(w, r)
}

// login is what every request needs.
func (a *Handler) login() *mcpadapter.Login {
	if a.OAuth == nil {
		return new(mcpadapter.Login)
	}
	return a.OAuth.login()
}

// isOpen reports whether a request needs no credentials.
func (a *Handler) isOpen(r *http.Request) bool {
	if r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		return true
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, oauth.WellKnown); ok && readsOnly(r.Method) && (rest == "" || rest[0] == '/') && plainPath(rest) {
		return true
	}
	matches, err := a.Exempt.MatchWithError(r)
	return err == nil && matches
}

// readsOnly reports whether a method is one by which metadata are read: what else
// comes to their path goes on to the handlers behind.
func readsOnly(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// plainPath reports whether no handler can read the path as another one.
func plainPath(path string) bool {
	return !strings.Contains(path, "..") && !strings.ContainsAny(path, `\%;`) && !strings.Contains(path, "//")
}

// strip removes credentials for this gateway from a request that is not asked for
// them.
func (a *Handler) strip(r *http.Request) {
	if a.OAuth != nil {
		a.OAuth.strip(r)
	}
	if a.APIKey != nil {
		a.APIKey.strip(r)
	}
}

// authenticate returns the user of a request, without an ID if it is nobody and
// may be. The error is what refuses it.
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
			Description: "the request has both an access token and an API key: send one",
		}
	case token != "":
		return a.OAuth.judge(r, token)
	case key != "":
		return a.APIKey.judge(r, key)
	case a.Optional:
		if a.OAuth != nil {
			a.OAuth.anonymous(r)
		}
		return caddyauth.User{}, nil
	}
	if a.OAuth != nil {
		a.OAuth.issuers.Warm() // a token is likely to follow
	}
	return caddyauth.User{}, &oauth.Error{Code: oauth.Missing, Description: "no credentials: send " + a.accepted()}
}

// accepted says which credentials a client may send.
func (a *Handler) accepted() string {
	var ways []string
	if a.OAuth != nil {
		ways = append(ways, "an access token in the header Authorization, as Bearer")
	}
	if a.APIKey != nil {
		ways = append(ways, "an API key in "+a.APIKey.place())
	}
	return strings.Join(ways, ", or ")
}

// refuse answers a request that is not let through.
func (a *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	refusal, ok := errors.AsType[*oauth.Error](err)
	if !ok {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	if c := a.logger.Check(zapcore.DebugLevel, "refused a request"); c != nil {
		c.Write(zap.String("code", string(refusal.Code)), zap.String("reason", refusal.Description))
	}
	switch refusal.Code {
	case oauth.Unavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	default:
		w.Header().Set("Www-Authenticate", a.challenge(r, refusal))
	}
	agents.WriteProblem(w, refusal.Status(), refusalTitles[refusal.Code], text.Sentence(refusal.Description))
	return nil
}

func (a *Handler) challenge(r *http.Request, refusal *oauth.Error) string {
	if a.OAuth != nil {
		return a.OAuth.challenge(r, refusal)
	}
	return a.APIKey.challenge()
}

// refusalTitles has the title of the problem document for each kind of refusal.
var refusalTitles = map[oauth.Code]string{
	oauth.Missing:           "Authentication is needed",
	oauth.InvalidRequest:    "The credentials are malformed",
	oauth.InvalidToken:      "The credentials are not accepted",
	oauth.InsufficientScope: "The access token allows too little",
	oauth.Unavailable:       "The access token cannot be verified now",
}

// setUser makes the placeholders of a user known, as Caddy's own handler does.
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
