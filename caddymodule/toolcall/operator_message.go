package toolcall

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/text"
)

// maxOperatorMessage bounds the message of an error directive that a response repeats, in bytes.
const maxOperatorMessage = 1 << 10

// staticErrorTrace is how the trace of an error begins that the error directive returned.
// Caddy sets the trace to the function that made the error.
const staticErrorTrace = "caddyhttp.StaticError.ServeHTTP "

// operatorMessage returns the message of an error directive, which the operator wrote for the
// client. Errors of all other handlers may have internal details, such as the address of an
// upstream, and are not passed on.
func operatorMessage(err caddyhttp.HandlerError) (message string, ok bool) {
	if err.Err == nil || err.StatusCode < http.StatusBadRequest || !strings.HasPrefix(err.Trace, staticErrorTrace) {
		return "", false
	}
	if _, isStatus := errors.AsType[*strconv.NumError](err.Err); isStatus {
		return "", false // the directive's status is not a number, which Caddy reports
	}
	message = strings.ToValidUTF8(strings.TrimSpace(err.Err.Error()), "\ufffd")
	return text.Cut(message, maxOperatorMessage), message != ""
}

// answerText replaces the recorded body by a plain text, whatever the request's method. Other
// headers stay: the operator may have set Retry-After.
func (r *Recorder) answerText(status int, message string) {
	r.Drop()
	r.Body, r.Stream, r.bodiless, r.Status = buffer.Get(), nil, false, status
	r.Headers.Set("Content-Type", "text/plain; charset=utf-8")
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		r.Headers.Del(name)
	}
	_, _ = r.WriteString(message) // a text that is over the limit becomes that failure
}
