package engagement

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind is the reason for a refusal.
type Kind string

// Kinds of refusals.
const (
	KindUnknownAgent      Kind = "unknown_agent"      // no document governs the call
	KindInvalid           Kind = "invalid"            // the call is malformed
	KindNotAllowed        Kind = "not_allowed"        // the tool is not a capability of the agent
	KindInputRestriction  Kind = "input_restriction"  // the assertion does not hold; the call was not made
	KindOutputRestriction Kind = "output_restriction" // the assertion does not hold; the call was made and its result is withheld
	KindShortCircuit      Kind = "short_circuit"      // a block of calls is repeated too often; ends the Engagement
	KindReviewPending     Kind = "review_pending"     // a reviewer must approve first
	KindReviewDenied      Kind = "review_denied"      // the reviewer denied
	KindGuardrail         Kind = "guardrail"          // the assertion does not hold; ends the Engagement
	KindUnchecked         Kind = "unchecked"          // the guardrail's tool failed
	KindEnded             Kind = "ended"              // the Engagement has ended, or its record is full
	KindStore             Kind = "store"              // the store failed, so the call is refused
)

// Refusal describes why a call must not be made, or why its result must not be used. It is an
// error.
type Refusal struct {
	Kind       Kind
	Agent      string // its name
	Engagement string // the id that the client sent
	Name       string // the tool or agent called; "" if the refusal is not about a call
	Rule       string // path in the document: capabilities.get-trip.input_restriction.assertion
	Message    string // what is wrong and how to fix it, for a model; contains no inputs and no outputs

	Review     string        // id of the review to check; "" if there is none
	RetryAfter time.Duration // when to retry; 0 if a retry does not help
	Made       bool          // the upstream was called
	Cause      error         // for logs: an *assertion.Error, or an error of the store; may contain data that a client must not see
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

// Ends reports whether the Engagement is over.
func (r *Refusal) Ends() bool {
	return r.Kind == KindShortCircuit || r.Kind == KindGuardrail || r.Kind == KindEnded
}

// Status returns the HTTP status of the refusal:
//
//   - 400 if the call is malformed,
//   - 503 if no decision was possible,
//   - 500 if the store failed after the call was made, because proxies and clients repeat a
//     request after a 503,
//   - 403 otherwise.
func (r *Refusal) Status() int {
	switch r.Kind {
	case KindStore:
		if r.Made {
			return http.StatusInternalServerError
		}
		return http.StatusServiceUnavailable
	case KindUnchecked:
		return http.StatusServiceUnavailable
	case KindInvalid:
		return http.StatusBadRequest
	}
	return http.StatusForbidden
}

// AsRefusal returns the refusal that an error is or wraps.
func AsRefusal(err error) (*Refusal, bool) {
	var r *Refusal
	ok := errors.As(err, &r)
	return r, ok
}

// Refusal returns the refusal of a call in an Engagement that has ended.
func (s *State) Refusal() *Refusal {
	return &Refusal{
		Kind:    KindEnded,
		Rule:    s.EndedRule,
		Message: fmt.Sprintf("the Engagement was ended by %s and accepts no more calls; start another Engagement", s.EndedRule),
	}
}
