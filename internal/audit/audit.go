// Package audit has the entries of the audit: what guarded calls, reviews, logins, connections and approvals of tools leave for an archive.
package audit

import (
	"context"
	"time"
)

// Recorder keeps entries.
type Recorder interface {
	// Ready returns an error if what must be recorded is to be refused, because there is no room for its entries.
	Ready(ctx context.Context) error

	// Record adds entries, and sets their time unless they have one. They are durable when it returns nil. The end of the context
	// does not cancel it.
	Record(ctx context.Context, entries ...Entry) error
}

// Would says what a rule in log only would have done to a call that went through, see package logonly.
type Would struct {
	Effect string `json:"effect"`
	Rule   string `json:"rule"`
	Why    string `json:"reason,omitzero"`
}

// Types of entries.
const (
	TypeCall          = "call"          // a guarded call; Event is that of the Engagement's record
	TypeReview        = "review"        // a review was requested or decided
	TypeLogin         = "login"         // of a user
	TypeConnection    = "connection"    // a user's account at a third party
	TypeTools         = "tools"         // the lock file approves other tools
	TypeConfiguration = "configuration" // a configuration was started
	TypeEvent         = "event"         // a webhook of an API
	TypeArchive       = "archive"       // of the archive itself
)

// Entry is an event of the archive. It contains no inputs, outputs, tokens or secrets.
type Entry struct {
	At    time.Time `json:"at"`
	Type  string    `json:"type"`
	Event string    `json:"event"`

	User       string `json:"user,omitzero"`
	Agent      string `json:"agent,omitzero"`
	Engagement string `json:"engagement,omitzero"`    // key of the Engagement
	ID         string `json:"engagement_id,omitzero"` // of the Engagement, as the client sent it
	Position   int64  `json:"position,omitzero"`      // of the entry in the record of the Engagement, from 1
	CallID     string `json:"call_id,omitzero"`       // which the client got
	Call       int64  `json:"call,omitzero"`          // number of the call in the Engagement, from 1
	Name       string `json:"name,omitzero"`          // the tool or agent that was called
	Status     int    `json:"status,omitzero"`        // HTTP status
	Kind       string `json:"kind,omitzero"`          // why the call was refused
	Rule       string `json:"rule,omitzero"`          // path in the agent's document
	Why        string `json:"why,omitzero"`
	Would      Would  `json:"would,omitzero"`
	Side       string `json:"side,omitzero"` // of a review: input or output
	Review     string `json:"review,omitzero"`
	Reviewer   string `json:"reviewer,omitzero"`
	Verdict    string `json:"verdict,omitzero"`
	Comment    string `json:"comment,omitzero"`
	DecidedBy  string `json:"decided_by,omitzero"`
	DecidedAs  string `json:"decided_as,omitzero"` // the id or group:NAME by which the user may decide

	Client   string   `json:"client,omitzero"`   // of a login
	Provider string   `json:"provider,omitzero"` // of a connection
	Toolset  string   `json:"toolset,omitzero"`
	Tools    []string `json:"tools,omitzero"`  // names of tools that were approved
	Digest   string   `json:"digest,omitzero"` // SHA-256 of the configuration, the lock file or the body of the event
	EventID  string   `json:"event_id,omitzero"`
	Size     int      `json:"size,omitzero"`  // of the body of the event, in bytes
	Count    int64    `json:"count,omitzero"` // of dropped entries
}
