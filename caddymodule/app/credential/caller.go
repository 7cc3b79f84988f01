package credential

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/tools"
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

	login   Login  // has issued the access token, and no other server knows it; nil if an identity provider has
	session string // of the login; "" if it has none
}

// A Login has the tokens that identity providers gave for its sessions. It is part of app.Login.
type Login interface {
	ProviderToken(ctx context.Context, session string, isID bool) (token string, expires time.Time, err error)
}

// NewSessionCaller returns a caller whose access token the site's own login has issued. Credentials exchange the tokens that
// the identity provider gave for the session instead. Expires is when the access token expires.
func NewSessionCaller(login Login, session, user string, expires time.Time) *Caller {
	return &Caller{login: login, session: session, expires: expires, owner: share.OwnerOf(user, "")}
}

// Session returns the session of a caller who has logged in at the site itself, or "".
func (c *Caller) Session() string { return c.session }

// subject returns what identifies the caller's token in keys of caches. It never has a null byte, unless it is a session.
func (c *Caller) subject() string {
	if c.login != nil {
		return "session\x00" + c.session
	}
	return c.token
}

// exchangeable returns the token to exchange, and when it expires. The error is a *CallError.
func (c *Caller) exchangeable(ctx context.Context, isID bool) (string, time.Time, error) {
	switch {
	case c.login == nil:
		return c.token, c.expires, nil
	case c.session == "":
		return "", time.Time{}, &CallError{Kind: tools.Unauthorized, Message: "it needs a token of the caller's identity provider, and this login has none, because it is one of a machine, of the console, or with an assertion: log in as a user with a client"}
	}
	token, expires, err := c.login.ProviderToken(ctx, c.session, isID)
	refusal, ok := errors.AsType[*oauth.Error](err)
	switch {
	case err == nil:
		return token, expires, nil
	case ok && refusal.Code == oauth.InvalidToken:
		return "", time.Time{}, &CallError{Kind: tools.Unauthorized, err: err, Message: "it needs a token of the caller's identity provider, and the login has none: " + strings.TrimSuffix(refusal.Description, ".")}
	}
	return "", time.Time{}, &CallError{Kind: tools.Unreachable, err: err, Message: "the token of the caller's identity provider cannot be refreshed, because the provider or the gateway's store does not respond; the call was not made, so it may be repeated"}
}

// NewCaller returns the caller with an access token. User identifies the caller among those of all issuers. Audience is
// the token's aud.
func NewCaller(token, user string, expires time.Time, audience []string) *Caller {
	return &Caller{token: token, expires: expires, owner: share.OwnerOf(user, ""), aud: audience}
}

// String returns a text without the token, for placeholders and logs.
func (*Caller) String() string { return "caller with an access token" }

// GoString returns the same as String.
func (c *Caller) GoString() string { return c.String() }

// Expires returns when the access token expires.
func (c *Caller) Expires() time.Time { return c.expires }

// CallerOf returns the caller of the request that a context belongs to, or nil if it has sent no access token.
func CallerOf(ctx context.Context) *Caller {
	c, _ := caddyhttp.GetVar(ctx, VarCaller).(*Caller)
	return c
}

// A CallError is the error of a credential that depends on the caller or on another server, and not on the
// configuration. Its message is for the caller.
type CallError struct {
	Kind    tools.FailureKind // Unauthorized if the caller has to log in, or Unreachable if the call may be repeated
	Message string
	err     error // for the log
}

func (e *CallError) Error() string {
	if e.err != nil {
		return e.Message + ": " + e.err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.err }
