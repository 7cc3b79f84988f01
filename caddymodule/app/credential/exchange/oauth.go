// Package exchange has the credential `oauth`: an access token that the gateway fetches for itself, or in exchange for that of the caller.
package exchange

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/tokenclient"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(OAuth))
}

// OAuth is the header Authorization with an access token (Bearer) that the gateway fetches for the API.
//
// With the grant `client_credentials`, the token is for the gateway itself, and all callers share it. With the other
// grants, the token is for the caller: the gateway exchanges the access token that agent_auth has verified. If agent_login
// has issued it, the gateway exchanges a token that the identity provider gave at the login. A call is not sent if the
// caller has none, for example because it has logged in with an API key.
//
// A token is kept in memory until 15 seconds before it or the caller's token expires, or for 5 minutes if the server
// does not say when it expires. If the API responds with 401, the token is dropped. Redirects of the token endpoint are
// not followed.
//
// Placeholders in the values are {env.*}, {file.*}, {system.*} and {time.*}. They are resolved for each token request.
type OAuth struct {
	TokenEndpoint

	// How to get the token: client_credentials, token_exchange (RFC 8693), jwt_bearer (RFC 7523, on-behalf-of of Entra ID)
	// or id_jag (the caller's identity provider gives an assertion, which the API's authorization server exchanges).
	// Required.
	Grant tokenclient.Grant `json:"grant,omitempty"`

	// The service that the token is for. For id_jag, it is the issuer of the API's authorization server. Default: none.
	Audience string `json:"audience,omitempty"`

	// The scopes to ask for. Default: those that the server gives without a request.
	Scopes []string `json:"scopes,omitempty"`

	// The URLs of the resources that the token is for (RFC 8707). Default: none.
	Resources []string `json:"resources,omitempty"`

	// Further parameters of the token request, such as requested_token_use, subject_token_type or actor_token. Default:
	// none, except a subject_token_type: that of an access token for token_exchange, and that of an ID token for id_jag.
	Params map[string]string `json:"params,omitempty"`

	// The caller's identity provider, for the grant id_jag. Default: none.
	IdentityProvider *TokenEndpoint `json:"identity_provider,omitempty"`

	client   *http.Client
	cache    *tokenclient.Cache
	form     url.Values // nil if placeholders have to be resolved for each call
	formHash [sha256.Size]byte
}

// TokenEndpoint is the token endpoint of an authorization server, with what authenticates the gateway there.
type TokenEndpoint struct {
	// The URL: https, or http on a loopback address. Required.
	TokenURL string `json:"token_url,omitempty"`

	// The gateway's ID as a client. Required.
	ClientID string `json:"client_id,omitempty"`

	// The gateway's secret as a client. Use a placeholder such as {env.API_SECRET}. Default: none.
	ClientSecret string `json:"client_secret,omitempty"`

	// Whether to send the secret in the body, not in the header Authorization. Default: false.
	SecretInBody bool `json:"secret_in_body,omitempty"`

	// A file with the private key that authenticates the gateway in place of a secret (private_key_jwt): PEM or a JWK. It is
	// read for each token request. Default: none.
	PrivateKey string `json:"private_key,omitempty"`

	// The ID (kid) of the private key. Default: that of a JWK.
	KeyID string `json:"key_id,omitempty"`

	// A PEM file with the certificate of the private key. Its thumbprints identify the key, as Entra ID needs it. The file may
	// also have the key. Default: none.
	Certificate string `json:"certificate,omitempty"`

	// The audience of the assertion that the private key signs. Default: the URL of the token endpoint.
	AssertionAudience string `json:"assertion_audience,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*OAuth) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: credential.Namespace + ".oauth", New: func() caddy.Module { return new(OAuth) }}
}

// Location implements credential.Module.
func (*OAuth) Location() credential.Location { return credential.Location{Name: "Authorization"} }

// ForCaller implements credential.CallerBound.
func (c *OAuth) ForCaller() bool { return c.Grant.ForCaller() }

// Provision checks the options and the key files.
func (c *OAuth) Provision(caddy.Context) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("credential oauth: %w", err)
	}
	c.client, c.cache = tokenclient.NewHTTPClient(nil), tokenclient.NewCache()
	if !slices.ContainsFunc(c.texts(), func(text string) bool { return strings.Contains(text, "{") }) {
		form, err := c.formWith(caddy.NewReplacer())
		if err != nil {
			return fmt.Errorf("credential oauth: %w", err)
		}
		c.form, c.formHash = form, sha256.Sum256([]byte(form.Encode()))
	}
	return nil
}

// Check implements credential.Checker.
func (c *OAuth) Check(repl *caddy.Replacer) error {
	_, formErr := c.formWith(repl)
	_, endpointErr := c.resolve(repl)
	return errors.Join(formErr, endpointErr)
}

// Cleanup closes idle connections.
func (c *OAuth) Cleanup() error {
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
	return nil
}

// check returns an error if the options can never work.
func (c *OAuth) check() error {
	if !slices.Contains(tokenclient.Grants[:], string(c.Grant)) {
		return fmt.Errorf("unknown grant %q; use %s", c.Grant, strings.Join(tokenclient.Grants[:], ", "))
	}
	for name := range c.Params {
		if slices.Contains(tokenclient.Reserved, name) {
			return fmt.Errorf("param %s is set by the gateway; use the option of that name, if there is one", name)
		}
	}
	if (c.Grant == tokenclient.IDJAG) != (c.IdentityProvider != nil) {
		return errors.New("the grant id_jag needs identity_provider with the token endpoint of the callers' identity provider; other grants have none")
	}
	if err := checkTexts(c.texts()...); err != nil {
		return err
	}
	if c.IdentityProvider != nil {
		if err := c.IdentityProvider.check(); err != nil {
			return fmt.Errorf("identity_provider: %w", err)
		}
	}
	return c.TokenEndpoint.check()
}

// texts returns the values of the token request that may have placeholders.
func (c *OAuth) texts() []string {
	texts := slices.Concat([]string{c.Audience}, c.Scopes, c.Resources)
	for _, value := range c.Params {
		texts = append(texts, value)
	}
	return texts
}

// checkTexts returns an error if a text has placeholders that depend on a request.
func checkTexts(texts ...string) error {
	for _, text := range texts {
		if _, err := caddy.NewReplacer().ReplaceOrErr(text, false, true); err != nil {
			return fmt.Errorf("%w: placeholders of a credential are {env.*}, {file.*}, {system.*} and {time.*}", err)
		}
	}
	return nil
}

// check returns an error if the options of the endpoint can never work.
func (e *TokenEndpoint) check() error {
	key := e.key(caddy.NewReplacer())
	switch {
	case e.TokenURL == "" || e.ClientID == "":
		return errors.New("token_url and client_id are required")
	case e.ClientSecret != "" && key != nil:
		return errors.New("client_secret and private_key are given; the gateway authenticates itself by one of them")
	case e.SecretInBody && e.ClientSecret == "", e.KeyID != "" && key == nil, e.AssertionAudience != "" && key == nil:
		return errors.New("secret_in_body needs client_secret; key_id and assertion_audience need private_key or certificate")
	}
	if err := errors.Join(directive.CheckVariable(e.ClientSecret), checkTexts(e.TokenURL, e.ClientID, e.ClientSecret, e.AssertionAudience, e.PrivateKey, e.Certificate)); err != nil {
		return err
	}
	if err := oauth.CheckAddress(caddy.NewReplacer().ReplaceKnown(e.TokenURL, "")); err != nil {
		return fmt.Errorf("token_url: %w", err)
	}
	if key != nil {
		return key.Check()
	}
	return nil
}

// key returns the key that authenticates the gateway, or nil.
func (e *TokenEndpoint) key(repl *caddy.Replacer) *tokenclient.Key {
	if e.PrivateKey == "" && e.Certificate == "" {
		return nil
	}
	return &tokenclient.Key{File: repl.ReplaceKnown(e.PrivateKey, ""), ID: e.KeyID, Certificate: repl.ReplaceKnown(e.Certificate, "")}
}

// resolve returns the endpoint with resolved placeholders.
func (e *TokenEndpoint) resolve(repl *caddy.Replacer) (tokenclient.Endpoint, error) {
	to := tokenclient.Endpoint{SecretInBody: e.SecretInBody}
	for _, value := range []struct {
		name, source string
		to           *string
	}{{"token_url", e.TokenURL, &to.URL}, {"client_id", e.ClientID, &to.ClientID}, {"client_secret", e.ClientSecret, &to.ClientSecret}, {"assertion_audience", e.AssertionAudience, &to.Audience}} {
		if value.source == "" {
			continue
		}
		var err error
		if *value.to, err = repl.ReplaceOrErr(value.source, true, true); err != nil {
			return to, fmt.Errorf("%s: %w", value.name, err)
		}
	}
	to.Key = e.key(repl)
	return to, nil
}

// formWith returns the configured parameters of the token request.
func (c *OAuth) formWith(repl *caddy.Replacer) (url.Values, error) {
	form := make(url.Values, len(c.Params)+3)
	for _, value := range []struct {
		name    string
		sources []string
	}{{"audience", []string{c.Audience}}, {"scope", []string{strings.Join(c.Scopes, " ")}}, {"resource", c.Resources}} {
		for _, source := range value.sources {
			if source == "" {
				continue
			}
			text, err := repl.ReplaceOrErr(source, true, true)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", value.name, err)
			}
			form.Add(value.name, text)
		}
	}
	for name, source := range c.Params {
		text, err := repl.ReplaceOrErr(source, true, true)
		if err != nil {
			return nil, fmt.Errorf("param %s: %w", name, err)
		}
		form.Set(name, text)
	}
	return form, nil
}

// Secret implements credential.Module. It returns the token that is kept, or fetches one.
func (c *OAuth) Secret(ctx context.Context, repl *caddy.Replacer) (string, error) {
	key, form, caller, err := c.keyFor(ctx, repl)
	if err != nil {
		return "", err
	}
	owner := share.Gateway
	if caller != nil {
		owner = caller.Owner()
	}
	value, err := c.cache.Get(ctx, key, owner, func(ctx context.Context) (*tokenclient.Token, error) {
		request := tokenclient.Request{Grant: c.Grant, Form: form}
		var until time.Time
		var err error
		if caller != nil {
			if request.Subject, until, err = exchangeable(ctx, caller, c.Grant.TakesID(form)); err != nil {
				return nil, err
			}
		}
		if request.Endpoint, err = c.resolve(repl); err != nil {
			return nil, err
		}
		if c.IdentityProvider != nil {
			if request.Identity, err = c.IdentityProvider.resolve(repl); err != nil {
				return nil, err
			}
		}
		token, err := request.Fetch(ctx, c.client)
		if err == nil {
			token.Until = until
		}
		return token, err
	})
	if err != nil {
		return "", c.explain(ctx, err, caller)
	}
	return bearer + value, nil
}

const bearer = "Bearer "

// keyFor returns the key of the token for a call, with what it is made of.
func (c *OAuth) keyFor(ctx context.Context, repl *caddy.Replacer) (key tokenclient.CacheKey, form url.Values, caller *site.Caller, err error) {
	subject := ""
	if c.ForCaller() {
		if caller = site.CallerOf(ctx); caller == nil {
			return key, nil, nil, &credential.CallError{Kind: tools.Unauthorized, Message: "it needs the caller's access token, and the request has none that agent_auth has verified: log in with an access token (an API key cannot be exchanged)"}
		}
		subject = caller.Key()
	}
	form, hash := c.form, c.formHash
	if form == nil {
		if form, err = c.formWith(repl); err != nil {
			return key, nil, nil, err
		}
		hash = sha256.Sum256([]byte(form.Encode()))
	}
	return tokenclient.KeyOf(subject, hash), form, caller, nil
}

// Rejected implements credential.Renewer.
func (c *OAuth) Rejected(ctx context.Context, repl *caddy.Replacer, value string) {
	if key, _, _, err := c.keyFor(ctx, repl); err == nil {
		c.cache.Drop(key, strings.TrimPrefix(value, bearer))
	}
}

// explain returns the error as a credential.CallError if it is not the operator's.
func (c *OAuth) explain(ctx context.Context, err error, caller *site.Caller) error {
	failed, ok := errors.AsType[*tokenclient.Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && context.Cause(ctx) == context.Canceled: //nolint:errorlint // the cause is not wrapped
		return &credential.CallError{Kind: tools.Canceled, Message: "the client disconnected"}
	case ctx.Err() != nil:
		return &credential.CallError{Kind: tools.Unreachable, Err: err, Message: "the authorization server that gives the access token for it did not respond in time; the call was not made, so it may be repeated"}
	case !ok:
		return err
	case failed.Temporary():
		return &credential.CallError{Kind: tools.Unreachable, Err: err, Message: "the authorization server that gives the access token for it cannot be reached or is overloaded; the call was not made, so it may be repeated"}
	case caller == nil:
		return err
	}
	switch failed.Code {
	case "invalid_grant":
		message := "the authorization server does not accept the caller's token for it (invalid_grant); log in again"
		if len(failed.Numbers) == 0 && !slices.Contains(caller.Audience(), c.ClientID) {
			message += ". If that does not help, the claim aud of the token may have to name the gateway's client as well"
		}
		return &credential.CallError{Kind: tools.Unauthorized, Err: err, Message: message}
	case "interaction_required", "login_required", "consent_required":
		message := "the identity provider requires the user to log in again (" + failed.Code + ")"
		if failed.Claims != "" {
			message += " with the claims " + failed.Claims
		}
		return &credential.CallError{Kind: tools.Unauthorized, Err: err, Message: message}
	}
	return err
}

// Interface guards
var (
	_ credential.Module      = (*OAuth)(nil)
	_ credential.CallerBound = (*OAuth)(nil)
	_ credential.Renewer     = (*OAuth)(nil)
	_ credential.Checker     = (*OAuth)(nil)
	_ caddy.Provisioner      = (*OAuth)(nil)
	_ caddy.CleanerUpper     = (*OAuth)(nil)
)
