package oagent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Limits of what identifies an Engagement.
const (
	MaxEngagementID = 512 // bytes of the id that a client gives
	MaxUserField    = 512 // bytes of a user's id, and of the address
)

// A User is whom an Engagement belongs to (OpenAgentSpec v1, Engagement).
type User struct {
	ID    string `json:"id"`              // "" if nobody is known
	Email string `json:"email,omitempty"` // "" if it is not known
}

// A Binding says which Engagement is meant: one of that agent, for that user, by
// the id that the client gives it. Equal ids of two users, or of two agents, are
// two Engagements. The empty id is one as well: what a user does with an agent
// without naming an Engagement is all in that one.
type Binding struct {
	Agent      *Agent
	Engagement string
	User       User

	// Reviewed is the key of an Engagement whose reviews the agent decides in this
	// one, which is the only one of that agent for it: see Reviewing. Else "".
	Reviewed string
}

// Key returns the name of the Engagement within this server: 40 hexadecimal
// digits, from which neither user nor id can be read.
func (b *Binding) Key() string {
	if b.Reviewed != "" {
		return digest(b.Agent.Name, "", "", b.Reviewed)
	}
	return digest(b.Agent.Name, b.User.ID, b.Engagement)
}

func (b *Binding) check() error {
	switch {
	case len(b.Engagement) > MaxEngagementID:
		return fmt.Errorf("the id of the Engagement has %d bytes; the limit is %d", len(b.Engagement), MaxEngagementID)
	case len(b.User.ID) > MaxUserField || len(b.User.Email) > MaxUserField:
		return fmt.Errorf("the user's id or address has more than %d bytes", MaxUserField)
	}
	return nil
}

// digest returns 40 hexadecimal digits that stand for these texts.
func digest(texts ...string) string {
	var room [512]byte
	all := room[:0]
	for _, text := range texts {
		all = binary.BigEndian.AppendUint64(all, uint64(len(text)))
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:20])
}

// isKey reports whether the text has the form of a Key.
func isKey(text string) bool {
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

// ErrNoEngagement says that there is no such Engagement, or no longer.
var ErrNoEngagement = errors.New("no such Engagement")

// Statuses of an Engagement.
const (
	StatusAwaitingModel  = "awaiting-llm"          // what comes next is for the agent to decide
	StatusAwaitingReview = "awaiting-verification" // a reviewer has been asked
	StatusError          = "error"                 // it has ended, by a guardrail or by repetition
)

// An Engagement is what is known of one at a glance. What happened in it, the
// Entries of its record tell.
type Engagement struct {
	Key       string    `json:"key"` // see Binding.Key
	ID        string    `json:"engagement_id"`
	Agent     string    `json:"oagent"`
	User      User      `json:"user"`
	Reviewed  string    `json:"reviewed,omitempty"` // see Binding.Reviewed: it is for those who answer for the agent, not for the user
	Status    string    `json:"status"`             // StatusAwaitingModel, StatusAwaitingReview or StatusError
	StartedAt time.Time `json:"started_at"`
	LastAt    time.Time `json:"last_at"` // when it was last changed
	Ended     *Ending   `json:"ended,omitempty"`
	Recent    string    `json:"recent,omitempty"`          // what was invoked last
	Total     int64     `json:"total"`                     // tools and agents invoked
	Refused   int64     `json:"refused"`                   // calls refused
	Entries   int64     `json:"entries"`                   // of its record
	Renewals  int64     `json:"renewals,omitempty"`        // how often it was begun anew in the same record, see Guard.Renew
	First     int64     `json:"first_entry,omitempty"`     // of the record that is of this Engagement; those before are of earlier ones
	Reviews   []string  `json:"reviews,omitempty"`         // ids of those that count
	Pending   []string  `json:"pending_reviews,omitempty"` // and of those among them that nobody has decided
}

// An Ending says why an Engagement ended.
type Ending struct {
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"` // KindShortCircuit or KindGuardrail
	Rule string    `json:"rule"` // path in the document
	Why  string    `json:"why,omitzero"`
}
