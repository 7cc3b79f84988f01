package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/fairwayhq/fairway/internal/text"
)

// Error is a failed call. Its message contains no address and no credential.
type Error struct {
	Message string
	Cause   error // nil, or an error that may contain addresses
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// statusError is an unexpected status of the other server.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the server responds with status %s", text.StatusLine(e.status))
}

// isTransient reports whether repeating the GET may help.
func (e *statusError) isTransient() bool {
	return e.status == http.StatusTooManyRequests || e.status >= http.StatusInternalServerError
}

// invalidError is a response that must not be used.
type invalidError struct{ error }

// isFinal reports whether the response means that this server must not use the agent, or that the
// definition is now invalid. The previous definition must then not be used.
func isFinal(err error) bool {
	if _, ok := errors.AsType[*invalidError](err); ok {
		return true
	}
	failed, ok := errors.AsType[*statusError](err)
	return ok && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone}, failed.status)
}

// stopped returns the error of a call whose context has ended.
func stopped(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return &Error{Message: errTimeout.Error(), Cause: ctx.Err()}
	}
	return &Error{Message: "the call was canceled", Cause: ctx.Err()}
}

// errTimeout reports a call that took longer than Host.Timeout.
var errTimeout = errors.New("the agent did not finish in time, and its Engagement was canceled")

// brief replaces an error of the connection with one that contains no address. The cause is kept.
func brief(err error) error {
	if err == nil {
		return nil
	}
	message := err.Error() // of package fetch, which contains no URL
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		message = "the certificate of the server is not trusted"
	} else if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		message = "the server does not use TLS"
	} else if _, ok := errors.AsType[*net.DNSError](err); ok {
		message = "the host name of the server cannot be resolved"
	} else if errors.Is(err, ErrPrivateAddress) {
		message = ErrPrivateAddress.Error()
	} else if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		message = "the server did not respond in time"
	} else if _, ok := errors.AsType[*net.OpError](err); ok {
		message = "the connection to the server failed"
	}
	return &Error{Message: message, Cause: err}
}
