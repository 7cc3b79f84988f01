package oauth

import (
	"fmt"
	"net/http"
	"time"
)

// A Code is the kind of an Error. The codes of RFC 6750, section 3.1, have the same text as in
// a challenge.
type Code string

const (
	// Missing: the request has no token. This code never appears in a challenge.
	Missing Code = "missing"
	// InvalidRequest: the credentials are malformed, or there are several.
	InvalidRequest Code = "invalid_request"
	// InvalidToken: the token is expired, forged, or for another resource.
	InvalidToken Code = "invalid_token"
	// InsufficientScope: the token is valid but lacks a required scope.
	InsufficientScope Code = "insufficient_scope"
	// Unavailable: the issuer's keys are currently unknown, so the token can be neither
	// accepted nor rejected.
	Unavailable Code = "temporarily_unavailable"
)

// Error is the reason why a request is rejected. It never contains the token or secret parts of
// it.
type Error struct {
	Code Code

	// Description says what is wrong and how to fix it, in one printable line.
	Description string

	// RetryAfter is how long to wait before trying again. Only for Unavailable.
	RetryAfter time.Duration
}

// Error returns the code and the description.
func (e *Error) Error() string {
	return string(e.Code) + ": " + e.Description
}

// Status returns the HTTP status for the error.
func (e *Error) Status() int {
	switch e.Code {
	case InvalidRequest:
		return http.StatusBadRequest
	case InsufficientScope:
		return http.StatusForbidden
	case Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

// NewInvalidToken returns an Error with InvalidToken.
func NewInvalidToken(format string, arguments ...any) *Error {
	return &Error{Code: InvalidToken, Description: fmt.Sprintf(format, arguments...)}
}

// invalidRequest returns an Error with InvalidRequest.
func invalidRequest(format string, arguments ...any) *Error {
	return &Error{Code: InvalidRequest, Description: fmt.Sprintf(format, arguments...)}
}
