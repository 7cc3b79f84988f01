package connections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/endpoints"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/tokenclient"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(User))
}

const (
	// providerWait limits one request to a provider.
	providerWait = 10 * time.Second

	// Values of ClientAuth.
	authBasic, authPost = "basic", "post"

	// maxSecret limits a token or an API key, in bytes.
	maxSecret = 16 << 10
)

// User is the secret of the account that the user who makes a call has at a third party. Users connect their accounts at the pages of the directive
// agent_connections, with OAuth 2.0 or by pasting an API key. A call of a user without an account is not sent; the user gets a link to connect one.
type User struct {
	// The name of the third party, for users and in the address of the callback: lower-case letters, digits and hyphens. The addresses of github, gitlab and google are
	// known. Toolsets with equal options share the accounts of a name. Required.
	Name string `json:"provider,omitempty"`

	// Whether users paste an API key instead of OAuth. Default: false.
	APIKey bool `json:"api_key,omitempty"`

	// Where users authorize the gateway (RFC 6749, section 3.1). Default: that of a known name.
	AuthorizeURL string `json:"authorize_url,omitempty"`

	// Where the gateway gets tokens (RFC 6749, section 3.2). Default: that of a known name.
	TokenURL string `json:"token_url,omitempty"`

	// Where the gateway revokes tokens (RFC 7009). Default: that of a known name; otherwise tokens are deleted, but not revoked.
	RevokeURL string `json:"revoke_url,omitempty"`

	// The gateway's ID as an application of the third party. Required for OAuth.
	ClientID string `json:"client_id,omitempty"`

	// The gateway's secret there. Use a placeholder such as {env.GITHUB_SECRET}. Default: none.
	ClientSecret string `json:"client_secret,omitempty"`

	// How the gateway authenticates itself there: "basic" (the header Authorization) or "post" (in the body). Default: basic.
	ClientAuth string `json:"client_auth,omitempty"`

	// The scopes that the gateway requests. Default: none.
	Scopes []string `json:"scopes,omitempty"`

	// Parameters that are added to the address where users authorize the gateway. Default: none; for google, those that
	// make it issue refresh tokens.
	Params map[string]string `json:"params,omitempty"`

	// The header that gets the secret as it is. Default: Authorization, with Bearer before the secret.
	Header string `json:"header,omitempty"`

	clientID, clientSecret string
	authorize, token       string
	revoke                 string
}

// knownProvider are the addresses of a third party.
type knownProvider struct {
	title    string
	endpoint oauth2.Endpoint
	revoke   string
	params   map[string]string
}

var known = map[string]knownProvider{
	"github": {title: "GitHub", endpoint: endpoints.GitHub},
	"gitlab": {title: "GitLab", endpoint: endpoints.GitLab, revoke: "https://gitlab.com/oauth/revoke"},
	"google": {
		title: "Google", endpoint: endpoints.Google, revoke: "https://oauth2.googleapis.com/revoke",
		params: map[string]string{"access_type": "offline", "prompt": "consent"},
	},
}

var (
	isName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	isCode = regexp.MustCompile(`^[a-z_]{1,40}$`) // of an error that can be logged
)

// CaddyModule returns the Caddy module information.
func (*User) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: credential.Namespace + ".user", New: func() caddy.Module { return new(User) }}
}

// Provision checks the options and replaces placeholders.
func (u *User) Provision(caddy.Context) error {
	if err := u.check(); err != nil {
		return err
	}
	k := known[u.Name]
	repl := caddy.NewReplacer()
	for _, option := range []struct {
		name, source string
		to           *string
	}{
		{"client_id", u.ClientID, &u.clientID},
		{"client_secret", u.ClientSecret, &u.clientSecret},
		{"authorize_url", cmp.Or(u.AuthorizeURL, k.endpoint.AuthURL), &u.authorize},
		{"token_url", cmp.Or(u.TokenURL, k.endpoint.TokenURL), &u.token},
		{"revoke_url", cmp.Or(u.RevokeURL, k.revoke), &u.revoke},
	} {
		var err error
		if *option.to, err = repl.ReplaceOrErr(option.source, true, true); err != nil {
			return u.errorf("%s: %w", option.name, err)
		}
		if *option.to == "" && option.source != "" {
			return u.errorf("%s is empty", option.name)
		}
		if isAddress := strings.HasSuffix(option.name, "_url"); isAddress && *option.to != "" && oauth.CheckAddress(*option.to) != nil {
			return u.errorf("%s %s is not an https address", option.name, *option.to)
		}
	}
	if !u.APIKey && (u.authorize == "" || u.token == "" || u.clientID == "") {
		return u.errorf("it needs authorize_url, token_url and client_id; or, for API keys that users paste, the option api_key")
	}
	return nil
}

// check checks the options that need no placeholders.
func (u *User) check() error {
	switch {
	case !isName.MatchString(u.Name):
		return errors.New("credential user: the provider needs a name of lower-case letters, digits and hyphens, as in: provider github")
	case u.APIKey && (u.AuthorizeURL+u.TokenURL+u.RevokeURL+u.ClientID+u.ClientSecret != "" || len(u.Scopes)+len(u.Params) > 0):
		return u.errorf("api_key and options of OAuth exclude each other")
	case u.ClientAuth != "" && u.ClientAuth != authBasic && u.ClientAuth != authPost:
		return u.errorf("client_auth is %s or %s, not %q", authBasic, authPost, u.ClientAuth)
	case u.Header != "" && (!httpguts.ValidHeaderFieldName(u.Header) || textproto.CanonicalMIMEHeaderKey(u.Header) == "Host" || !httpheader.Forwarded(textproto.CanonicalMIMEHeaderKey(u.Header), nil)):
		return u.errorf("%q is not a header for credentials", u.Header)
	}
	return nil
}

func (u *User) errorf(format string, arguments ...any) error {
	return fmt.Errorf("credential user, provider "+u.Name+": "+format, arguments...)
}

// Title returns the name of the third party for people.
func (u *User) Title() string { return cmp.Or(known[u.Name].title, u.Name) }

// Provider implements credential.Personal.
func (u *User) Provider() string { return u.Name }

// IsSame implements credential.Personal.
func (u *User) IsSame(other credential.Personal) bool { return reflect.DeepEqual(u, other) }

// Location implements credential.Module.
func (u *User) Location() credential.Location {
	return credential.Location{Name: textproto.CanonicalMIMEHeaderKey(cmp.Or(u.Header, "Authorization"))}
}

// Secret implements credential.Module.
func (u *User) Secret(ctx context.Context, _ *caddy.Replacer) (string, error) {
	by := credential.UserCallFrom(ctx)
	switch {
	case by == nil || by.User == "":
		return "", &tools.Failure{Kind: tools.Unauthorized, Message: "the call was not sent: it uses the user's own account at " + u.Title() +
			", and it is not known who the user is; log in first"}
	case by.Accounts == nil:
		return "", errors.New("no site has the directive agent_connections, where users connect their accounts")
	}
	secret, err := by.Accounts.SecretOf(ctx, u, by)
	if err != nil {
		return "", err
	}
	if by.Sent == nil {
		by.Sent = make(map[string]string)
	}
	by.Sent[u.Name] = secret
	if u.Header == "" {
		return "Bearer " + secret, nil
	}
	return secret, nil
}

// Rejected implements credential.Personal.
func (u *User) Rejected(ctx context.Context) {
	if by := credential.UserCallFrom(ctx); by != nil && by.Accounts != nil {
		by.Accounts.Rejected(ctx, u, by)
	}
}

// config returns the OAuth client. The callback may be empty for a refresh.
func (u *User) config(callback string) *oauth2.Config {
	style := oauth2.AuthStyleInHeader
	if u.ClientAuth == authPost || u.clientSecret == "" {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: u.clientID, ClientSecret: u.clientSecret, RedirectURL: callback, Scopes: u.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: u.authorize, TokenURL: u.token, AuthStyle: style},
	}
}

// authorizeURL returns the address where the user authorizes the gateway.
func (u *User) authorizeURL(callback, state, verifier string) string {
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for _, params := range []map[string]string{known[u.Name].params, u.Params} {
		for name, value := range params {
			options = append(options, oauth2.SetAuthURLParam(name, value))
		}
	}
	return u.config(callback).AuthCodeURL(state, options...)
}

// exchange exchanges a code for tokens.
func (u *User) exchange(ctx context.Context, callback, code, verifier string) (*oauth2.Token, error) {
	return checked(u.config(callback).Exchange(withClient(ctx), code, oauth2.VerifierOption(verifier)))
}

// renew exchanges a refresh token for tokens.
func (u *User) renew(ctx context.Context, refresh string) (*oauth2.Token, error) {
	return checked(u.config("").TokenSource(withClient(ctx), &oauth2.Token{RefreshToken: refresh}).Token())
}

// errGrant reports that a code or a refresh token is not valid (any more).
var errGrant = errors.New("the provider no longer accepts the grant (invalid_grant)")

// checked returns the tokens of a response, and errors without its text, which may contain secrets.
func checked(t *oauth2.Token, err error) (*oauth2.Token, error) {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		switch code := refused.ErrorCode; {
		case code == "invalid_grant", code == "bad_refresh_token", code == "bad_verification_code": // the latter two are GitHub's
			return nil, errGrant
		case isCode.MatchString(code):
			return nil, fmt.Errorf("the provider responds with %s", code)
		}
		return nil, fmt.Errorf("the provider responds with status %d", refused.Response.StatusCode)
	}
	if unreachable, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("the provider cannot be reached: %w", unreachable.Err)
	}
	if err != nil {
		return nil, errors.New("the response of the provider cannot be read as a token response (RFC 6749, section 5.1)")
	}
	if len(t.AccessToken) > maxSecret || len(t.RefreshToken) > maxSecret || !httpguts.ValidHeaderFieldValue(t.AccessToken) {
		return nil, fmt.Errorf("the provider's token has more than %d bytes, or characters that a header cannot have", maxSecret)
	}
	return t, nil
}

// revokeToken revokes a token (RFC 7009).
func (u *User) revokeToken(ctx context.Context, token string) error {
	form := url.Values{"token": {token}, "client_id": {u.clientID}}
	if u.ClientAuth == authPost {
		form.Set("client_secret", u.clientSecret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if u.clientSecret != "" && u.ClientAuth != authPost {
		r.SetBasicAuth(url.QueryEscape(u.clientID), url.QueryEscape(u.clientSecret))
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the provider cannot be reached: %w", errors.Unwrap(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the provider responds with status %d", response.StatusCode)
	}
	return nil
}

// client sends requests to providers. It follows no redirects, which would send secrets elsewhere.
var client = &http.Client{
	Transport: tokenclient.Transport{}, Timeout: providerWait,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func withClient(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, client)
}

// Interface guards
var (
	_ credential.Personal = (*User)(nil)
	_ caddy.Provisioner   = (*User)(nil)
)
