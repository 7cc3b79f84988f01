package route

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/text"
)

// maxOperatorMessage limits, in bytes, how much of an error directive's message a response
// contains.
const maxOperatorMessage = 1 << 10

// staticErrorTrace is the beginning of the trace of an error that the error directive returns.
// Caddy sets the trace to the function that created the error.
const staticErrorTrace = "caddyhttp.StaticError.ServeHTTP "

// operatorMessage returns the message of an error directive, which the operator wrote for the
// client. Errors of other handlers may contain internal details, such as the address of an
// upstream, and are not passed on.
func operatorMessage(err caddyhttp.HandlerError) (message string, ok bool) {
	if err.Err == nil || err.StatusCode < http.StatusBadRequest || !strings.HasPrefix(err.Trace, staticErrorTrace) {
		return "", false
	}
	if _, isStatus := errors.AsType[*strconv.NumError](err.Err); isStatus {
		return "", false // the directive's status is not a number; Caddy reports that
	}
	message = strings.ToValidUTF8(strings.TrimSpace(err.Err.Error()), "\ufffd")
	return text.Cut(message, maxOperatorMessage), message != ""
}

// replaceWithText replaces the recorded body with plain text, whatever the request's method. Other
// headers are kept: the operator may have set Retry-After.
func (r *Recorder) replaceWithText(status int, message string) {
	r.Release()
	r.Hold()
	r.NoBody, r.Status = false, status
	r.Headers.Set("Content-Type", "text/plain; charset=utf-8")
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		r.Headers.Del(name)
	}
	_, _ = r.Write([]byte(message)) // a text over the limit sets TooLarge
}
