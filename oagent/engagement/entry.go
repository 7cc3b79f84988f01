package engagement

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

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
	Call    int64          `json:"call,omitzero"` // number of the call in the Engagement, from 1
	Nth     int64          `json:"nth,omitzero"`  // number among those of the same name, from 1
	Name    string         `json:"name,omitzero"` // the tool or agent called
	Inputs  jsontext.Value `json:"inputs,omitzero"`
	Outputs jsontext.Value `json:"outputs,omitzero"`
	Status  int            `json:"status,omitzero"` // HTTP status
	Kind    Kind           `json:"kind,omitzero"`   // why it was refused
	Rule    string         `json:"rule,omitzero"`   // path in the document
	Why     string         `json:"why,omitzero"`
	Side    Side           `json:"side,omitzero"` // of a review or a guardrail
	Review  string         `json:"review,omitzero"`
	By      string         `json:"by,omitzero"`      // the reviewer
	Verdict string         `json:"verdict,omitzero"` // ReviewApproved or ReviewDenied
	Comment string         `json:"comment,omitzero"`

	// For EntryQuestion and EntryDecision: the agent and the Engagement that are under review.
	Agent      string `json:"agent,omitzero"`
	Engagement string `json:"engagement,omitzero"` // its key
}

// Tags of the fields of an entry, see encoding.go.
const (
	tagWhat byte = iota + 1
	tagAt
	tagCall
	tagNth
	tagName
	tagInputs
	tagOutputs
	tagStatus
	tagKind
	tagRule
	tagWhy
	tagSide
	tagReview
	tagBy
	tagVerdict
	tagComment
	tagAgent
	tagEngagement
)

// decodeEntry reads an entry of the store. Its inputs and outputs alias data.
func decodeEntry(data []byte) (Entry, error) {
	var e Entry
	c := reading(data)
	for c.more() {
		e.fields(&c)
	}
	if c.from.err != nil {
		return Entry{}, fmt.Errorf("reading an entry of an Engagement's record: %w", c.from.err)
	}
	return e, nil
}

// fields passes the fields to the codec.
func (e *Entry) fields(c *codec) {
	text(c, tagWhat, &e.Event)
	switch {
	case !c.reading:
		c.to.number(tagAt, e.At.UnixNano())
	case c.tag == tagAt:
		e.At = time.Unix(0, c.from.number()).UTC()
		c.next()
	}
	integer(c, tagCall, &e.Call)
	integer(c, tagNth, &e.Nth)
	text(c, tagName, &e.Name)
	integer(c, tagStatus, &e.Status)
	text(c, tagKind, &e.Kind)
	text(c, tagRule, &e.Rule)
	text(c, tagWhy, &e.Why)
	text(c, tagSide, &e.Side)
	text(c, tagReview, &e.Review)
	text(c, tagBy, &e.By)
	text(c, tagVerdict, &e.Verdict)
	text(c, tagComment, &e.Comment)
	text(c, tagAgent, &e.Agent)
	text(c, tagEngagement, &e.Engagement)
	c.alias(tagInputs, &e.Inputs)
	c.alias(tagOutputs, &e.Outputs)
}

// size returns the approximate number of bytes of the encoded entry.
func (e *Entry) size() int {
	const fixed = 64
	return fixed + len(e.Name) + len(e.Inputs) + len(e.Outputs) + len(e.Rule) + len(e.Why) + len(e.Comment) + len(e.Agent) + len(e.Engagement) +
		len(e.Review) + len(e.By)
}

// append appends the encoded entry. It then replaces its inputs and outputs by the encoded
// bytes, because the originals may be part of a larger buffer of the caller, or may change.
func (e *Entry) append(dst []byte) []byte {
	c := appending(dst)
	e.fields(&c)
	return c.to.b
}
