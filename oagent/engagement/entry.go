package engagement

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Values of Entry.What.
const (
	EntryBegun     = "begun"     // a call was allowed and was about to be made
	EntryFinished  = "finished"  // its result arrived; if Kind is set, the result was withheld
	EntryHeld      = "held"      // its result arrived and waits for a review
	EntryReleased  = "released"  // a held result was released
	EntryAborted   = "aborted"   // the call was not made, or it is unknown whether it was
	EntryRefused   = "refused"   // a call was refused and not made
	EntryReview    = "review"    // a reviewer was asked to confirm
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

func decodeEntry(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("an entry of an Engagement's record cannot be read: %w", err)
	}
	return e, nil
}

// size returns the approximate number of bytes of the encoded entry.
func (e *Entry) size() int {
	const fixed = 128
	return fixed + len(e.Name) + len(e.Inputs) + len(e.Outputs) + len(e.Rule) + len(e.Why) + len(e.Comment) + len(e.Agent) + len(e.Engagement)
}

// append appends the entry as JSON. It then replaces its inputs and outputs by the encoded
// bytes, because the originals may be part of a larger buffer of the caller, or may change.
func (e *Entry) append(dst []byte) []byte {
	text := func(name, value string) {
		if value != "" {
			dst = append(append(append(dst, ',', '"'), name...), `":`...)
			dst = wire.AppendString(dst, value)
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			dst = append(append(append(dst, ',', '"'), name...), `":`...)
			dst = strconv.AppendInt(dst, n, 10)
		}
	}
	raw := func(name string, value *jsontext.Value) {
		if *value != nil {
			dst = append(append(append(dst, ',', '"'), name...), `":`...)
			dst = append(dst, *value...)
			*value = jsontext.Value(dst[len(dst)-len(*value) : len(dst) : len(dst)])
		}
	}
	dst = append(dst, `{"what":"`...)
	dst = append(dst, e.What...)
	dst = append(dst, `","at":"`...)
	dst = e.At.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	number("call", e.Call)
	number("nth", e.Nth)
	text("name", e.Name)
	number("status", int64(e.Status))
	text("kind", string(e.Kind))
	text("rule", e.Rule)
	text("why", e.Why)
	text("side", string(e.Side))
	text("review", e.Review)
	text("by", e.By)
	text("verdict", e.Verdict)
	text("comment", e.Comment)
	text("agent", e.Agent)
	text("engagement", e.Engagement)
	raw("inputs", &e.Inputs)
	raw("outputs", &e.Outputs)
	return append(dst, '}')
}
