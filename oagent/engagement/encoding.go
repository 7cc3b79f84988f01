package engagement

import (
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/stored"
)

// States and entries are stored in a compact binary form, because each call writes two of
// each: a version, and then fields. A field is a tag and a value. Fields with the zero value
// are omitted. A value is a varint, or text that is preceded by its length as a uvarint.
//
// The method fields of a type lists its fields once, for both directions: it passes each to a
// codec, which appends it or, if it is the next field of the encoding, reads it.
//
// Tags must not be reused. A reader rejects unknown tags.

// encodingVersion is the first byte of a state or an entry.
const encodingVersion = 1

// codec appends fields, or reads them.
type codec struct {
	to      encoder
	from    decoder
	reading bool
	tag     byte // when reading: the tag of the next field; 0 at the end and after an error
	rest    int  // when reading: bytes that were unread before the last pass over the fields
}

// appending returns a codec that appends to dst.
func appending(dst []byte) codec {
	return codec{to: encoder{append(dst, encodingVersion)}}
}

// reading returns a codec that reads an encoding:
//
//	for c := reading(data); c.more(); { x.fields(&c) }
//
// One pass is enough if the encoding has the fields in that order.
func reading(data []byte) codec {
	c := codec{from: newDecoder(data), reading: true, rest: -1}
	c.next()
	return c
}

// more reports whether there are fields to read. It fails if the last pass has read none, because
// their tag is unknown.
func (c *codec) more() bool {
	if c.tag != 0 && len(c.from.b) == c.rest {
		c.from.fail()
	}
	c.rest = len(c.from.b)
	return c.tag != 0 && c.from.err == nil
}

// next reads the next tag.
func (c *codec) next() {
	tag, ok := c.from.next()
	if ok && tag == 0 {
		c.from.fail()
	}
	c.tag = tag
}

func integer[T int | int64 | uint64](c *codec, tag byte, n *T) {
	switch {
	case !c.reading:
		c.to.number(tag, int64(*n))
	case c.tag == tag:
		*n = T(c.from.number())
		c.next()
	}
}

// since is integer for a time that is written relative to base. What it reads is relative.
func since(c *codec, tag byte, n *int64, base int64) {
	if c.reading {
		base = 0
	}
	relative := *n - base
	integer(c, tag, &relative)
	*n = relative + base
}

func text[T ~string](c *codec, tag byte, t *T) {
	switch {
	case !c.reading:
		c.to.text(tag, string(*t))
	case c.tag == tag:
		*t = T(c.from.text())
		c.next()
	}
}

// asJSON is for a list that is encoded as JSON.
func asJSON[T any](c *codec, tag byte, list *[]T) {
	switch {
	case !c.reading && len(*list) > 0:
		encoded, _ := json.Marshal(*list)
		c.to.bytes(tag, encoded)
	case c.reading && c.tag == tag:
		if json.Unmarshal(c.from.bytes(), list) != nil {
			c.from.fail()
		}
		c.next()
	}
}

// alias is for a text that refers to the bytes of the encoding afterwards, in both directions.
func (c *codec) alias(tag byte, t *jsontext.Value) {
	switch {
	case !c.reading:
		*t = c.to.bytes(tag, *t)
	case c.tag == tag:
		*t = c.from.bytes()
		c.next()
	}
}

// encoder appends fields.
type encoder struct{ b []byte }

func (e *encoder) number(tag byte, n int64) {
	if n != 0 {
		e.b = binary.AppendVarint(append(e.b, tag), n)
	}
}

// text appends a text. Texts become part of JSON later, so invalid UTF-8 is replaced.
func (e *encoder) text(tag byte, text string) {
	if text != "" {
		if !utf8.ValidString(text) {
			text = strings.ToValidUTF8(text, "\ufffd")
		}
		e.b = binary.AppendUvarint(append(e.b, tag), uint64(len(text)))
		e.b = append(e.b, text...)
	}
}

// bytes appends a text and returns where it is in the encoding.
func (e *encoder) bytes(tag byte, text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	e.b = binary.AppendUvarint(append(e.b, tag), uint64(len(text)))
	start := len(e.b)
	e.b = append(e.b, text...)
	return e.b[start:len(e.b):len(e.b)]
}

// decoder reads fields. After an error, its methods return zero values.
type decoder struct {
	b   []byte
	err error
}

// newDecoder reads the version.
func newDecoder(b []byte) decoder {
	if len(b) == 0 || b[0] != encodingVersion {
		return decoder{err: stored.ErrUnreadable}
	}
	return decoder{b: b[1:]}
}

// next returns the tag of the next field. ok is false at the end and after an error.
func (d *decoder) next() (tag byte, ok bool) {
	if d.err != nil || len(d.b) == 0 {
		return 0, false
	}
	tag = d.b[0]
	d.b = d.b[1:]
	return tag, true
}

func (d *decoder) fail() {
	d.b, d.err = nil, stored.ErrUnreadable
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

// bytes returns a text, which aliases the input.
func (d *decoder) bytes() []byte {
	length, size := binary.Uvarint(d.b)
	if size <= 0 || length > uint64(len(d.b)-size) {
		d.fail()
		return nil
	}
	text := d.b[size : size+int(length) : size+int(length)] //nolint:gosec // at most the length of the input
	d.b = d.b[size+int(length):]                            //nolint:gosec // as above
	return text
}

func (d *decoder) text() string { return string(d.bytes()) }

// Tags of the fields of a state, see encoding.go.
const (
	tagBorn byte = iota + 1
	tagRevision
	tagAgentName
	tagUserID
	tagEmail
	tagID
	tagStarted
	tagLast // relative to Started, like Used
	tagUsed
	tagEnded
	tagEndedKind
	tagEndedRule
	tagEndedWhy
	tagTotal
	tagRefused
	tagKept
	tagRecent
	tagTail
	tagReviews // JSON, like Questions
	tagRenewals
	tagFirst
	tagBefore
	tagReviewed
	tagQuestions
	tagCalls // a CallSummary: name, then Count, Call, Begun and Done as varints
)

// append appends the encoded state.
func (s *State) append(dst []byte) []byte {
	c := appending(dst)
	s.fields(&c)
	return c.to.b
}

// decodeState reads a state of the store.
func decodeState(key string, value []byte) (*State, error) {
	s := new(State)
	c := reading(value)
	for c.more() {
		s.fields(&c)
	}
	if c.from.err == nil && (s.Recent < 0 || s.Recent >= max(len(s.Names), 1)) {
		c.from.fail()
	}
	if c.from.err != nil {
		return nil, stored.Unreadable("engagements", key, c.from.err)
	}
	s.Last += s.Started
	s.ProlongedAt += s.Started
	s.reindex()
	return s, nil
}

// fields passes the fields to the codec. When reading, Last and Used are relative to Started
// afterwards.
func (s *State) fields(c *codec) {
	integer(c, tagBorn, &s.Born)
	integer(c, tagRevision, &s.Revision)
	text(c, tagAgentName, &s.Agent)
	text(c, tagUserID, &s.User.ID)
	text(c, tagEmail, &s.User.Email)
	text(c, tagID, &s.ID)
	integer(c, tagStarted, &s.Started)
	since(c, tagLast, &s.Last, s.Started)
	since(c, tagUsed, &s.ProlongedAt, s.Started)
	s.endingFields(c)
	integer(c, tagTotal, &s.Total)
	integer(c, tagRefused, &s.Refused)
	integer(c, tagKept, &s.PayloadBytes)
	integer(c, tagRecent, &s.Recent)
	switch {
	case !c.reading:
		c.to.bytes(tagTail, s.tail) // not an alias, because the State appends to its tail
	case c.tag == tagTail:
		s.tail = c.from.bytes()
		c.next()
	}
	integer(c, tagRenewals, &s.Earlier.Renewals)
	integer(c, tagFirst, &s.Earlier.Entries)
	integer(c, tagBefore, &s.Earlier.Bytes)
	text(c, tagReviewed, &s.Reviewed)
	asJSON(c, tagReviews, &s.Reviews)
	asJSON(c, tagQuestions, &s.Assigned)
	if !c.reading {
		for i := range s.Names {
			c.to.call(&s.Names[i])
		}
	}
	for c.reading && c.tag == tagCalls {
		d := &c.from
		s.Names = append(s.Names, CallSummary{Name: d.text(), Count: d.number(), Call: d.number(), Begun: d.number(), Done: d.number()})
		c.next()
	}
}

// endingFields passes the fields of Ended to the codec.
func (s *State) endingFields(c *codec) {
	var ended Ending
	var at int64
	if s.Ended != nil {
		ended, at = *s.Ended, s.Ended.At.UnixMilli()
	}
	integer(c, tagEnded, &at)
	text(c, tagEndedKind, &ended.Kind)
	text(c, tagEndedRule, &ended.Rule)
	text(c, tagEndedWhy, &ended.Why)
	if c.reading && at != 0 {
		s.Ended = &Ending{At: Milliseconds(at), Kind: ended.Kind, Rule: ended.Rule, Why: ended.Why}
	}
}

// call appends a CallSummary.
func (e *encoder) call(n *CallSummary) {
	e.text(tagCalls, n.Name)
	e.b = binary.AppendVarint(e.b, n.Count)
	e.b = binary.AppendVarint(e.b, n.Call)
	e.b = binary.AppendVarint(e.b, n.Begun)
	e.b = binary.AppendVarint(e.b, n.Done)
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
	tagDecidedBy
	tagDecidedAs
	tagWould
	tagWouldRule
	tagWouldWhy
)

// decodeEntry reads an entry of the store. Its inputs and outputs alias data.
func decodeEntry(key string, data []byte) (Entry, error) {
	var e Entry
	c := reading(data)
	for c.more() {
		e.fields(&c)
	}
	if c.from.err != nil {
		return Entry{}, stored.Unreadable("engagements", key, c.from.err)
	}
	return e, nil
}

// fields passes the fields to the codec.
func (e *Entry) fields(c *codec) {
	// CallID has no tag of its own, because older readers reject unknown ones. It comes before the event, under the same tag: older
	// readers keep the last of both.
	text(c, tagWhat, &e.CallID)
	switch {
	case !c.reading || c.tag == tagWhat:
		text(c, tagWhat, &e.Event)
	case e.Event == "":
		e.Event, e.CallID = e.CallID, ""
	}
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
	text(c, tagDecidedBy, &e.DecidedBy.User)
	text(c, tagDecidedAs, &e.DecidedBy.Entry)
	text(c, tagWould, &e.Would.Effect)
	text(c, tagWouldRule, &e.Would.Rule)
	text(c, tagWouldWhy, &e.Would.Why)
	c.alias(tagInputs, &e.Inputs)
	c.alias(tagOutputs, &e.Outputs)
}

// size returns the approximate number of bytes of the encoded entry.
func (e *Entry) size() int {
	const fixed = 64
	return fixed + len(e.Name) + len(e.Inputs) + len(e.Outputs) + len(e.Rule) + len(e.Why) + len(e.Comment) + len(e.Agent) + len(e.Engagement) +
		len(e.Review) + len(e.By) + len(e.CallID) + len(e.DecidedBy.User) + len(e.DecidedBy.Entry) + len(e.Would.Rule) + len(e.Would.Why)
}

// append appends the encoded entry. It then replaces its inputs and outputs by the encoded
// bytes, because the originals may be part of a larger buffer of the caller, or may change.
func (e *Entry) append(dst []byte) []byte {
	c := appending(dst)
	e.fields(&c)
	return c.to.b
}
