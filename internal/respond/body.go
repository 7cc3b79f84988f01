package respond

import (
	"errors"
	"net/http"
	"os"

	"github.com/fairwayhq/fairway/internal/share"
)

// BodyRetry is the Retry-After of a BodyFailure, in seconds.
const BodyRetry = "1"

// BodyFailure returns the status and the message for an error of reading a body whose memory and speed are limited. The
// status is 0 for other errors.
func BodyFailure(err error) (status int, message string) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return http.StatusRequestTimeout, "the body arrived too slowly: send it again, without pauses"
	}
	full, ok := errors.AsType[*share.FullError](err)
	switch {
	case !ok:
		return 0, ""
	case full.Share:
		return http.StatusTooManyRequests, "your requests in progress have used your share of the memory for bodies: try again when some of them have ended"
	}
	return http.StatusServiceUnavailable, "the requests in progress have used the memory for bodies: try again"
}
