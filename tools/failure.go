package tools

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/schema"
)

// FailureKind is the step at which a call failed. Its text is the name of the outcome in
// metrics, access logs and placeholders (see Outcome.Name).
type FailureKind string

// The kinds of failure.
const (
	UnknownTool      FailureKind = "unknown_tool" // no tool has that name
	InvalidArguments FailureKind = "invalid"      // the arguments do not fit the tool's schema
	Unanswered       FailureKind = "unanswered"   // no handler after the adapter responded
	Unreachable      FailureKind = "unreachable"  // the upstream is down or the connection was lost
	TimedOut         FailureKind = "timeout"      // the call exceeded its time limit
	Canceled         FailureKind = "canceled"     // the client disconnected
	TooLarge         FailureKind = "too_large"    // the response exceeds the limit
	Unreadable       FailureKind = "unreadable"   // the response cannot be decoded or is not what the document declares
	Refused          FailureKind = "refused"      // the API responded with 4xx
	Failed           FailureKind = "api_error"    // the API responded with 5xx
	Redirected       FailureKind = "redirected"   // the API responded with 3xx
	Restricted       FailureKind = "restricted"   // the agent's guard does not allow the call or its result
	Unauthorized     FailureKind = "unauthorized" // the caller's credentials do not allow the tool; the API was not called
	Internal         FailureKind = "internal"     // a panic or an error of the gateway

	KeyConflict    FailureKind = "idempotency_conflict"    // the key belongs to another call
	KeyInFlight    FailureKind = "idempotency_in_flight"   // the first call with the key is still in progress
	KeyUnknown     FailureKind = "idempotency_unknown"     // the effect or the result of the first call with the key is unknown
	KeyUnavailable FailureKind = "idempotency_unavailable" // calls with a key cannot be recorded at the moment
)

// A Failure says why a call did not succeed. Its message is written for a model and its
// user.
type Failure struct {
	Kind       FailureKind
	Message    string        // what is wrong, where, and how to fix it
	Status     int           // of the API's response; 0 if there is none
	RetryAfter time.Duration // the delay that the API requested; 0 if none
	Problems   []Problem     // for InvalidArguments: one for each invalid argument
	Renewed    bool          // the API has not accepted a credential of the gateway, and a further call has another one

	// Made reports that a Restricted call reached the API and that repeating the call
	// would reach the API again. It is false while only the result waits for a review,
	// because a repeated call then requests the held result.
	Made bool

	// Unsent reports that the gateway did not send the request, and that the same call may succeed later.
	Unsent bool

	// Pending is set if the call waits for a review or for an agent. See Outcome.Pending.
	Pending *Pending

	// Connection is set if the call needs the user's own account at a third party. The call can be repeated when the user has
	// connected it.
	Connection *Connection

	// Edited is set if the call was not made, and must be made with other arguments instead. A Caller does so.
	Edited *Edited
}

// Edited has the arguments with which a reviewer has approved a call.
type Edited struct {
	Arguments []byte
	Context   func(context.Context) context.Context // of the call with these arguments
}

// Reason returns the message, "" if f is nil.
func (f *Failure) Reason() string {
	if f == nil {
		return ""
	}
	return f.Message
}

// A Connection is an account at a third party that a user must connect with the gateway before a call can be made.
type Connection struct {
	ID string // names the third party: "github"
	Page
}

// A Page is a page of the gateway for the user.
type Page struct {
	URL     string // a secret, which works once
	Message string // for the user: what the page is for
}

// A Problem is one error in the arguments of a call.
type Problem = schema.Problem

// Error returns the message.
func (f *Failure) Error() string {
	return f.Message
}

// Retryable reports whether the same call may succeed later: it failed because of load or of the
// connection, and it either did not reach the API or can safely run twice. A call that is still in
// progress is retryable too, because a repeated call waits for its end.
func (f *Failure) Retryable(t *Tool) bool {
	switch f.Kind {
	case Unanswered:
		return false
	case TimedOut:
		return f.Pending != nil || t != nil && t.Idempotent()
	case Refused:
		switch f.Status {
		case http.StatusTooManyRequests:
			return true
		case http.StatusUnauthorized:
			return f.Renewed
		case http.StatusRequestTimeout, http.StatusTooEarly:
			// The API may have started the operation (RFC 9110, section 15.5.9; RFC 8470,
			// section 5.2).
			return t != nil && t.ReadOnly()
		}
		return false
	case Restricted:
		return f.RetryAfter > 0 && !f.Made
	case Failed:
		if f.Status == http.StatusNotImplemented {
			return false // a later attempt fails as well
		}
		return f.Status == http.StatusServiceUnavailable || t != nil && t.Idempotent()
	case Unreachable:
		return t != nil && t.Idempotent()
	case KeyInFlight, KeyUnavailable:
		return true
	}
	return false
}

// refusal describes a 4xx or 5xx response: the status, the API's error message, and what
// to do next.
func refusal(t *Tool, kind FailureKind, r *Result) *Failure {
	f := &Failure{Kind: kind, Status: r.Status, RetryAfter: result.RetryAfter(r.Header.Get("Retry-After"), time.Now())}
	message := t.Operation() + " answered " + text.StatusLine(r.Status)
	detail := result.ErrorDetail(r.Body, r.MediaType(), r.Status)
	if detail != "" {
		message += ": " + detail
	}
	if advice := result.Advice(r.Status); advice != "" && (detail == "" || r.Status != http.StatusForbidden) {
		message += " (" + advice + ")"
	}
	if f.RetryAfter > 0 {
		message += fmt.Sprintf("; the API asks to wait %s before the next try", f.RetryAfter)
	}
	if f.Renewed = r.Renewed; f.Renewed {
		message += "; the gateway has dropped its access token and gets a new one, so repeat the call once"
	}
	f.Message = message
	return f
}

func redirection(t *Tool, r *Result) *Failure {
	message := t.Operation() + " answered " + text.StatusLine(r.Status)
	if r.Status == http.StatusNotModified {
		return &Failure{Kind: Redirected, Status: r.Status, Message: message +
			", so the resource has not changed; call the tool without a condition (If-None-Match, If-Modified-Since)"}
	}
	if location := r.Header.Get("Location"); location != "" {
		message += " to " + text.Cut(strconv.Quote(location), result.MaxDetail)
	}
	return &Failure{Kind: Redirected, Status: r.Status, Message: message + "; redirects are not followed"}
}
