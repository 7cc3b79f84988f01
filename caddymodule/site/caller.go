package site

import (
	"context"
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/share"
)

// VarCaller is the request variable (caddyhttp.GetVar) with the Caller. agent_auth sets it for requests with a valid
// access token. No other text can take its place: its type has no other source.
const VarCaller = "agents.caller"

// A Caller is who sent a request, with the access token that was verified. It is immutable. No text, log or JSON of it
// contains the token.
type Caller struct {
	token   string
	expires time.Time
	owner   share.Owner
	aud     []string

	login   sessions // has issued the access token, and no other server knows it; nil if an identity provider has
	session string   // of the login; "" if it has none
}

// sessions has the tokens that identity providers gave for the sessions of a login. It is part of Login.
type sessions interface {
	// ProviderToken returns the access token, or the ID token, that the identity provider gave for a session (oauth.Token.Session), and when it expires:
	// zero if that is unknown. It is refreshed if it expires soon. The error is an *oauth.Error: InvalidToken if the user has to log in again, or
	// Unavailable.
	ProviderToken(ctx context.Context, session string, isID bool) (token string, expires time.Time, err error)
}

// NewCaller returns the caller with an access token. User identifies the caller among those of all issuers. Audience is
// the token's aud.
func NewCaller(token, user string, expires time.Time, audience []string) *Caller {
	return &Caller{token: token, expires: expires, owner: share.OwnerOf(user, ""), aud: audience}
}

// NewSessionCaller returns a caller whose access token the site's own login has issued. Credentials exchange the tokens that
// the identity provider gave for the session instead. Expires is when the access token expires.
func NewSessionCaller(login sessions, session, user string, expires time.Time) *Caller {
	return &Caller{login: login, session: session, expires: expires, owner: share.OwnerOf(user, "")}
}

// CallerOf returns the caller of the request that a context belongs to, or nil if it has sent no access token.
func CallerOf(ctx context.Context) *Caller {
	c, _ := caddyhttp.GetVar(ctx, VarCaller).(*Caller)
	return c
}

// Session returns the session of a caller who has logged in at the site itself, or "".
func (c *Caller) Session() string { return c.session }

// Owner returns whose share the caller's data takes.
func (c *Caller) Owner() share.Owner { return c.owner }

// Audience returns the token's aud.
func (c *Caller) Audience() []string { return c.aud }

// Expires returns when the access token expires.
func (c *Caller) Expires() time.Time { return c.expires }

// Key returns what identifies the caller's token in keys of caches. It is secret. It never has a null byte, unless it is a session.
func (c *Caller) Key() string {
	if c.login != nil {
		return "session\x00" + c.session
	}
	return c.token
}

// ErrNoSession means that the caller has logged in at the site itself, without a session.
var ErrNoSession = errors.New("the login has no session")

// Exchangeable returns the token to exchange, and when it expires: the caller's own, or the one that the identity provider gave for the
// session. The error is ErrNoSession or that of Sessions.ProviderToken.
func (c *Caller) Exchangeable(ctx context.Context, isID bool) (string, time.Time, error) {
	switch {
	case c.login == nil:
		return c.token, c.expires, nil
	case c.session == "":
		return "", time.Time{}, ErrNoSession
	}
	return c.login.ProviderToken(ctx, c.session, isID)
}

// String returns a text without the token, for placeholders and logs.
func (*Caller) String() string { return "caller with an access token" }

// GoString returns the same as String.
func (c *Caller) GoString() string { return c.String() }
