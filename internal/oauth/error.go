package oauth

import (
	"fmt"
	"net/http"
	"time"
)

// A Code says which kind of refusal an Error is. Those of RFC 6750, section 3.1,
// are written as they stand in a challenge.
type Code string

const (
	// Missing: the request brings no token. It is no error code of a challenge.
	Missing Code = "missing"
	// InvalidRequest: the credentials are malformed, or there are too many.
	InvalidRequest Code = "invalid_request"
	// InvalidToken: the token is expired, forged, or for somebody else.
	InvalidToken Code = "invalid_token"
	// InsufficientScope: the token is good, and allows too little.
	InsufficientScope Code = "insufficient_scope"
	// Unavailable: the issuer's keys are not known at the moment, so the token
	// can be neither accepted nor refused.
	Unavailable Code = "temporarily_unavailable"
)

// Error is the refusal of a request. It never has the token, or any part of it
// that a client could not as well be told.
type Error struct {
	Code Code

	// Description says what is wrong and what to do, in one printable line.
	Description string

	// RetryAfter is when to try again, for Unavailable.
	RetryAfter time.Duration
}

// Error returns the code and the description.
func (e *Error) Error() string {
	return string(e.Code) + ": " + e.Description
}

// Status returns the HTTP status of the refusal.
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

func invalidToken(format string, arguments ...any) *Error {
	return &Error{Code: InvalidToken, Description: fmt.Sprintf(format, arguments...)}
}

func invalidRequest(format string, arguments ...any) *Error {
	return &Error{Code: InvalidRequest, Description: fmt.Sprintf(format, arguments...)}
}
