package engagement

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Values of Entry.What.
const (
	EntryBegun     = "begun"     // a call was allowed and was about to be made
	EntryFinished  = "finished"  // its result arrived; if Kind is set, the result was withheld
	EntryHeld      = "held"      // its result arrived and waits for a review
	EntryReleased  = "released"  // a held result was released
	EntryAborted   = "aborted"   // the call was not made, or it is unknown whether it was
	EntryRefused   = "refused"   // a call was refused and not made
	EntryReview    = "review"    // a review was requested
	EntryDecided   = "decided"   // a reviewer decided
	EntryGuardrail = "guardrail" // a guardrail was invoked; if Kind is set, its assertion does not hold
	EntryQuestion  = "question"  // the agent must itself decide a review of another Engagement
	EntryDecision  = "decision"  // the agent decided such a review
	EntryRenewed   = "renewed"   // the Engagement was renewed; Kind and Rule say why the one before ended
	EntryLate      = "late"      // a call of the Engagement before the renewal ended; its result was withheld
	EntryRepeated  = "repeated"  // a released result was given to a parallel repetition of the call
)

// Entry is one line of the audit record of an Engagement. Entries are in the order of events.
// A call with an EntryBegun and no later entry was interrupted, and its effect is unknown.
type Entry struct {
	What    string         `json:"what"`
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

	// For a question and its decision: the agent and the Engagement that are under review.
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
	d := newDecoder(data)
	for {
		tag, ok := d.next()
		if !ok {
			break
		}
		switch tag {
		case tagWhat:
			e.What = d.text()
		case tagAt:
			e.At = time.Unix(0, d.number()).UTC()
		case tagCall:
			e.Call = d.number()
		case tagNth:
			e.Nth = d.number()
		case tagName:
			e.Name = d.text()
		case tagInputs:
			e.Inputs = d.bytes()
		case tagOutputs:
			e.Outputs = d.bytes()
		case tagStatus:
			e.Status = int(d.number())
		case tagKind:
			e.Kind = Kind(d.text())
		case tagRule:
			e.Rule = d.text()
		case tagWhy:
			e.Why = d.text()
		case tagSide:
			e.Side = Side(d.text())
		case tagReview:
			e.Review = d.text()
		case tagBy:
			e.By = d.text()
		case tagVerdict:
			e.Verdict = d.text()
		case tagComment:
			e.Comment = d.text()
		case tagAgent:
			e.Agent = d.text()
		case tagEngagement:
			e.Engagement = d.text()
		default:
			d.fail()
		}
	}
	if d.err != nil {
		return Entry{}, fmt.Errorf("reading an entry of an Engagement's record: %w", d.err)
	}
	return e, nil
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
	w := encoder{append(dst, encodingVersion)}
	w.text(tagWhat, e.What)
	w.number(tagAt, e.At.UnixNano())
	w.number(tagCall, e.Call)
	w.number(tagNth, e.Nth)
	w.text(tagName, e.Name)
	w.number(tagStatus, int64(e.Status))
	w.text(tagKind, string(e.Kind))
	w.text(tagRule, e.Rule)
	w.text(tagWhy, e.Why)
	w.text(tagSide, string(e.Side))
	w.text(tagReview, e.Review)
	w.text(tagBy, e.By)
	w.text(tagVerdict, e.Verdict)
	w.text(tagComment, e.Comment)
	w.text(tagAgent, e.Agent)
	w.text(tagEngagement, e.Engagement)
	e.Inputs = w.bytes(tagInputs, e.Inputs)
	e.Outputs = w.bytes(tagOutputs, e.Outputs)
	return w.b
}
