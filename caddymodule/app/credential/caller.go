package credential

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

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
