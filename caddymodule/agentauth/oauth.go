package agentauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/mcpadapter"
)

func init() {
	caddy.RegisterModule(new(OAuth))
}

// What AgentAuth tells the handlers behind it of a request that it let through,
// as variables (caddyhttp.GetVar). The second is there wherever access depends
// on scopes, and empty for a request without a token.
const (
	VarResourceMetadata = "agents.resource_metadata" // string, a URL
	VarScopes           = "agents.scopes"            // []string

	// varLogin is what every request needs, where none passes without credentials.
	VarLogin = "agents.login" // *mcpadapter.Login

	// varExpires is when the credentials of a request expire, where they do.
	VarExpires = "agents.expires" // time.Time
)

// OAuth accepts access tokens: JWTs (RFC 9068, and those of issuers that are not
// as exact) that one of the issuers signed for this resource. They are verified
// with the issuers' published keys, which are fetched with the first request,
// kept current in the background and over reloads of the configuration, and stay
// good for a day while their server is down. Until they are there, tokens are
// answered 503.
//
// The user's ID is the token's `sub`, or its `client_id` if it has no `sub`. Where
// users have more than one source (several issuers, or API keys beside tokens) it
// is `issuer#sub`, so that no two users are the same. Metadata of the user are
// `scope`, `client_id` and `issuer`.
//
// In Caddy's own `authentication` handler all refusals are answered 401, with
// WWW-Authenticate as in the handler agent_auth, which see.
type OAuth struct {
	// Authorization servers whose tokens are accepted.
	Issuers []OAuthIssuer `json:"issuers,omitempty"`

	// What tokens must be for: the URL of the resource, or its path on the host
	// that a request is for. A path, or none at all, which is the whole site,
	// needs a host matcher around the handler: otherwise whoever sends a request
	// would choose for whom its token has to be. Give the URL that clients use
	// behind a proxy that changes scheme or host, and where services on several
	// ports share a host name and an issuer: a host matcher sees no ports.
	Resource string `json:"resource,omitempty"`

	// What `aud` of tokens must have one of, exactly. Default: the URL of the
	// resource.
	Audiences []string `json:"audiences,omitempty"`

	// How tokens may be signed. Default: RS256, PS256, ES256, ES384 and EdDSA.
	// RS384, RS512, PS384, PS512 and ES512 can be chosen as well; none and HMAC
	// cannot.
	Algorithms []string `json:"algorithms,omitempty"`

	// Scopes that every token needs. Challenges name them.
	RequireScope []string `json:"require_scope,omitempty"`

	// How far the clocks of issuers and this server may differ. Default: 30s.
	// Negative means not at all.
	Leeway caddy.Duration `json:"leeway,omitempty"`

	// Leaves the token in the request for the handlers behind. Default: it is
	// for this gateway and nobody else, and removed.
	PassToken bool `json:"pass_token,omitempty"`

	resource  Resource
	issuers   *issuers
	qualified bool // API keys stand beside
}

// OAuthIssuer is an authorization server whose tokens are accepted.
type OAuthIssuer struct {
	// The issuer's identifier, which `iss` of its tokens has, character for
	// character: https, or http on a loopback address.
	Issuer string `json:"issuer,omitempty"`

	// The URL or file of its JWK set. Default: what the issuer's metadata name
	// (RFC 8414 or OpenID Connect Discovery).
	JWKS string `json:"jwks,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*OAuth) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.authentication.providers.oauth",
		New: func() caddy.Module { return new(OAuth) },
	}
}

// Provision reads keys in files and prepares to fetch the others.
func (o *OAuth) Provision(ctx caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	if o.resource, err = parseResource(repl.ReplaceKnown(o.Resource, "")); err != nil {
		return fmt.Errorf("resource %q: %w", agents.WithoutSecrets(o.Resource), err)
	}
	for i := range o.Audiences {
		o.Audiences[i] = repl.ReplaceKnown(o.Audiences[i], "")
	}
	if o.resource.isRelative() && len(o.Audiences) == 0 && !hostIsKnown(ctx) {
		return errors.New("this site answers for any host, so the sender of a request would choose for whom its token has to be: " +
			"give resource with the whole URL that clients use, or audience, or give the site a host name")
	}
	options := oauth.Options{Algorithms: o.Algorithms, Leeway: time.Duration(o.Leeway)}
	for _, issuer := range o.Issuers {
		options.Issuers = append(options.Issuers, oauth.Issuer{
			URL:  repl.ReplaceKnown(issuer.Issuer, ""),
			JWKS: repl.ReplaceKnown(issuer.JWKS, ""),
		})
	}
	o.qualified = o.qualified || len(o.Issuers) > 1
	o.issuers, err = openIssuers(options, ctx.Logger())
	return err
}

// Cleanup closes the issuers, if no other handler uses them.
func (o *OAuth) Cleanup() error {
	if o.issuers != nil {
		o.issuers.release()
		o.issuers = nil
	}
	return nil
}

// Authenticate returns the user of a request that has a good token.
func (o *OAuth) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	token, err := oauth.Bearer(r.Header)
	if err == nil && token == "" {
		o.issuers.Warm()
		err = &oauth.Error{Code: oauth.Missing}
	}
	if err == nil {
		var user caddyauth.User
		if user, err = o.judge(r, token); err == nil {
			caddyhttp.SetVar(r.Context(), VarLogin, o.login())
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

// judge verifies a token and makes its request ready to go on.
func (o *OAuth) judge(r *http.Request, token string) (caddyauth.User, error) {
	verified, err := o.issuers.Verify(r.Context(), token, o.audiences(r)...)
	if err != nil {
		return caddyauth.User{}, err
	}
	if missing := verified.MissingScopes(o.RequireScope); len(missing) > 0 {
		return caddyauth.User{}, &oauth.Error{
			Code:        oauth.InsufficientScope,
			Description: "the token lacks the scope " + strings.Join(missing, " ") + ": ask for one that has it",
		}
	}
	o.strip(r)
	o.tell(r, verified.Scopes)
	caddyhttp.SetVar(r.Context(), VarExpires, o.issuers.ValidUntil(verified))
	return o.user(verified), nil
}

// tell lets the handlers behind know what depends on the scopes of a request.
func (o *OAuth) tell(r *http.Request, scopes []string) {
	if scopes == nil {
		scopes = []string{}
	}
	caddyhttp.SetVar(r.Context(), VarResourceMetadata, o.resource.metadata(r))
	caddyhttp.SetVar(r.Context(), VarScopes, scopes)
}

// login is what requests need where all have to bring a token.
func (o *OAuth) login() *mcpadapter.Login {
	return &mcpadapter.Login{OAuth: true, Scopes: o.RequireScope}
}

// anonymous makes a request without a token ready to go on.
func (o *OAuth) anonymous(r *http.Request) {
	o.tell(r, nil)
}

// strip removes an access token from a request, unless it is to be passed on.
// Credentials of other schemes are not this handler's.
func (o *OAuth) strip(r *http.Request) {
	if o.PassToken {
		return
	}
	if token, err := oauth.Bearer(r.Header); err != nil || token != "" {
		r.Header.Del("Authorization")
	}
}

// audiences returns those of which a token must be for one. The URL of a whole
// site is the same with and without a slash at its end.
func (o *OAuth) audiences(r *http.Request) []string {
	if len(o.Audiences) > 0 {
		return o.Audiences
	}
	url := o.resource.of(r)
	if o.resource.path == "" {
		return []string{url, url + "/"}
	}
	return []string{url}
}

func (o *OAuth) challenge(r *http.Request, refusal *oauth.Error) string {
	return oauth.ChallengeOf(refusal, o.RequireScope, o.resource.metadata(r)).String()
}

// user returns who the token is for.
func (o *OAuth) user(token *oauth.Token) caddyauth.User {
	id := token.Subject
	if id == "" {
		id = token.ClientID
	}
	if o.qualified {
		id = token.Issuer + "#" + id
	}
	return caddyauth.User{ID: id, Metadata: map[string]string{
		"scope":     strings.Join(token.Scopes, " "),
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
