package exchange

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/tools"
)

// exchangeable returns the token of a caller to exchange, and when it expires. The error is a *credential.CallError.
func exchangeable(ctx context.Context, c *site.Caller, isID bool) (string, time.Time, error) {
	token, expires, err := c.Exchangeable(ctx, isID)
	refusal, ok := errors.AsType[*oauth.Error](err)
	switch {
	case err == nil:
		return token, expires, nil
	case errors.Is(err, site.ErrNoSession):
		return "", time.Time{}, &credential.CallError{Kind: tools.Unauthorized, Message: "it needs a token of the caller's identity provider, and this login has none, because it is one of a machine, of the console, or with an assertion: log in as a user with a client"}
	case ok && refusal.Code == oauth.InvalidToken:
		return "", time.Time{}, &credential.CallError{Kind: tools.Unauthorized, Err: err, Message: "it needs a token of the caller's identity provider, and the login has none: " + strings.TrimSuffix(refusal.Description, ".")}
	}
	return "", time.Time{}, &credential.CallError{Kind: tools.Unreachable, Err: err, Message: "the token of the caller's identity provider cannot be refreshed, because the provider or the gateway's store does not respond; the call was not made, so it may be repeated"}
}
