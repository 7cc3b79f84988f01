package oagent

import (
	"errors"
	"net/http"
	"time"
)

// A Kind says why a call was refused.
type Kind string

// Kinds of refusals.
const (
	KindUnknownAgent      Kind = "unknown_agent"      // no document governs the call
	KindInvalid           Kind = "invalid"            // the call itself is malformed
	KindNotAllowed        Kind = "not_allowed"        // the tool is no capability of the agent
	KindInputRestriction  Kind = "input_restriction"  // the call was not made
	KindOutputRestriction Kind = "output_restriction" // it was, and its result is withheld
	KindShortCircuit      Kind = "short_circuit"      // ends the Engagement
	KindReviewPending     Kind = "review_pending"     // somebody must confirm it first
	KindReviewDenied      Kind = "review_denied"      // and did not
	KindGuardrail         Kind = "guardrail"          // ends the Engagement
	KindUnchecked         Kind = "unchecked"          // the guardrail's tool has not answered
	KindEnded             Kind = "ended"              // the Engagement has ended, or is full
	KindStore             Kind = "store"              // the record cannot be kept, so nothing may pass
)

// A Refusal says that a call must not be made, or that its result must not be
// used, and why. It is an error.
type Refusal struct {
	Kind       Kind
	Agent      string // its name
	Engagement string // the id that the client gave
	Name       string // the tool or agent called; "" if it is about none
	Rule       string // path in the document: capabilities.get-trip.input_restriction.assertion
	Message    string // what was wrong and what to do, for a model; it holds no inputs and no outputs

	Review     string        // id of the review to look at; "" if there is none
	RetryAfter time.Duration // when to try again; 0 if that is no use
	Made       bool          // the upstream was called

	cause error
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Unwrap returns the cause: an *AssertionError, or what the store said. It is
// for logs, and may hold what a client must not see.
func (r *Refusal) Unwrap() error { return r.cause }

// Ends reports whether the Engagement is over.
func (r *Refusal) Ends() bool {
	return r.Kind == KindShortCircuit || r.Kind == KindGuardrail || r.Kind == KindEnded
}

// Status returns the HTTP status that goes with the refusal: 503 if no decision
// could be made, 400 if the call is malformed, else 403. If the store failed after
// the call was made, the status is 500, because proxies and clients repeat a
// request that gets a 503.
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

// retryStore is when to try again after the store failed.
const retryStore = 2 * time.Second

// refuseStore refuses a call because the store failed. A call that was made has no
// RetryAfter: a repetition would make it twice.
func refuseStore(b *Binding, name string, made bool, err error) *Refusal {
	r := &Refusal{Kind: KindStore, Name: name, Engagement: b.Engagement, Made: made, cause: err}
	if made {
		r.Message = "the call was made, but its result is withheld, because the record of the Engagement cannot be kept just now: " +
			"find out what it did before you make it again"
	} else {
		r.RetryAfter = retryStore
		r.Message = "the call was not made, because the record of the Engagement cannot be kept just now: try again later"
	}
	if b.Agent != nil {
		r.Agent = b.Agent.Name
	}
	return r
}
