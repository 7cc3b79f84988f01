package engagement

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/logonly"
)

// ErrNotFound means that the Engagement does not exist or no longer exists.
var ErrNotFound = errors.New("no such Engagement")

// Statuses of an Engagement.
const (
	StatusAwaitingModel  = "awaiting-llm"          // the agent makes the next step
	StatusAwaitingReview = "awaiting-verification" // a reviewer must decide
	StatusError          = "error"                 // it ended because of a guardrail or of short_circuit
)

// Summary is a summary of an Engagement. The Entries of its record contain the details.
type Summary struct {
	Key       string    `json:"key"` // see Ref.Key
	ID        string    `json:"engagement_id"`
	Agent     string    `json:"oagent"`
	User      User      `json:"user"`
	Reviewed  string    `json:"reviewed,omitempty"` // see Ref.Reviewed; visible to those responsible for the agent, not to the user
	Title     string    `json:"title,omitempty"`    // of its run, if this server runs the agent
	Status    string    `json:"status"`             // StatusAwaitingModel, StatusAwaitingReview or StatusError
	StartedAt time.Time `json:"started_at"`
	LastAt    time.Time `json:"last_at"` // time of the last change
	Ended     *Ending   `json:"ended,omitempty"`
	Recent    string    `json:"recent,omitempty"`          // name of the latest invocation
	Total     int64     `json:"total"`                     // number of invocations
	Refused   int64     `json:"refused"`                   // number of refused calls
	Entries   int64     `json:"entries"`                   // number of entries in its record
	Renewals  int64     `json:"renewals,omitempty"`        // number of renewals in the same record, see Records.Renew
	First     int64     `json:"first_entry,omitempty"`     // number of its first entry in the record; earlier entries belong to earlier Engagements
	Reviews   []string  `json:"reviews,omitempty"`         // ids of the valid reviews
	Pending   []string  `json:"pending_reviews,omitempty"` // ids of those reviews that are not decided
}

// Ending describes why an Engagement ended. It is immutable.
type Ending struct {
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"` // KindShortCircuit or KindGuardrail
	Rule string    `json:"rule"` // path in the document
	Why  string    `json:"why,omitzero"`
}

// Side is input (before a capability or a model is called) or output (after it).
type Side string

// Sides.
const (
	SideInput  Side = "input"
	SideOutput Side = "output"
)

// Statuses of a review.
const (
	ReviewPending  = "pending"
	ReviewApproved = "approved"
	ReviewDenied   = "denied"

	// ReviewEdited is the status in the Engagement of a review that was approved with other inputs. The call with the inputs of the
	// client never passes with it, and versions without this status let no call pass.
	ReviewEdited = "edited"

	// ReviewReleased is the status in the Engagement of an approved review whose result was
	// released.
	ReviewReleased = "released"
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
	KindShare             Kind = "share"              // the caller's share of a resource is used up, so the call is refused
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

// IsFinal reports whether the agent's document or a reviewer refused the call, so repeating it does not help.
func (r *Refusal) IsFinal() bool {
	return r.Kind == KindNotAllowed || r.Kind == KindInputRestriction || r.Kind == KindReviewDenied
}

// Status returns the HTTP status of the refusal:
//
//   - 400 if the call is malformed,
//   - 503 if no decision was possible,
//   - 429 if the caller's share of a resource is used up,
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
	case KindShare:
		return http.StatusTooManyRequests
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
		Rule:    s.Ended.Rule,
		Message: fmt.Sprintf("the Engagement was ended by %s and accepts no more calls; start another Engagement", s.Ended.Rule),
	}
}

// MaxReason is the maximum number of bytes of a reason in the record.
const MaxReason = 2000

// Values of Entry.Event.
const (
	EntryBegun     = "begun"     // a call was allowed and was about to be made
	EntryFinished  = "finished"  // its result arrived; if Kind is set, the result was withheld
	EntryHeld      = "held"      // its result arrived and waits for a review
	EntryReleased  = "released"  // a held result was released
	EntryAborted   = "aborted"   // the call has no result: it was not made, or it is unknown whether it was
	EntryRefused   = "refused"   // a call was refused and not made
	EntryReview    = "review"    // a review was requested
	EntryDecided   = "decided"   // a reviewer decided
	EntryOriginal  = "original"  // a reviewer read the original inputs of a review
	EntryGuardrail = "guardrail" // a guardrail was invoked; if Kind is set, its assertion does not hold
	EntryQuestion  = "question"  // the agent was assigned a review of another Engagement
	EntryDecision  = "decision"  // the agent decided such a review
	EntryRenewed   = "renewed"   // the Engagement was renewed; Kind and Rule say why the previous one ended
	EntryLate      = "late"      // a call of the Engagement before the renewal ended; its result was withheld
	EntryRepeated  = "repeated"  // a released result was returned to a concurrent identical call
)

// Entry is one entry of the audit record of an Engagement. Entries are in chronological order.
// A call with an EntryBegun and no later entry was interrupted, and its effect is unknown.
type Entry struct {
	Event   string         `json:"what"`
	At      time.Time      `json:"at"`
	CallID  string         `json:"call_id,omitzero"` // which the client gets, see package callid; "" if it is unknown
	Call    int64          `json:"call,omitzero"`    // number of the call in the Engagement, from 1
	Nth     int64          `json:"nth,omitzero"`     // number among those of the same name, from 1
	Name    string         `json:"name,omitzero"`    // the tool or agent called
	Inputs  jsontext.Value `json:"inputs,omitzero"`
	Outputs jsontext.Value `json:"outputs,omitzero"`
	Status  int            `json:"status,omitzero"` // HTTP status
	Kind    Kind           `json:"kind,omitzero"`   // why it was refused
	Rule    string         `json:"rule,omitzero"`   // path in the document
	Why     string         `json:"why,omitzero"`
	Would   logonly.Would  `json:"would,omitzero"` // what a rule in log only would have done; only auditors get it
	Side    Side           `json:"side,omitzero"`  // of a review or a guardrail
	Review  string         `json:"review,omitzero"`
	By      string         `json:"by,omitzero"`      // the reviewer
	Verdict string         `json:"verdict,omitzero"` // ReviewApproved or ReviewDenied
	Comment string         `json:"comment,omitzero"`

	DecidedBy Decider `json:"decided_by,omitzero"` // for EntryDecided, if a user decided

	Subject // for EntryQuestion and EntryDecision
}

// Subject is what is under review.
type Subject struct {
	Agent      string `json:"agent,omitzero"`
	Engagement string `json:"engagement,omitzero"` // its key
}
