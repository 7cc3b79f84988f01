package model

import (
	"errors"
	"fmt"
)

// Kind is the kind of an Error.
type Kind string

// Kinds of errors. The first four are temporary: the same request may succeed later.
const (
	KindRateLimited Kind = "rate_limited" // too many requests (429)
	KindUnavailable Kind = "unavailable"  // a failure or overload of the API (5xx)
	KindConnection  Kind = "connection"   // no connection, or it broke before the response was complete
	KindTimeout     Kind = "timeout"      // no response in time, or a pause in it

	KindCredentials    Kind = "credentials"      // a missing or rejected key, or exhausted credit (401, 402, 403)
	KindContextTooLong Kind = "context_too_long" // the conversation exceeds what the model can read
	KindRejected       Kind = "rejected"         // the API rejected the request for another reason (4xx)
	KindMalformed      Kind = "malformed"        // the response does not follow the API's format
	KindTooLarge       Kind = "too_large"        // the response exceeds a limit of this program
	KindRequest        Kind = "request"          // the request is invalid and was not sent
	KindInspected      Kind = "inspected"        // an inspector rejected the request, which was not sent, or the response
)

// Error is why a model returned no response.
type Error struct {
	Kind Kind `json:"kind"`

	// Status is the HTTP status of the response; 0 if there is none.
	Status int `json:"status,omitzero"`

	// RetryAfter is how many seconds the API asks to wait; 0 if it does not say.
	RetryAfter int `json:"retry_after,omitzero"`

	// Message describes the error to an operator. It may quote the API, but has no credentials.
	Message string `json:"message"`

	// Final means that the request must not be repeated later, by the configuration of the model.
	Final bool `json:"final,omitzero"`
}

func (e *Error) Error() string { return "model: " + e.Message }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case KindRateLimited, KindUnavailable, KindConnection, KindTimeout:
		return true
	}
	return false
}

// Errorf returns an Error with a formatted message. The message must not contain credentials.
func Errorf(kind Kind, format string, arguments ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, arguments...)}
}

// KindOf returns the kind of an error of Generate. It returns "" for other errors, such as that
// of a canceled context.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}
