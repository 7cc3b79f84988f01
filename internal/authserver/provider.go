package authserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/oauth/verify"
	"github.com/fairwayhq/fairway/internal/tokenclient"
)

const (
	// providerWait limits one request to a provider.
	providerWait = 10 * time.Second

	// discoveryPause is the time after a failed attempt to fetch a provider's metadata in which no other is made.
	discoveryPause = 5 * time.Second
)

// A Provider authenticates users.
type Provider interface {
	// LoginURL returns the address at the provider where a user logs in.
	LoginURL(ctx context.Context, l *Login) (string, error)

	// Complete exchanges the code with which the provider has sent the browser back. The error is ErrRefused if the provider
	// does not accept the code.
	Complete(ctx context.Context, l *Login, code string) (*User, *Tokens, error)

	// Refresh asks the provider whether the user may still be logged in. Tokens that the provider does not renew stay as they
	// are. The error is ErrRefused if the login at the provider has ended.
	Refresh(ctx context.Context, tokens *Tokens) (*User, *Tokens, error)

	// VerifyJWT verifies the signature of a JWT of the provider, and returns its payload and the provider's issuer. The error is ErrRefused if
	// the provider signs no JWTs.
	VerifyJWT(ctx context.Context, token string) (payload []byte, issuer string, err error)

	// KnowsDocuments reports whether the provider accepts client ID metadata documents itself, so that clients need no server in front of it.
	KnowsDocuments(ctx context.Context) (issuer string, ok bool, err error)
}

// ErrRefused reports that the provider does not accept a code or a token (any more).
var ErrRefused = errors.New("the identity provider refused")

// A Login is one login at the provider.
type Login struct {
	State    string // returned by the browser
	Nonce    string // in the ID token
	Verifier string // PKCE
	Callback string // where the provider sends the browser
	Once     bool   // the login is not refreshed, so the user is not asked for consent to that
}

// Tokens are what the provider gave for a user. They let the gateway act as the user.
type Tokens struct {
	Access  string    `json:"access,omitempty"`
	Refresh string    `json:"refresh,omitempty"`
	ID      string    `json:"id,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // of Access; zero if it does not expire
}

// OIDC is a provider with OpenID Connect.
type OIDC struct {
	// Issuer identifies the provider. Required.
	Issuer string
	// ClientID is the gateway's ID at the provider. Required.
	ClientID string
	// ClientSecret authenticates the gateway. Default: none.
	ClientSecret string
	// Key authenticates the gateway in place of a secret (private_key_jwt). Default: none.
	Key *tokenclient.Key
	// Scopes are asked for. Default: openid, profile, email, and offline_access if the provider supports it.
	Scopes []string
	// Params are added to the address of the login. Default: none.
	Params map[string]string
	// GroupClaim is the claim that lists the user's groups. Dots lead into objects. Default: groups.
	GroupClaim string
	// Transport sends requests. Default: http.DefaultTransport.
	Transport http.RoundTripper

	mu       sync.Mutex
	failure  error              // of the last attempt to fetch the metadata
	failed   time.Time          // when it failed
	provider *oidc.Provider     // nil until the metadata are fetched
	keys     *oidc.RemoteKeySet // nil until the first VerifyJWT
	metadata oidcMetadata
}

// oidcMetadata are members of the provider's metadata that the library does not read.
type oidcMetadata struct {
	Scopes    []string `json:"scopes_supported"`
	Documents bool     `json:"client_id_metadata_document_supported"`
}

// context returns a context that carries the HTTP client of the provider's requests.
func (o *OIDC) context(ctx context.Context) context.Context {
	client := &http.Client{Transport: plainTransport{tokenclient.Transport{Next: o.Transport}}, Timeout: providerWait}
	if o.Key != nil {
		client.Transport = &tokenclient.AssertionTransport{Key: o.Key, ClientID: o.ClientID, Next: client.Transport}
	}
	return oidc.ClientContext(ctx, client)
}

// plainTransport removes certificates from key sets, because the library refuses a set if it cannot read one of them, and byte order marks.
type plainTransport struct{ transport tokenclient.Transport }

func (b plainTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.transport.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(verify.WithoutCertificates(body))), -1
	return response, nil
}

// discover fetches the provider's metadata with the first login. If that fails, it is tried again after discoveryPause.
func (o *OIDC) discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}
	if o.failure != nil && time.Since(o.failed) < discoveryPause {
		return nil, o.failure // requests that waited for the last attempt do not each make one of their own
	}
	o.failure = o.fetchMetadata(ctx)
	o.failed = time.Now()
	return o.provider, o.failure
}

// fetchMetadata sets provider and metadata.
func (o *OIDC) fetchMetadata(ctx context.Context) error {
	// The provider keeps the context for later fetches of its keys.
	p, err := oidc.NewProvider(o.context(context.WithoutCancel(ctx)), o.Issuer)
	if err != nil {
		return fmt.Errorf("the metadata of the identity provider: %w", err)
	}
	if err := p.Claims(&o.metadata); err != nil {
		return fmt.Errorf("the metadata of the identity provider: %w", err)
	}
	o.provider = p
	return nil
}

// KnowsDocuments reports whether the provider's metadata say that it accepts client ID metadata documents.
func (o *OIDC) KnowsDocuments(ctx context.Context) (string, bool, error) {
	_, err := o.discover(ctx)
	return o.Issuer, o.metadata.Documents, err
}

// config returns the configuration of the OAuth client.
func (o *OIDC) config(p *oidc.Provider, callback string) *oauth2.Config {
	c := &oauth2.Config{ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: callback, Scopes: o.Scopes}
	if o.Key != nil {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	if c.Scopes == nil {
		c.Scopes = []string{oidc.ScopeOpenID, "profile", "email"}
		if slices.Contains(o.metadata.Scopes, oidc.ScopeOfflineAccess) {
			c.Scopes = append(c.Scopes, oidc.ScopeOfflineAccess)
		}
	}
	return c
}

// LoginURL returns the address of the provider's login page. It never has the parameter resource: the gateway asks for no access to itself, and Entra ID refuses
// resources that it does not know.
func (o *OIDC) LoginURL(ctx context.Context, l *Login) (string, error) {
	p, err := o.discover(ctx)
	if err != nil {
		return "", err
	}
	c := o.config(p, l.Callback)
	if l.Once {
		c.Scopes = slices.DeleteFunc(slices.Clone(c.Scopes), func(scope string) bool { return scope == oidc.ScopeOfflineAccess })
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)}
	if slices.Contains(c.Scopes, oidc.ScopeOfflineAccess) {
		// OpenID Connect Core 1.0, section 11: offline access needs the user's consent.
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	for name, value := range o.Params {
		if l.Once && (value == "consent" || value == "offline") {
			continue // for a refresh token of Google
		}
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	return c.AuthCodeURL(l.State, options...), nil
}

// Complete exchanges the code and verifies the ID token.
func (o *OIDC) Complete(ctx context.Context, l *Login, code string) (*User, *Tokens, error) {
	p, err := o.discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	token, err := o.config(p, l.Callback).Exchange(o.context(ctx), code, oauth2.VerifierOption(l.Verifier))
	if err != nil {
		return nil, nil, refusal(err)
	}
	id, user, err := o.user(ctx, p, token)
	if err != nil {
		return nil, nil, err
	}
	if id.Nonce != l.Nonce {
		return nil, nil, fmt.Errorf("%w: the ID token is for another login", ErrRefused)
	}
	return user, o.tokens(token, nil), nil
}

// Refresh renews the tokens.
func (o *OIDC) Refresh(ctx context.Context, tokens *Tokens) (*User, *Tokens, error) {
	if tokens.Refresh == "" {
		return nil, nil, ErrRefused
	}
	p, err := o.discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	token, err := o.config(p, "").TokenSource(o.context(ctx), &oauth2.Token{RefreshToken: tokens.Refresh}).Token()
	if err != nil {
		return nil, nil, refusal(err)
	}
	renewed := o.tokens(token, tokens)
	if _, ok := token.Extra("id_token").(string); !ok {
		return nil, renewed, nil // providers may leave it out; the user stays as it was
	}
	_, user, err := o.user(ctx, p, token)
	return user, renewed, err
}

// tokens returns the tokens of a response, completed by those before.
func (o *OIDC) tokens(token *oauth2.Token, before *Tokens) *Tokens {
	t := &Tokens{Access: token.AccessToken, Refresh: token.RefreshToken, Expires: token.Expiry}
	t.ID, _ = token.Extra("id_token").(string)
	if before != nil {
		t.Refresh = cmp.Or(t.Refresh, before.Refresh)
		t.ID = cmp.Or(t.ID, before.ID)
	}
	return t
}

// refusal returns ErrRefused if the provider has said that a code or a token is not valid.
func refusal(err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if e.ErrorCode == codeGrant {
			return fmt.Errorf("%w: %s", ErrRefused, e.ErrorCode)
		}
		// The whole error has the response's body, which may contain tokens.
		return fmt.Errorf("the token endpoint of the identity provider responds with status %d %s", e.Response.StatusCode, e.ErrorCode)
	}
	return err
}

// user verifies the ID token of a response and returns it with its user.
func (o *OIDC) user(ctx context.Context, p *oidc.Provider, token *oauth2.Token) (*oidc.IDToken, *User, error) {
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, nil, errors.New("the identity provider gave no ID token; its client needs the scope openid")
	}
	id, err := p.VerifierContext(o.context(ctx), &oidc.Config{ClientID: o.ClientID, SupportedSigningAlgs: signatureNames()}).Verify(o.context(ctx), raw)
	if err != nil {
		return nil, nil, fmt.Errorf("the ID token: %w", err)
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, nil, fmt.Errorf("the ID token: %w", err)
	}
	if err := o.addUserInfo(ctx, p, token, claims); err != nil {
		return nil, nil, err
	}
	user := &User{Subject: id.Subject}
	user.Name, _ = claims["name"].(string)
	user.Email, _ = claims["email"].(string)
	switch verified := claims["email_verified"].(type) {
	case bool:
		user.EmailVerified = verified
	case string: // some providers send text
		user.EmailVerified = verified == "true"
	}
	user.Groups, err = groupsOf(claims, o.GroupClaim)
	return id, user, err
}

// addUserInfo adds claims of the UserInfo endpoint to those of an ID token without an email address or without the
// claim GroupClaim: providers that give an access token may leave the user's data out of the ID token (OpenID
// Connect Core 1.0, section 5.4).
func (o *OIDC) addUserInfo(ctx context.Context, p *oidc.Provider, token *oauth2.Token, claims map[string]any) error {
	group, _, _ := strings.Cut(o.GroupClaim, ".")
	if p.UserInfoEndpoint() == "" || claims["email"] != nil && (group == "" || claims[o.GroupClaim] != nil || claims[group] != nil) {
		return nil
	}
	info, err := p.UserInfo(o.context(ctx), oauth2.StaticTokenSource(token))
	if err != nil {
		return errors.New("the UserInfo endpoint of the identity provider does not respond as OpenID Connect says")
	}
	if info.Subject != claims["sub"] {
		return fmt.Errorf("%w: the UserInfo endpoint names another user than the ID token", ErrRefused)
	}
	var more map[string]any
	if err := info.Claims(&more); err != nil {
		return fmt.Errorf("the response of the UserInfo endpoint: %w", err)
	}
	for name, value := range more {
		if claims[name] == nil {
			claims[name] = value
		}
	}
	return nil
}

// errNoGroups reports that the groups of a user are unknown. The message says why.
var errNoGroups = errors.New("the groups of the user cannot be read")

// groupsOf returns the groups of a user, by the same rules as for access tokens.
func groupsOf(claims map[string]any, name string) ([]string, error) {
	raw, err := json.Marshal(claims)
	if err != nil {
		return nil, err
	}
	groups, unknown := oauth.GroupsOf(raw, cmp.Or(name, oauth.DefaultGroupClaim))
	if unknown != "" {
		return nil, fmt.Errorf("%w: %s", errNoGroups, unknown)
	}
	return groups, nil
}

// VerifyJWT verifies the signature of a JWT of the provider.
func (o *OIDC) VerifyJWT(ctx context.Context, token string) ([]byte, string, error) {
	p, err := o.discover(ctx)
	if err != nil {
		return nil, "", err
	}
	var urls struct {
		Keys string `json:"jwks_uri"`
	}
	if err := p.Claims(&urls); err != nil {
		return nil, "", err
	}
	o.mu.Lock()
	if o.keys == nil {
		o.keys = oidc.NewRemoteKeySet(o.context(context.WithoutCancel(ctx)), urls.Keys)
	}
	keys := o.keys
	o.mu.Unlock()
	payload, err := keys.VerifySignature(ctx, token)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return payload, o.Issuer, nil
}
