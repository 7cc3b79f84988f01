package engagement

import (
	"math/rand/v2"
	"slices"
	"time"
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

	Agent       string
	UserID      string
	Email       string
	ID          string
	Started     int64 // milliseconds since 1970, like all times here
	Last        int64
	ProlongedAt int64 // when the lifetime was last restarted, see Tx.Prolong

	Ended     int64 // 0 if it has not ended
	EndedKind Kind
	EndedRule string
	EndedWhy  string

	Total        int64 // calls begun
	Refused      int64 // calls refused
	PayloadBytes int64 // bytes of inputs and outputs in the log

	Recent  int           // index into Names; undefined if Total is 0
	Names   []CallSummary // in the order of their first calls
	Reviews []RequestedReview
	few     [2]CallSummary // storage for the first elements of Names
	tail    []byte         // the bytes of Tail
	index   nameIndex      // of Names

	Renewals     int64 // number of renewals in this record, see Renew
	First        int64 // number of log entries before this Engagement
	EarlierBytes int64 // bytes of inputs and outputs in those entries

	Reviewed string           // see Ref.Reviewed
	Assigned []AssignedReview // reviews that the agent decides or has decided
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
	Status   string `json:"status"` // as Review.Status
	Comment  string `json:"comment"`
	At       int64  `json:"at"`                // when it was requested
	Released int64  `json:"released,omitzero"` // when the result was released, if Status is ReviewReleased
}

// AssignedReview is a review in the state of the Engagement in which an agent decides it.
type AssignedReview struct {
	ID      string `json:"id"`
	At      int64  `json:"at"` // when the review was requested
	Verdict string `json:"verdict,omitzero"`
	Comment string `json:"comment,omitzero"`

	Tries   int   `json:"tries,omitzero"` // calls of the agent's program
	Until   int64 `json:"until,omitzero"` // do not call the program before this time
	Settled bool  `json:"quiet,omitzero"` // do not call the program again
}

// nameIndex maps names to indexes. It is nil for a few names, where a linear search is faster.
type nameIndex map[string]int

// indexNamesFrom is the maximum number of names without an index.
const indexNamesFrom = 16

// NewState returns the state of a new Engagement.
func NewState(of Ref, now time.Time) *State {
	return &State{
		Born:        random(),
		Agent:       of.Agent,
		UserID:      of.User.ID,
		Email:       of.User.Email,
		ID:          of.ID,
		Started:     now.UnixMilli(),
		Last:        now.UnixMilli(),
		ProlongedAt: now.UnixMilli(),

		Reviewed: of.Reviewed,
	}
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
// of calls (OpenAgentSpec v1, lifespan, short_circuit).
func (s *State) Repeats(name string, n int) bool {
	return repeats(appendTail(s.tail, s.nextIndex(name)), n)
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
		User:      User{ID: s.UserID, Email: s.Email},
		Reviewed:  s.Reviewed,
		Status:    StatusAwaitingModel,
		StartedAt: Milliseconds(s.Started),
		LastAt:    Milliseconds(s.Last),
		Total:     s.Total,
		Refused:   s.Refused,
		Entries:   entries,
		Renewals:  s.Renewals,
		First:     s.First,
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
	case s.Ended != 0:
		e.Status = StatusError
		e.Ended = &Ending{At: Milliseconds(s.Ended), Kind: s.EndedKind, Rule: s.EndedRule, Why: s.EndedWhy}
	case len(e.Pending) > 0:
		e.Status = StatusAwaitingReview
	}
	return e
}

// Milliseconds converts a time of State.
func Milliseconds(n int64) time.Time { return time.UnixMilli(n).UTC() }
