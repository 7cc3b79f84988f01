package authserver

import (
	"context"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
)

// ErrEnded reports that a session has no usable token of the provider, so the user has to log in again. The message says why.
var ErrEnded = errors.New("log in again")

// freshFor is how long a token of the provider must be valid, so that it is not refreshed before use.
const freshFor = 30 * time.Second

// providerTokens gives out the provider's tokens of sessions, to act as their users.
type providerTokens struct{ server *Server }

// NewProviderTokens returns the tokens of the sessions of a server.
func NewProviderTokens(s *Server) *providerTokens { return &providerTokens{s} }

// Get returns the provider's access token of a session, or its ID token, and when it expires: zero if that is unknown. A token that expires soon is
// refreshed and stored. The error wraps ErrEnded if the user has to log in again. With any other error the call may be repeated.
func (p *providerTokens) Get(ctx context.Context, id string, isID bool) (token string, expires time.Time, err error) {
	now, f := renewal{p.server, id}.run(ctx, func(old *session) *failure {
		token, expires = old.Tokens.subject(isID)
		switch {
		case token != "" && (expires.IsZero() || time.Until(expires) > freshFor):
			return errFresh
		case old.Tokens.Refresh == "" && token != "" && time.Now().Before(expires):
			return errFresh // it cannot be refreshed
		case old.Tokens.Refresh == "":
			return errNoRefresh
		}
		return nil
	}, func(*session) {})
	switch {
	case f == nil:
		token, expires = now.Tokens.subject(isID)
	case f == errFresh:
		return token, expires, nil
	case f.code == codeGrant:
		return "", time.Time{}, &endedError{f.description}
	default:
		return "", time.Time{}, errors.New(f.description)
	}
	if token == "" || !expires.IsZero() && time.Now().After(expires) {
		return "", time.Time{}, &endedError{"The identity provider gives no new token of this kind when the login is refreshed; log in again."}
	}
	return token, expires, nil
}

var (
	errFresh     = fail("", "")
	errNoRefresh = fail(codeGrant, "The tokens of the identity provider have expired, and it gave no refresh token; log in again.")
)

type endedError struct{ reason string }

func (e *endedError) Error() string { return e.reason }
func (e *endedError) Unwrap() error { return ErrEnded }

// subject returns the access token or the ID token, and when it expires.
func (t *Tokens) subject(isID bool) (string, time.Time) {
	if !isID {
		return t.Access, t.Expires
	}
	var claims jwt.Claims
	parsed, err := jwt.ParseSigned(t.ID, signatures)
	if err != nil || parsed.UnsafeClaimsWithoutVerification(&claims) != nil || claims.Expiry == nil { // it was verified when it arrived
		return "", time.Time{}
	}
	return t.ID, claims.Expiry.Time()
}
