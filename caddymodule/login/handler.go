package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/auth"
	"github.com/fairwayhq/fairway/caddymodule/bodies"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/authserver"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/oauth/verify"
	"github.com/fairwayhq/fairway/internal/respond"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler lets MCP clients log in with the users of an identity provider that such clients cannot use by themselves. It is an OAuth 2.1
// authorization server: it knows clients by metadata documents, by registration, and by configuration; has each user agree to each client;
// sends the user to the identity provider; and issues access tokens for the addresses of the site. The handler agent_auth of the same site
// trusts these tokens without further options.
//
// Browsers that open the console of the site (agents_console) without credentials log in at the same identity provider. They get a session in a
// cookie, which the handler removes from all requests.
//
// If the identity provider accepts client ID metadata documents itself, the handler issues nothing: agent_auth names the provider to clients, and trusts its tokens.
//
// Its endpoints are below its path: /authorize, /consent, /callback, /token, /register, /revoke and /jwks. The address that the identity provider has to know is the issuer followed
// by the path and /callback. The metadata are at the well-known addresses of RFC 8414 and of OpenID Connect. Requests for other addresses are passed on unchanged.
//
// Sessions are in the store of the agents app, encrypted. Any node with the same secret and store can serve any step.
type Handler struct {
	// The identity provider. Required.
	Provider Provider `json:"provider"`

	// The issuer of the tokens: the site's public origin, such as https://tools.example.com. Default: the site's address if it has exactly one and listens on port 443.
	Issuer string `json:"issuer,omitempty"`

	// The path that precedes the endpoints. Default: /login.
	Path string `json:"path,omitempty"`

	// The secret from which all keys are derived, with at least 16 bytes; the same on all nodes. Placeholders such as {env.LOGIN_SECRET} are replaced. Required.
	Secret string `json:"secret,omitempty"`

	// The secret before the current one. What it signed or sealed stays valid. Default: none.
	PreviousSecret string `json:"previous_secret,omitempty"`

	// Who may log in. Default: every user of the provider, but required for google and github, where everyone can have an account.
	Allow Allow `json:"allow,omitzero"`

	// The scopes that tokens may have. Others that a client asks for are not granted. Default: none.
	Scopes []authserver.Scope `json:"scopes,omitempty"`

	// Clients with a fixed ID. Other clients register themselves or have a metadata document. Default: none.
	Clients []Client `json:"clients,omitempty"`

	// How long access tokens are valid. Default: 10m.
	TokenLifetime caddy.Duration `json:"token_lifetime,omitempty"`

	// How long a session lasts without a refresh. Default: 30d.
	SessionLifetime caddy.Duration `json:"session_lifetime,omitempty"`

	// Whether to issue tokens also if the identity provider accepts client ID metadata documents itself. Default: false.
	OwnTokens bool `json:"own_tokens,omitempty"`

	logger   *zap.Logger
	app      *site.App
	store    *stores.Section
	bodies   *bodies.Section
	recorder audit.Recorder // nil if logins are not recorded
	site     site.Site
	server   *authserver.Server
	provider authserver.Provider
	tokens   *verify.Verifier // verifies the server's tokens

	deciding sync.Mutex
	decided  atomic.Pointer[decision] // nil until the provider's metadata are known
}

// decision is who issues the tokens of the site.
type decision struct {
	issuer string
	tokens *verify.Verifier
	isOurs bool
}

// Allow selects who may log in. A user needs to match one of the lists.
type Allow struct {
	authserver.Allow
	// Whether everyone with an account at the provider may log in. Default: false.
	Anyone bool `json:"anyone,omitempty"`
}

// Client is a client with a fixed ID.
type Client struct {
	authserver.Client
	// The secret of the client. Use a placeholder such as {env.CRON_SECRET}. Default: none; the client is public.
	Secret string `json:"secret,omitempty"`
	// The file with the JWK set of a client that authenticates itself with a private key. Default: none.
	JWKS string `json:"jwks,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.agent_login",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets up the authorization server.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	options := authserver.Options{
		Path: h.Path, TokenLifetime: time.Duration(h.TokenLifetime), SessionLifetime: time.Duration(h.SessionLifetime),
		Allow: h.Allow.Allow, Scopes: h.Scopes, Report: h.report, Audit: h.audit,
		Resources: func() oauth.Resources { return h.app.Resources.OfLogin(h.site, h.server.Origin()) },
	}
	if options.Issuer, err = h.publicAddress(ctx); err != nil {
		return err
	}
	if options.Secrets, err = directive.Secrets("agent_login", "LOGIN_SECRET", h.Secret, h.PreviousSecret); err != nil {
		return err
	}
	if h.provider, err = h.Provider.open(); err != nil {
		return err
	}
	options.Provider = h.provider
	if err := h.checkAllow(); err != nil {
		return err
	}
	for i := range h.Clients {
		c, err := h.Clients[i].open()
		if err != nil {
			return fmt.Errorf("client %s: %w", h.Clients[i].ID, err)
		}
		options.Clients = append(options.Clients, *c)
	}
	if err := h.join(ctx); err != nil {
		return err
	}
	options.Ledger = &ledger{open: h.store.OpenStore, prefix: "login/" + options.Issuer + "/"}
	h.app.AddDigest(h)
	if h.server, err = authserver.New(options); err != nil {
		return err
	}
	if h.tokens, err = h.verifier(); err != nil {
		return err
	}
	h.app.AddLogin(h.site, h)
	h.store.Users.Add("logins at "+options.Issuer, userData{h.server, "login/" + options.Issuer + "/"})
	h.logger.Info("users log in at an identity provider", zap.String("provider", h.Provider.describe()), zap.String("issuer", options.Issuer),
		zap.String("callback", h.server.Callback()), zap.Bool("every_user_of_the_provider", options.Allow.IsEmpty()))
	return nil
}

// join finds what the handler needs of the app.
func (h *Handler) join(ctx caddy.Context) (err error) {
	if h.app, err = site.Of(ctx); err != nil {
		return err
	}
	h.site = site.At(ctx)
	if h.store, err = site.Get[*stores.Section](h.app); err != nil {
		return err
	}
	if h.bodies, err = site.Get[*bodies.Section](h.app); err != nil {
		return err
	}
	h.recorder, err = site.RecorderOf(h.app)
	return err
}

// audit records a login. If calls are refused because the archive is full, logins are too.
func (h *Handler) audit(ctx context.Context, event string, user *authserver.User, client string) error {
	if h.recorder == nil {
		return nil
	}
	if err := h.recorder.Ready(ctx); err != nil {
		return err
	}
	return h.recorder.Record(ctx, audit.Entry{Type: audit.TypeLogin, Event: event, User: user.Subject, Client: client})
}

// report logs what the authorization server reports.
func (h *Handler) report(message string, err error) {
	h.logger.Warn(message, zap.Error(err))
}

// publicAddress returns the configured issuer, or the site's address.
func (h *Handler) publicAddress(ctx caddy.Context) (string, error) {
	if h.Issuer != "" {
		return caddy.NewReplacer().ReplaceOrErr(h.Issuer, true, true)
	}
	origin, ok := auth.PublicOrigin(ctx)
	if !ok {
		return "", errors.New("agent_login does not know the public address of the site: set issuer, as in: issuer https://tools.example.com")
	}
	return origin, nil
}

// checkAllow returns an error if it is not clear who may log in.
func (h *Handler) checkAllow() error {
	switch {
	case h.Allow.Anyone && !h.Allow.IsEmpty():
		return errors.New("allow anyone contradicts the other lines of allow; remove one of them")
	case h.Allow.IsEmpty() && !h.Allow.Anyone && h.Provider.isPublic():
		return fmt.Errorf("everyone can have an account at %s: say who may log in, as in: allow domain example.com (or, for everyone: allow anyone)", h.Provider.Kind)
	}
	return nil
}

// open reads the secret and the keys of a client.
func (c *Client) open() (*authserver.Client, error) {
	opened := c.Client
	if c.Secret != "" {
		var err error
		if opened.Secret, err = caddy.NewReplacer().ReplaceOrErr(c.Secret, true, true); err != nil {
			return nil, fmt.Errorf("secret: %w", err)
		}
		if len(opened.Secret) < directive.MinSecret {
			return nil, fmt.Errorf("the secret has less than %d bytes", directive.MinSecret)
		}
	}
	if c.JWKS == "" {
		return &opened, nil
	}
	content, err := buffer.ReadFile(c.JWKS, 1<<20)
	if err != nil {
		return nil, err
	}
	if opened.Keys, err = authserver.ReadKeys(content); err != nil {
		return nil, fmt.Errorf("%s: %w", c.JWKS, err)
	}
	return &opened, nil
}

// verifier returns what verifies the server's tokens. It gets the keys from the server, without a connection.
func (h *Handler) verifier() (*verify.Verifier, error) {
	keys, err := json.Marshal(h.server.Keys())
	if err != nil {
		return nil, err
	}
	local := roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(keys))), ContentLength: int64(len(keys)),
		}, nil
	})
	return verify.New(verify.Options{Issuers: []verify.Issuer{{URL: h.server.Issuer(), JWKS: h.server.Issuer() + "/jwks"}}, Transport: local})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// decide finds out who issues the tokens, once the provider's metadata are known.
func (h *Handler) decide(ctx context.Context) (*decision, error) {
	if d := h.decided.Load(); d != nil {
		return d, nil
	}
	h.deciding.Lock()
	defer h.deciding.Unlock()
	if d := h.decided.Load(); d != nil {
		return d, nil
	}
	ours := &decision{h.server.Issuer(), h.tokens, true}
	if h.OwnTokens {
		h.decided.Store(ours)
		return ours, nil
	}
	issuer, stepsAside, err := h.provider.KnowsDocuments(ctx)
	switch {
	case err != nil:
		h.logger.Error("the metadata of the identity provider cannot be fetched; no one can log in", zap.Error(err))
		return nil, &oauth.Error{Code: oauth.Unavailable, Description: "the identity provider cannot be reached", RetryAfter: 5 * time.Second}
	case !stepsAside:
		h.decided.Store(ours)
		return ours, nil
	}
	tokens, err := verify.New(verify.Options{Issuers: []verify.Issuer{{URL: issuer}}})
	if err != nil {
		return nil, err
	}
	h.logger.Info("the identity provider accepts client ID metadata documents, so clients use it directly", zap.String("issuer", issuer))
	theirs := &decision{issuer, tokens, false}
	h.decided.Store(theirs)
	return theirs, nil
}

// TokenIssuer returns the issuer of the site's tokens and what verifies them.
func (h *Handler) TokenIssuer(ctx context.Context) (string, site.Tokens, error) {
	d, err := h.decide(ctx)
	if err != nil {
		return "", nil, err
	}
	return d.issuer, d.tokens, nil
}

// Origin returns the scheme and host of the issuer.
func (h *Handler) Origin() string { return h.server.Origin() }

// ScopeNames returns the scopes that tokens may have. They are not those of the provider.
func (h *Handler) ScopeNames() (names []string) {
	if d := h.decided.Load(); d != nil && !d.isOurs {
		return nil
	}
	for _, scope := range h.Scopes {
		names = append(names, scope.Name)
	}
	return names
}

// Issues reports whether the server issues the tokens of the site.
func (h *Handler) Issues() bool {
	d := h.decided.Load()
	return d != nil && d.isOurs
}

// ProviderToken returns a token that the provider gave for a session.
func (h *Handler) ProviderToken(ctx context.Context, session string, isID bool) (string, time.Time, error) {
	token, expires, err := authserver.NewProviderTokens(h.server).Get(ctx, session, isID)
	switch {
	case errors.Is(err, authserver.ErrEnded):
		err = &oauth.Error{Code: oauth.InvalidToken, Description: err.Error()}
	case err != nil:
		err = &oauth.Error{Code: oauth.Unavailable, Description: err.Error()}
	}
	return token, expires, err
}

// Cleanup ends the verifiers.
func (h *Handler) Cleanup() error {
	if h.tokens != nil {
		h.tokens.Close()
	}
	if d := h.decided.Load(); d != nil && !d.isOurs {
		d.tokens.Close()
	}
	return nil
}

// ServeHTTP serves the endpoints of the authorization server and passes other requests on.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !h.server.Serves(r.URL.Path) {
		return next.ServeHTTP(w, h.fromBrowser(r))
	}
	d, err := h.decide(r.Context())
	if err != nil {
		w.Header().Set("Retry-After", "5")
		respond.WriteProblem(w, http.StatusServiceUnavailable, "The identity provider cannot be reached", "Try again in a few seconds.")
		return nil //nolint:nilerr // the client has got the error
	}
	if !d.isOurs {
		return next.ServeHTTP(w, r)
	}
	// Behind a trusted proxy, Caddy knows the address of the client.
	if address, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok && address != "" {
		r = r.Clone(r.Context())
		r.RemoteAddr = net.JoinHostPort(address, "0")
	}
	release, err := h.bodies.ReadAhead(w, r, authserver.MaxForm, authserver.NetworkOf)
	if err != nil {
		return err
	}
	defer release()
	h.server.Serve(w, r)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ site.Login                  = (*Handler)(nil)
)
