package ocp

import (
	"net/http"
	"time"
)

// FailureKind says at which step a call failed. Its text is the name of the outcome in
// metrics, access logs and placeholders (see Outcome.Name).
type FailureKind string

// The kinds of failure.
const (
	UnknownTool      FailureKind = "unknown_tool" // no tool has that name
	InvalidArguments FailureKind = "invalid"      // the arguments do not fit the tool's schema
	Unanswered       FailureKind = "unanswered"   // no handler behind the adapter answers
	Unreachable      FailureKind = "unreachable"  // the upstream is down or broke off
	TimedOut         FailureKind = "timeout"      // the call took longer than it may
	Canceled         FailureKind = "canceled"     // the client went away
	TooLarge         FailureKind = "too_large"    // the answer is over the limit
	Unreadable       FailureKind = "unreadable"   // the answer cannot be decoded or is not what the document declares
	Refused          FailureKind = "refused"      // the API answered 4xx
	Failed           FailureKind = "api_error"    // the API answered 5xx
	Redirected       FailureKind = "redirected"   // the API answered 3xx
	Restricted       FailureKind = "restricted"   // the guard of the agent does not allow it, or its result
	Unauthorized     FailureKind = "unauthorized" // the caller's credentials do not allow the tool; the API was not called
	Internal         FailureKind = "internal"     // a panic or a fault of the gateway
)

// A Failure says why a call did not succeed, in words fit for a model and for
// the person behind it.
type Failure struct {
	Kind       FailureKind
	Message    string        // what was wrong, where, and what to do
	Status     int           // of the API's answer; 0 if it gave none
	RetryAfter time.Duration // what the API asked for; 0 if nothing
	Problems   []Problem     // of InvalidArguments: one for each wrong argument

	// Made reports that a Restricted call reached the API and that a repetition
	// would reach it again. It is false while the result only waits for a review:
	// a repetition then asks for the held result.
	Made bool
}

// A Problem is one thing wrong with the arguments of a call.
type Problem struct {
	Path    string // a JSON Pointer into the arguments; "" is the whole object
	Message string
}

// Error returns the message.
func (f *Failure) Error() string {
	return f.Message
}

// Retryable reports whether the same call may succeed later: it was refused for
// load or failed on the way, and either never reached the API or does no harm
// when it runs twice.
func (f *Failure) Retryable(t *Tool) bool {
	switch f.Kind {
	case Unanswered:
		return false
	case Refused:
		switch f.Status {
		case http.StatusTooManyRequests:
			return true
		case http.StatusRequestTimeout, http.StatusTooEarly:
			// The API may have begun (RFC 9110, section 15.5.9; RFC 8470, section 5.2).
			return t != nil && t.ReadOnly()
		}
		return false
	case Restricted:
		return f.RetryAfter > 0 && !f.Made
	case Failed:
		if f.Status == http.StatusNotImplemented {
			return false // nor will it be later
		}
		return f.Status == http.StatusServiceUnavailable || t != nil && t.Idempotent()
	case Unreachable, TimedOut:
		return t != nil && t.Idempotent()
	}
	return false
}
