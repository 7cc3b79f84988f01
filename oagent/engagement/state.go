package engagement

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// State is the data that every decision needs. Its size does not grow with each call of an
// Engagement. It is the value of the record in the store; the inputs and outputs of each call
// are in the record's log. Once a record has a state, the state is replaced and never
// modified.
type State struct {
	// Born distinguishes the record from an earlier one with the same key. Revision differs
	// after each change, so records with equal values have equal logs.
	Born     uint64
	Revision uint64

	Ref               // its Owner is that of a new record, and not stored in it
	Started     int64 // milliseconds since 1970, like all times here
	Last        int64
	ProlongedAt int64   // when the lifetime was last restarted, see Tx.Prolong
	Ended       *Ending // nil if it has not ended

	Total        int64 // calls begun
	Refused      int64 // calls refused
	PayloadBytes int64 // bytes of inputs and outputs in the log

	Recent  int           // index into Names; undefined if Total is 0
	Names   []CallSummary // in the order of their first calls
	Reviews []RequestedReview
	few     [2]CallSummary // storage for the first elements of Names
	tail    []byte         // the bytes of Tail
	index   nameIndex      // of Names

	Earlier  earlier
	Assigned []AssignedReview // reviews that the agent decides or has decided
}

// earlier summarizes the Engagements before this one in the same record, see Records.Renew.
type earlier struct {
	Renewals int64 // number of renewals
	Entries  int64 // number of entries in the log
	Bytes    int64 // bytes of inputs and outputs in those entries
}

// CallSummary summarizes the calls of one tool or agent.
type CallSummary struct {
	Name  string
	Count int64
	Call  int64 // number of the latest call, from 1
	Begun int64 // its position in the log
	Done  int64 // the position of its outputs in the log; 0 if there are none
}

// RequestedReview is a review that was requested and is still valid.
type RequestedReview struct {
	ID       string `json:"id"`
	Side     Side   `json:"side"`
	Reviewer string `json:"reviewer"`
	Name     string `json:"name"`
	Inputs   string `json:"inputs"`   // hash
	Document string `json:"document"` // Agent.Hash
	Call     int64  `json:"call"`     // the call whose result is under review; 0 if the call was not made yet
	Nth      int64  `json:"nth"`
	Status   string `json:"status"` // as Review.Status, ReviewReleased or ReviewEdited
	Comment  string `json:"comment"`
	At       int64  `json:"at"`                // when it was requested
	Released int64  `json:"released,omitzero"` // when the result was released, if Status is ReviewReleased

	DecidedBy Decider `json:"decided_by,omitzero"`

	// For ReviewEdited: the position in the log of the EntryDecided that has the inputs of the reviewer, and their hash.
	Edited     int64  `json:"edited,omitzero"`
	EditedHash string `json:"edited_hash,omitzero"`
}

// Decider is the user who decided a review.
type Decider struct {
	User  string `json:"user"`  // id
	Entry string `json:"entry"` // the id or the group:NAME in the configuration by which the user may decide
}

// AssignedReview is a review in the state of the Engagement in which an agent decides it.
type AssignedReview struct {
	ID      string `json:"id"`
	At      int64  `json:"at"` // when the review was requested
	Verdict string `json:"verdict,omitzero"`
	Comment string `json:"comment,omitzero"`

	Lease   lease.Lease `json:"lease,omitzero"` // of the calls of the agent's program
	Settled bool        `json:"quiet,omitzero"` // do not call the program again
}

// nameIndex maps names to indexes. It is nil for a few names, where a linear search is faster.
type nameIndex map[string]int

// indexNamesFrom is the maximum number of names without an index.
const indexNamesFrom = 16

// NewState returns the state of a new Engagement.
func NewState(of Ref, now time.Time) *State {
	of.Owner = cmp.Or(of.Owner, share.OwnerOf(of.User.ID, ""))
	return &State{Born: random(), Ref: of, Started: now.UnixMilli(), Last: now.UnixMilli(), ProlongedAt: now.UnixMilli()}
}

// random returns a number that distinguishes revisions.
func random() uint64 { return rand.Uint64() >> 11 } //nolint:gosec // not a secret

func (s *State) reindex() {
	s.index = nil
	if len(s.Names) <= indexNamesFrom {
		return
	}
	s.index = make(nameIndex, len(s.Names))
	for i := range s.Names {
		s.index[s.Names[i].Name] = i
	}
}

// Find returns the index of a name in Names, or -1 if there was no call of that name.
func (s *State) Find(name string) int {
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range s.Names {
		if s.Names[i].Name == name {
			return i
		}
	}
	return -1
}

// nextIndex returns the index of a name in Names, or the index that a new name would get.
func (s *State) nextIndex(name string) int {
	if i := s.Find(name); i >= 0 {
		return i
	}
	return len(s.Names)
}

// Repeats reports whether a call of the name would complete the n-th repetition in a row of a block
// of calls (OpenAgentSpec v1, lifespan, short_circuit). Refused calls in between do not interrupt a row.
func (s *State) Repeats(name string, n int) bool {
	return repeats(appendTail(withoutRefused(s.tail), s.nextIndex(name)), n)
}

// RefuseRepeated adds a refused call of the name, and reports whether it completes the n-th repetition in a
// row of a block of calls.
func (s *State) RefuseRepeated(name string, n int) bool {
	s.tail = appendRefused(s.tail, name)
	return repeats(s.tail, n)
}

// clone returns a copy that can be changed.
func (s *State) clone() *State {
	c := *s
	c.Names = append(c.few[:0], s.Names...)
	c.Reviews = slices.Clone(s.Reviews)
	c.Assigned = slices.Clone(s.Assigned)
	return &c
}

// IndexOf returns the index of a name in Names. It adds a new name.
func (s *State) IndexOf(name string) int {
	if i := s.Find(name); i >= 0 {
		return i
	}
	s.Names = append(s.Names, CallSummary{Name: name})
	s.reindex()
	return len(s.Names) - 1
}

// summary returns the summary of the Engagement.
func (s *State) summary(key string, entries int64) *Summary {
	e := &Summary{
		Key:       key,
		ID:        s.ID,
		Agent:     s.Agent,
		User:      s.User,
		Reviewed:  s.Reviewed,
		Status:    StatusAwaitingModel,
		StartedAt: Milliseconds(s.Started),
		LastAt:    Milliseconds(s.Last),
		Total:     s.Total,
		Refused:   s.Refused,
		Entries:   entries,
		Renewals:  s.Earlier.Renewals,
		First:     s.Earlier.Entries,
		Ended:     s.Ended,
	}
	if s.Total > 0 {
		e.Recent = s.Names[s.Recent].Name
	}
	for i := range s.Reviews {
		if s.Reviews[i].Status == ReviewReleased {
			continue
		}
		e.Reviews = append(e.Reviews, s.Reviews[i].ID)
		if s.Reviews[i].Status == ReviewPending {
			e.Pending = append(e.Pending, s.Reviews[i].ID)
		}
	}
	switch {
	case s.Ended != nil:
		e.Status = StatusError
	case len(e.Pending) > 0:
		e.Status = StatusAwaitingReview
	}
	return e
}

// Milliseconds converts a time of State.
func Milliseconds(n int64) time.Time { return time.UnixMilli(n).UTC() }

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

	// Owner is whose share of the store the record takes. Default: the user.
	Owner store.Owner
}

// Key returns the name of the Engagement within this server: 40 hexadecimal digits. The user
// and the id cannot be recovered from it. The keys of a user begin with the same digits, so that the
// store finds the Engagements of a user without reading others, see Records.Page.
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
func IsKey(text string) bool { return len(text) == 40 && strings.Trim(text, "0123456789abcdef") == "" }
