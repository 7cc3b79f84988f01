package oagent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// What an Entry tells.
const (
	EntryBegun     = "begun"     // a call passed, and was about to be made
	EntryFinished  = "finished"  // its result came; with a Kind it was withheld
	EntryHeld      = "held"      // its result came, and waits for a review
	EntryReleased  = "released"  // a result that was held was given
	EntryAborted   = "aborted"   // whether the call was made is not known, or it was not
	EntryRefused   = "refused"   // a call was not made
	EntryReview    = "review"    // somebody is asked to confirm
	EntryDecided   = "decided"   // and has decided
	EntryGuardrail = "guardrail" // a guardrail was asked; with a Kind it does not hold
	EntryQuestion  = "question"  // the agent itself is to decide a review of another Engagement
	EntryDecision  = "decision"  // and has decided
	EntryRenewed   = "renewed"   // the Engagement was begun anew; with the Kind and Rule by which the one before had ended
	EntryLate      = "late"      // a call of the one before came to its end; its result was withheld
	EntryRepeated  = "repeated"  // a result that was released was given to a parallel repetition of the call
)

// An Entry is one line of the record of an Engagement, in the order of what
// happened. A call that has begun and has no other entry was cut off: what it did
// is not known.
type Entry struct {
	What    string         `json:"what"`
	At      time.Time      `json:"at"`
	Call    int64          `json:"call,omitzero"` // number of the call in the Engagement, from 1
	Nth     int64          `json:"nth,omitzero"`  // number among those of the same name, from 1
	Name    string         `json:"name,omitzero"` // the tool or agent called
	Inputs  jsontext.Value `json:"inputs,omitzero"`
	Outputs jsontext.Value `json:"outputs,omitzero"`
	Status  int            `json:"status,omitzero"` // of HTTP
	Kind    Kind           `json:"kind,omitzero"`   // why it was refused
	Rule    string         `json:"rule,omitzero"`   // path in the document
	Why     string         `json:"why,omitzero"`
	Side    Side           `json:"side,omitzero"` // of a review or a guardrail
	Review  string         `json:"review,omitzero"`
	By      string         `json:"by,omitzero"`      // the reviewer
	Verdict string         `json:"verdict,omitzero"` // ReviewApproved or ReviewDenied
	Comment string         `json:"comment,omitzero"`

	// Of a question and its decision: who is to be let go on.
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

// size is about how many bytes the entry has when it is written.
func (e *Entry) size() int {
	const fixed = 128
	return fixed + len(e.Name) + len(e.Inputs) + len(e.Outputs) + len(e.Rule) + len(e.Why) + len(e.Comment) + len(e.Agent) + len(e.Engagement)
}

// append appends the entry as JSON. From then on its inputs and outputs are those
// that were written: those before may stand in bytes of the caller that are many
// more, or change.
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
