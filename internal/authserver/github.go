package authserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"golang.org/x/oauth2"
)

// GitHub is GitHub, which has OAuth but no OpenID Connect for users. A user's subject is the number of the account, which never changes. Groups are the
// organizations of the user.
type GitHub struct {
	// ClientID is the gateway's ID as an OAuth app. Required.
	ClientID string
	// ClientSecret authenticates the gateway. Required.
	ClientSecret string
	// Scopes are asked for. Default: read:user, user:email and read:org.
	Scopes []string
	// URL and API are the addresses of the server and of its API. Default: those of github.com.
	URL, API string
	// Transport sends requests. Default: http.DefaultTransport.
	Transport http.RoundTripper
}

func (g *GitHub) config(callback string) *oauth2.Config {
	base := cmp.Or(g.URL, "https://github.com")
	scopes := g.Scopes
	if scopes == nil {
		scopes = []string{"read:user", "user:email", "read:org"}
	}
	return &oauth2.Config{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret, RedirectURL: callback, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: base + "/login/oauth/authorize", TokenURL: base + "/login/oauth/access_token", AuthStyle: oauth2.AuthStyleInParams},
	}
}

func (g *GitHub) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: g.Transport, Timeout: providerWait})
}

// KnowsDocuments returns false: GitHub knows registered clients only.
func (*GitHub) KnowsDocuments(context.Context) (string, bool, error) { return "", false, nil }

// VerifyJWT returns ErrRefused: GitHub signs no JWTs for users.
func (*GitHub) VerifyJWT(context.Context, string) ([]byte, string, error) { return nil, "", ErrRefused }

// LoginURL returns the address of GitHub's login page.
func (g *GitHub) LoginURL(_ context.Context, l *Login) (string, error) {
	return g.config(l.Callback).AuthCodeURL(l.State, oauth2.S256ChallengeOption(l.Verifier)), nil
}

// Complete exchanges the code and asks who the user is.
func (g *GitHub) Complete(ctx context.Context, l *Login, code string) (*User, *Tokens, error) {
	token, err := g.config(l.Callback).Exchange(g.context(ctx), code, oauth2.VerifierOption(l.Verifier))
	if err != nil {
		if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode == "bad_verification_code" {
			return nil, nil, ErrRefused
		}
		return nil, nil, refusal(err)
	}
	tokens := &Tokens{Access: token.AccessToken, Refresh: token.RefreshToken, Expires: token.Expiry}
	user, err := g.user(ctx, tokens)
	return user, tokens, err
}

// Refresh asks again who the user is. Tokens of OAuth apps do not expire; those of GitHub Apps are renewed.
func (g *GitHub) Refresh(ctx context.Context, tokens *Tokens) (*User, *Tokens, error) {
	if tokens.Refresh != "" {
		token, err := g.config("").TokenSource(g.context(ctx), &oauth2.Token{RefreshToken: tokens.Refresh}).Token()
		if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode == "bad_refresh_token" {
			return nil, nil, ErrRefused
		}
		if err != nil {
			return nil, nil, refusal(err)
		}
		tokens = &Tokens{Access: token.AccessToken, Refresh: token.RefreshToken, Expires: token.Expiry}
	}
	user, err := g.user(ctx, tokens)
	return user, tokens, err
}

// user asks who the owner of the tokens is.
func (g *GitHub) user(ctx context.Context, tokens *Tokens) (*User, error) {
	var account struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
		Name  string `json:"name"`
	}
	if err := g.get(ctx, tokens, "/user", &account); err != nil {
		return nil, err
	}
	user := &User{Subject: strconv.FormatInt(account.ID, 10), Name: account.Name}
	user.Name = cmp.Or(user.Name, account.Login)
	var emails []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	if err := g.get(ctx, tokens, "/user/emails", &emails); err != nil {
		return nil, err
	}
	for _, e := range emails {
		if e.Primary {
			user.Email, user.EmailVerified = e.Email, e.Verified
		}
	}
	var organizations []struct {
		Login string `json:"login"`
	}
	if err := g.get(ctx, tokens, "/user/orgs?per_page=100", &organizations); err != nil {
		return nil, err
	}
	for _, o := range organizations {
		user.Groups = append(user.Groups, o.Login)
	}
	return user, nil
}

// get reads a resource of the API. One that the token's scopes do not allow is left empty, but for the user itself.
func (g *GitHub) get(ctx context.Context, tokens *Tokens, path string, to any) error {
	base := cmp.Or(g.API, "https://api.github.com")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil) //nolint:gosec // the operator configures the address
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+tokens.Access)
	r.Header.Set("Accept", "application/vnd.github+json")
	response, err := (&http.Client{Transport: g.Transport, Timeout: providerWait}).Do(r) //nolint:gosec // see above
	if err != nil {
		return fmt.Errorf("the API of GitHub: %w", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return ErrRefused
	case path != "/user" && (response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusNotFound):
		return nil
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("the API of GitHub responds to %s with status %d", path, response.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(to)
}
