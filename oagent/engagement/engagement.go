package engagement

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Limits on the identifiers of an Engagement.
const (
	MaxID        = 512 // bytes of the id that a client sends
	MaxUserField = 512 // bytes of a user's id, and of the email address
)

// User is the user of an Engagement (OpenAgentSpec v1, Engagement).
type User struct {
	ID    string `json:"id"`              // "" if the user is not known
	Email string `json:"email,omitempty"` // "" if it is not known
}

// Ref identifies an Engagement by its agent, its user and the id that the client sends. The
// same id of two users, or of two agents, identifies two Engagements. The empty id is valid:
// all calls without an id that a user makes with an agent belong to one Engagement.
type Ref struct {
	Agent string // its name
	ID    string // as sent by the client
	User  User

	// Reviewed is set only for an Engagement in which the agent decides reviews: it is the key
	// of the Engagement under review. The agent has exactly one such Engagement for each
	// Reviewed.
	Reviewed string
}

// Key returns the name of the Engagement within this server: 40 hexadecimal digits. The user
// and the id cannot be recovered from it. The keys of a user begin with the same digits, so that the
// store finds the Engagements of a user without reading others, see Records.PageOf.
func (r *Ref) Key() string {
	if r.Reviewed != "" {
		return Digest(r.Agent, "", "", r.Reviewed)
	}
	return userDigits(r.User.ID) + Digest(r.Agent, r.User.ID, r.ID)[numUserDigits:]
}

// numUserDigits is the length of the common prefix of the keys of a user. Among a million users, the
// probability that two have the same prefix is 1 in 500. Their pages can then be shorter.
const numUserDigits = 12

// userDigits returns the common prefix of the keys of a user.
func userDigits(user string) string { return Digest("user", user)[:numUserDigits] }

// Check returns an error if an identifier is too long.
func (r *Ref) Check() error {
	switch {
	case len(r.ID) > MaxID:
		return fmt.Errorf("the id of the Engagement has %d bytes; the limit is %d", len(r.ID), MaxID)
	case len(r.User.ID) > MaxUserField || len(r.User.Email) > MaxUserField:
		return fmt.Errorf("the user's id or email address has more than %d bytes", MaxUserField)
	}
	return nil
}

// Digest returns 40 hexadecimal digits, a hash of the texts.
func Digest(texts ...string) string {
	var room [512]byte
	all := room[:0]
	for _, text := range texts {
		all = binary.BigEndian.AppendUint64(all, uint64(len(text)))
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	return string(hex.AppendEncode(room[:0], sum[:20]))
}

// IsKey reports whether a text has the form of a Key.
func IsKey(text string) bool {
	if len(text) != 40 {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

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

// Ending describes why an Engagement ended.
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

	// ReviewReleased is the status in the Engagement of an approved review whose result was
	// released.
	ReviewReleased = "released"
)
