package engagement

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// Tx is a transaction on the record of an Engagement, as one call of a decision sees it. State is a
// copy that the decision may change. Nothing is written if the decision returns an error.
type Tx struct {
	State   *State // a new state if the Engagement does not exist yet
	Now     time.Time
	Durable bool   // the change must be on disk before the decision has any effect
	Prolong bool   // restart the lifetime of the Engagement; refusals do not
	CallID  string // of the entries that Log adds

	options *Options
	record  *record
	entries []Entry
	first   [1]Entry  // storage for entries: most transactions have one
	value   []byte    // the encoded State
	encoded [1][]byte // storage for the encoded entries
}

// Length returns the number of entries of the record before this transaction.
func (t *Tx) Length() int64 { return t.record.length }

// Closed returns why the Engagement accepts no more entries, nil if it accepts them.
func (t *Tx) Closed() *Refusal {
	switch {
	case t.State.Ended != nil:
		return t.State.Refusal()
	case t.Length() >= MaxEntries:
		return &Refusal{Kind: KindEnded, Message: "the Engagement has reached its limit of entries"}
	}
	return nil
}

// Log adds an entry and returns its position in the log.
func (t *Tx) Log(e Entry) int64 {
	e.At, e.CallID = t.Now, t.CallID
	if t.entries == nil {
		t.entries = t.first[:0]
	}
	t.entries = append(t.entries, e)
	return t.record.length + int64(len(t.entries)) - 1
}

// Keep returns the form of inputs or outputs for the record: the value itself, or an Omitted.
// The entry copies it when it is encoded.
func (t *Tx) Keep(value jsontext.Value) jsontext.Value {
	if value == nil {
		return nil
	}
	size, most, all := int64(len(value)), int64(t.options.MaxPayload), t.options.MaxRecord
	switch {
	case size > most:
		return Omitted{size, omittedLarge, most}.JSON()
	case t.State.PayloadBytes+size > all:
		return Omitted{size, omittedFull, all}.JSON()
	}
	t.State.PayloadBytes += size
	return value
}

// End ends the Engagement.
func (t *Tx) End(kind Kind, rule, why string) {
	t.State.Ended = &Ending{At: Milliseconds(t.Now.UnixMilli()), Kind: kind, Rule: rule, Why: why}
	t.Durable = true
}

// IsFull reports whether the record has no space for another call of the name.
func (t *Tx) IsFull(name string) bool {
	return t.record.length >= MaxEntries || len(t.State.Names) >= maxNames && t.State.Find(name) < 0
}

// Begin records that a call is about to be made. review is the id of the review that approved
// it, and would is what a rule in log only would have done. If repetitions is false, the Engagement does not keep the order of its calls, which only
// Repeats needs. The result is the number of the call, and its number among those of its name.
func (t *Tx) Begin(name string, inputs jsontext.Value, review string, would logonly.Would, repetitions bool) (call, nth int64) {
	s := t.State
	if repetitions {
		s.tail = appendTail(s.tail, s.nextIndex(name))
	} else {
		s.tail = nil
	}
	s.Recent = s.IndexOf(name)
	s.Total++
	n := &s.Names[s.Recent]
	n.Count++
	n.Call, n.Done = s.Total, 0
	n.Begun = t.Log(Entry{Event: EntryBegun, Call: s.Total, Nth: n.Count, Name: name, Inputs: t.Keep(inputs), Review: review, Would: would})
	t.Durable, t.Prolong = true, true
	return s.Total, n.Count
}

// Finish records the result of a call, which may be used. outputs is nil if they are not
// collected.
func (t *Tx) Finish(e Entry, outputs jsontext.Value) {
	e.Outputs = t.Keep(outputs)
	at := t.Log(e)
	if i := t.State.Find(e.Name); i >= 0 && t.State.Names[i].Call == e.Call {
		t.State.Names[i].Done = at
	}
}

// Latest returns the latest call of a name. It returns nil if the call must be read from the
// log first, see UnreadError.
func (t *Tx) Latest(name string) *Payloads {
	i := t.State.Find(name)
	if i < 0 {
		return nil
	}
	call := t.record.latest[name]
	if n := &t.State.Names[i]; call == nil || call.begun != n.Begun || call.done != n.Done {
		return nil
	}
	return &call.Payloads
}

// Order returns the index into State.Names of each call, in order. ok is false if the calls
// must be read from the log first.
func (t *Tx) Order() (order []int32, ok bool) {
	h := t.record.history
	if h == nil || h.applied < t.record.length {
		return nil, false
	}
	return h.list, true
}

// Calls returns all calls of a name, in order. ok is false if they must be read from the log
// first.
func (t *Tx) Calls(name string) (calls []*Payloads, ok bool) {
	h := t.record.history
	if h == nil || h.applied < t.record.length || h.calls[name] == nil {
		return nil, false
	}
	return h.calls[name].all, true
}

// maxShared is the maximum number of bytes of entries that share a buffer with the state. The buffer
// stays in memory as long as the state, which is longer than the entries are needed.
const maxShared = 2048

// change returns the change for the store.
func (t *Tx) change() (store.Change, error) {
	if length := t.record.length + int64(len(t.entries)); length > store.MaxLength {
		return store.Change{}, fmt.Errorf("%w: the record of an Engagement has %d entries", store.ErrTooLarge, length)
	}
	t.State.Revision = random()
	t.State.Last = t.Now.UnixMilli()
	if t.Prolong {
		t.State.ProlongedAt = t.Now.UnixMilli()
	}
	size := 0
	for i := range t.entries {
		size += t.entries[i].size()
	}
	var buffer []byte
	if size <= maxShared {
		buffer = t.State.append(make([]byte, 0, t.stateSize()+size))
		t.value = slices.Clip(buffer)
	} else {
		buffer = make([]byte, 0, size)
		t.value = t.State.append(make([]byte, 0, t.stateSize()))
	}
	c := store.Change{Value: t.value, TTL: t.life(), Async: !t.Durable, Entries: t.encoded[:0], Owner: t.State.Owner}
	if t.isRefusalOnly() {
		c.Evictable = t.options.EvictRefusals
		if t.State.User.ID == "" {
			c.TTL = min(c.TTL, refusalOnlyTTL)
		}
	}
	for i := range t.entries {
		begin := len(buffer)
		buffer = t.entries[i].append(buffer)
		c.Entries = append(c.Entries, buffer[begin:len(buffer):len(buffer)])
	}
	t.record.next = t
	return c, nil
}

// minLife is the minimum lifetime that the store accepts, so that an expired record disappears
// at once.
const minLife = time.Millisecond

// life returns the remaining lifetime of the Engagement.
func (t *Tx) life() time.Duration {
	ttl := t.options.TTL
	used := time.Duration(t.Now.UnixMilli()-t.State.ProlongedAt) * time.Millisecond
	return min(max(ttl-used, minLife), ttl)
}

// isRefusalOnly reports whether nothing but refusals has happened in the Engagement. A client
// can create one for each id, so anonymous ones expire after refusalOnlyTTL, and Options.EvictRefusals
// allows the store to delete these Engagements to make space for others.
func (t *Tx) isRefusalOnly() bool {
	s := t.State
	return s.Total == 0 && s.Ended == nil && s.Earlier.Renewals == 0 && len(s.Reviews) == 0 && len(s.Assigned) == 0 &&
		s.Refused >= t.record.length+int64(len(t.entries))
}

// stateSize returns the approximate number of bytes of the encoded state.
func (t *Tx) stateSize() int {
	const fixed, each = 128, 48
	if t.record.value != nil {
		return len(t.record.value) + each
	}
	return fixed + each*len(t.State.Names)
}

// Reasons why a value is not in the record, see Omitted.Why.
const (
	omittedLarge    = "max_recorded" // it exceeds the limit for one value in the record
	OmittedAnswer   = "max_output"   // it is larger than the limit for inspected outputs
	omittedFull     = "record_full"  // the record has reached its size limit
	OmittedForm     = "not_json"     // it is neither JSON nor text
	OmittedInvalid  = "invalid_json" // its media type is JSON, but its content is not valid
	OmittedPart     = "part"         // it is partial content (206)
	OmittedEncoding = "encoding"     // its encoding is not supported
	OmittedStream   = "stream"       // it was streamed without being buffered

	OmittedCredentials = "credentials" // it contains credentials of the call

	OmittedRunning = "running" // it does not exist yet, because the call has not ended; no record has this
)

// Omitted is the placeholder in the record for inputs or outputs that were omitted:
//
//	{"_shed":70012,"_why":"max_recorded","_limit":65536}
//
// An assertion that reads an omitted value cannot be evaluated, so it does not hold. The error
// carries the reason in Why. If an API returns JSON that begins like this, it is treated as
// omitted too.
type Omitted struct {
	Bytes int64  `json:"_shed"`
	Why   string `json:"_why"`
	Limit int64  `json:"_limit"` // bytes; set for omittedLarge, OmittedAnswer and omittedFull, else 0
}

var omittedPrefix = []byte(`{"_shed":`)

// JSON returns the placeholder for the record.
func (o Omitted) JSON() jsontext.Value {
	dst := strconv.AppendInt(bytes.Clone(omittedPrefix), o.Bytes, 10)
	if o.Why != "" {
		dst = strictjson.AppendString(append(dst, `,"_why":`...), o.Why)
	}
	if o.Limit > 0 {
		dst = strconv.AppendInt(append(dst, `,"_limit":`...), o.Limit, 10)
	}
	return append(dst, '}')
}

// IsOmitted reports whether a value is an Omitted.
func IsOmitted(value jsontext.Value) bool {
	return bytes.HasPrefix(value, omittedPrefix)
}

// OmittedError is the error of an expression that reads an omitted value.
type OmittedError struct {
	Omitted
	Path string // path of the value: recent["get-trip"].outputs; "" if not known
}

// OmissionOf returns the error for an omitted value.
func OmissionOf(value jsontext.Value) *OmittedError {
	e := new(OmittedError)
	if json.Unmarshal(value, &e.Omitted) != nil {
		e.Omitted = Omitted{} // a value of the API that only looks like a placeholder
	}
	return e
}

// Error names the omitted value and the reason. It does not quote the value.
func (e *OmittedError) Error() string {
	what := cmp.Or(e.Path, "one of the values that it reads")
	return what + e.Reason()
}

// Reason says why the value was omitted, as the rest of a sentence.
func (e *OmittedError) Reason() string {
	switch limit := humanize.IBytes(uint64(max(e.Limit, 0))); e.Why {
	case omittedLarge:
		return fmt.Sprintf(" is too large for the record, which stores inputs or outputs of at most %s; the operator can raise max_recorded", limit)
	case OmittedAnswer:
		return fmt.Sprintf(" is too large to be inspected; the limit is %s, and the operator can raise max_output", limit)
	case omittedFull:
		return fmt.Sprintf(" was not recorded, because the record has reached its limit of %s of inputs and outputs; start another Engagement", limit)
	case OmittedForm:
		return " is neither JSON nor text, so it has no members; an assertion can only read its _media_type and _bytes"
	case OmittedInvalid:
		return " is declared as JSON, but is invalid; it may have a duplicate name"
	case OmittedPart:
		return " is a partial response (206), which is not inspected"
	case OmittedEncoding:
		return " has an unknown encoding or character set, or is damaged"
	case OmittedCredentials:
		return " repeats credentials of the call, which are not recorded"
	case OmittedRunning:
		return " does not exist yet, because that call of the same message has not ended"
	case OmittedStream:
		return " is a stream that was passed on without buffering, so it was not recorded"
	}
	return " is not in the record, because it was too large or not readable"
}
