package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/oauth/verify"
	"github.com/fairwayhq/fairway/internal/text"
)

func init() {
	caddy.RegisterModule(new(OAuth))
}

// OAuth accepts access tokens that one of the issuers signed for this resource. Tokens are JWTs
// as in RFC 9068; deviations that are common among issuers are accepted.
//
// Tokens are verified with the issuers' published keys. The keys are fetched with the first
// request, refreshed in the background, and kept over reloads of the configuration. If the
// server of the keys is down, fetched keys remain valid for a day. Until keys are available,
// requests with tokens get 503.
//
// The user's ID is the token's `sub`, or its `client_id` if it has no `sub`, unless `user_claim` names
// another claim. If there are several sources of users (several issuers, or API keys in addition to
// tokens), the ID is `issuer#sub`, so that different users never have the same ID: an issuer is a URL
// without a fragment, so the first # ends it. The metadata of the user are `scope`, `client_id` and
// `issuer`.
//
// In Caddy's own `authentication` handler, all rejected requests get 401 with the same
// WWW-Authenticate as in the handler agent_auth.
type OAuth struct {
	// The authorization servers whose tokens are accepted. Default: that of the site's agent_login.
	Issuers []OAuthIssuer `json:"issuers,omitempty"`

	// The resource that tokens must be issued for: its URL, or its path on the host of the
	// request.
	//
	// A path requires a host matcher around the handler. Otherwise the caller could choose,
	// with the Host header, the resource that its token has to match. Use a URL if a proxy in
	// front of this server changes the scheme or the host, or if services on several ports
	// share a host name and an issuer, because a host matcher ignores ports.
	//
	// Default: the whole site.
	Resource string `json:"resource,omitempty"`

	// The accepted values of a token's `aud`. A token must have one of them exactly. Default:
	// the URL of the resource.
	Audiences []string `json:"audiences,omitempty"`

	// The accepted signature algorithms. RS384, RS512, PS384, PS512 and ES512 can be added;
	// none and HMAC cannot. Default: RS256, PS256, ES256, ES384 and EdDSA.
	Algorithms []string `json:"algorithms,omitempty"`

	// The scopes that every token needs. Challenges name them. Default: none.
	RequireScope []string `json:"require_scope,omitempty"`

	// The scopes that challenges name if no scope is required, as in protected_resource. Default: those that are required, those of the site's agent_login, and those of the
	// tools, files and prompts behind the endpoints of the resource; none of both if scope_claims or scope_includes rename the scopes of another issuer.
	ScopesSupported []string `json:"scopes_supported,omitempty"`

	// The claim of a token that is the user's ID. It must be unique among the users of the issuer, and
	// no user may be able to choose it. The claim email counts only if email_verified is true. A token
	// without the claim is rejected. Default: sub, or client_id if there is no sub.
	UserClaim string `json:"user_claim,omitempty"`

	// The claims with the groups of the user, each a string or a list of strings. Dots lead into objects, as
	// in realm_access.roles. Default: groups.
	GroupClaims []string `json:"group_claims,omitempty"`

	// The claims that count as scopes in addition to `scope` (or `scp`), each a string with spaces or a
	// list of strings. Dots lead into objects. Default: none.
	ScopeClaims []string `json:"scope_claims,omitempty"`

	// The scopes that a scope includes, by its name. A token with the scope counts as having them, and those
	// that they include. Default: none.
	ScopeIncludes map[string][]string `json:"scope_includes,omitempty"`

	// The endpoint that verifies tokens which are not signed JWTs. Default: none; such tokens are rejected.
	Introspection *Introspection `json:"introspection,omitempty"`

	// How much the clocks of issuers and this server may differ. A negative value means not at
	// all. Default: 30s.
	Leeway caddy.Duration `json:"leeway,omitempty"`

	// Whether to leave the token in the request for the next handlers. A token is issued for
	// this gateway only, so it is removed unless this is set. Default: false.
	PassToken bool `json:"pass_token,omitempty"`

	resource   resource
	issuers    *issuers   // nil if site is set
	site       site.Login // issues the tokens; nil if Issuers is set
	qualifyIDs bool       // API keys are accepted too
	claims     *oauth.ClaimRules
	logger     *zap.Logger
	warned     *pace
}

// OAuthIssuer is an authorization server whose tokens are accepted.
type OAuthIssuer struct {
	// The issuer's identifier, which must equal `iss` of its tokens exactly. Its scheme is
	// https, or http on a loopback address. Required.
	Issuer string `json:"issuer,omitempty"`

	// The URL or file of the issuer's JWK set. Default: the URL in the issuer's metadata (RFC
	// 8414 or OpenID Connect Discovery).
	JWKS string `json:"jwks,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*OAuth) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.authentication.providers.oauth",
		New: func() caddy.Module { return new(OAuth) },
	}
}

// Provision reads keys from files and prepares to fetch the others.
func (o *OAuth) Provision(ctx caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	o.logger, o.warned = ctx.Logger(), new(pace)
	o.claims = &oauth.ClaimRules{User: o.UserClaim, Groups: o.GroupClaims, Scopes: o.ScopeClaims, Includes: o.ScopeIncludes}
	if o.resource, err = parseResource(repl.ReplaceKnown(o.Resource, "")); err != nil {
		return fmt.Errorf("resource %q: %w", text.RedactURL(o.Resource), err)
	}
	for i := range o.Audiences {
		o.Audiences[i] = repl.ReplaceKnown(o.Audiences[i], "")
	}
	if o.resource.isRelative() && len(o.Audiences) == 0 && !hostIsKnown(ctx) {
		return errors.New("this site serves any host, so a caller could choose the resource of its token with the Host header: " +
			"set resource to the full URL that clients use, set audience, or give the site a host name")
	}
	options := verify.Options{Algorithms: o.Algorithms, Leeway: time.Duration(o.Leeway)}
	for _, issuer := range o.Issuers {
		options.Issuers = append(options.Issuers, verify.Issuer{
			URL:  repl.ReplaceKnown(issuer.Issuer, ""),
			JWKS: repl.ReplaceKnown(issuer.JWKS, ""),
		})
	}
	o.qualifyIDs = o.qualifyIDs || len(o.Issuers) > 1
	login := loginOf(ctx)
	if len(o.Issuers) == 0 {
		o.site = login
	}
	o.resource.join(ctx, o.site)
	o.describe(o.resource.site, login)
	if options.Introspection, err = o.Introspection.options(repl); err != nil {
		return err
	}
	if len(o.Issuers) == 0 {
		if o.Introspection != nil {
			return errors.New("introspection requires an issuer: add issuer with the URL of the authorization server, where clients get their tokens")
		}
		if o.site == nil {
			return errors.New("agent_auth does not know whose tokens to accept: add issuer with the URL of the authorization server, or an api_key, or the directive agent_login to the site")
		}
		return nil
	}
	o.issuers, err = openIssuers(options, ctx.Logger())
	return err
}

// describe tells the handlers of the site what tokens are for. Login is that of the site, or nil.
func (o *OAuth) describe(r *site.Resource, login site.Login) {
	if len(o.Audiences) > 0 {
		r.Audience = o.Audiences[0]
	}
	if login != nil && (r.Own || slices.ContainsFunc(o.Issuers, func(i OAuthIssuer) bool { return oauth.IsWithin(i.Issuer, login.Origin()) })) {
		r.Login = login
	}
	r.Divisible = r.Own && o.Resource == "" && len(o.Audiences) == 0
	if r.Required = o.RequireScope; len(r.Required) == 0 {
		r.Required = o.ScopesSupported
	}
	r.Fixed = o.ScopesSupported != nil || r.Login == nil && len(o.ScopeClaims)+len(o.ScopeIncludes) > 0
}

// loginOf returns the login of the site that is being provisioned, or nil.
func loginOf(ctx caddy.Context) site.Login {
	agents, err := ctx.AppIfConfigured("agents")
	if err != nil {
		return nil
	}
	return agents.(*site.App).LoginAt(site.At(ctx))
}

// verifier returns what verifies tokens.
func (o *OAuth) verifier(ctx context.Context) (site.Tokens, error) {
	if o.site == nil {
		return o.issuers.Verifier, nil
	}
	_, tokens, err := o.site.TokenIssuer(ctx)
	return tokens, err
}

// warm fetches the keys early, since a token is likely to follow.
func (o *OAuth) warm() {
	if o.issuers != nil {
		o.issuers.Warm()
	}
}

// Cleanup releases the issuers.
func (o *OAuth) Cleanup() error {
	if o.issuers != nil {
		_, _ = verifiers.Delete(o.issuers.key)
		o.issuers = nil
	}
	return nil
}

// Authenticate returns the user of a request with a valid token.
func (o *OAuth) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	token, err := oauth.Bearer(r.Header)
	if err == nil && token == "" {
		o.warm()
		err = &oauth.Error{Code: oauth.Missing}
	}
	if err == nil {
		var user caddyauth.User
		if user, err = o.verify(r, token); err == nil {
			caddyhttp.SetVar(r.Context(), identity.VarLogin, o.login())
			return user, true, nil
		}
	}
	refusal, ok := errors.AsType[*oauth.Error](err)
	if !ok || refusal.Code == oauth.Unavailable {
		return caddyauth.User{}, false, err
	}
	w.Header().Add("Www-Authenticate", o.challenge(r, refusal))
	return caddyauth.User{}, false, nil
}

// verify verifies a token and prepares its request for the next handlers. If the token is "", it is that of the user of a
// browser who has logged in (site.Browser).
func (o *OAuth) verify(r *http.Request, token string) (caddyauth.User, error) {
	tokens, err := o.verifier(r.Context())
	if err != nil {
		return caddyauth.User{}, err
	}
	audiences := o.audiences(r)
	if token == "" {
		token, audiences = site.BrowserOf(r).Text, []string{site.BrowserOf(r).Audience}
	}
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	verified, err := tokens.VerifyFrom(r.Context(), address, token, audiences...)
	if err != nil {
		return caddyauth.User{}, err
	}
	of, err := verified.Identify(o.claims)
	if err != nil {
		return caddyauth.User{}, err
	}
	if missing := of.MissingScopes(o.RequireScope); len(missing) > 0 {
		return caddyauth.User{}, &oauth.Error{
			Code:        oauth.InsufficientScope,
			Description: "the token lacks the scope " + strings.Join(missing, " ") + "; request a token with this scope",
		}
	}
	o.removeToken(r)
	o.setAccessVars(r, of.Scopes)
	caddyhttp.SetVar(r.Context(), identity.VarExpires, tokens.ValidUntil(verified))
	caller := site.NewCaller(token, verified.Issuer+"#"+verified.Subject, verified.Expires, verified.Audience)
	if o.site != nil && o.site.Issues() {
		caller = site.NewSessionCaller(o.site, verified.Session, verified.Issuer+"#"+verified.Subject, verified.Expires)
	}
	caddyhttp.SetVar(r.Context(), site.VarCaller, caller)
	user := o.user(verified, of)
	o.setIdentity(r, verified, of, user.ID)
	return user, nil
}

// setAccessVars sets the request variables for the next handlers.
func (o *OAuth) setAccessVars(r *http.Request, scopes []string) {
	if scopes == nil {
		scopes = []string{}
	}
	caddyhttp.SetVar(r.Context(), identity.VarResourceMetadata, o.resource.metadataURL(r))
	caddyhttp.SetVar(r.Context(), identity.VarScopes, scopes)
}

// login describes the credentials of requests if every request needs a token.
func (o *OAuth) login() *identity.Login {
	return &identity.Login{OAuth: true, Scopes: o.RequireScope}
}

// removeToken removes an access token from a request, unless it is to be passed on. Credentials of
// other schemes are not removed.
func (o *OAuth) removeToken(r *http.Request) {
	if o.PassToken {
		return
	}
	if token, err := oauth.Bearer(r.Header); err != nil || token != "" {
		r.Header.Del("Authorization")
	}
}

// audiences returns the accepted values of `aud`. The URL of a whole site is accepted with and
// without a trailing slash. The site's login issues tokens for its own origin, and for single endpoints.
func (o *OAuth) audiences(r *http.Request) []string {
	if len(o.Audiences) > 0 {
		return o.Audiences
	}
	accepted := []string{o.resource.urlFor(r)}
	if o.resource.path == "" {
		accepted = append(accepted, accepted[0]+"/")
	}
	if o.site == nil || !o.site.Issues() {
		return accepted
	}
	if o.resource.isRelative() {
		accepted = append(accepted, o.resource.login+o.resource.path)
	}
	if part := o.resource.site.Part(r.URL.Path); part != "" {
		accepted = append(accepted, o.resource.login+part)
	}
	return accepted
}

// challenge returns the WWW-Authenticate header for a rejected request.
func (o *OAuth) challenge(r *http.Request, refusal *oauth.Error) string {
	scopes := o.RequireScope
	if refusal.Code != oauth.InsufficientScope {
		scopes = o.resource.site.Scopes(strings.TrimRight(r.URL.Path, "/"))
	}
	return oauth.ChallengeOf(refusal, scopes, o.resource.metadataURL(r)).String()
}

// user returns the user of a verified token.
func (o *OAuth) user(token *oauth.Token, of *oauth.Identity) caddyauth.User {
	id := of.User
	if o.qualifyIDs {
		id = token.Issuer + "#" + id
	}
	return caddyauth.User{ID: id, Metadata: map[string]string{
		"scope":     strings.Join(of.Scopes, " "),
		"client_id": token.ClientID,
		"issuer":    token.Issuer,
	}}
}

// Interface guards
var (
	_ caddy.Provisioner       = (*OAuth)(nil)
	_ caddy.CleanerUpper      = (*OAuth)(nil)
	_ caddyauth.Authenticator = (*OAuth)(nil)
)
