package engagement

import (
	"encoding/binary"
	"strings"
	"time"

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

// codec appends fields, or reads them. After an error, its methods read zero values.
type codec struct {
	b       []byte // the encoding so far; when reading, the rest of it
	reading bool
	err     error
	tag     byte // when reading: the tag of the next field; 0 at the end and after an error
	rest    int  // when reading: bytes that were unread before the last pass over the fields
}

// appending returns a codec that appends to dst.
func appending(dst []byte) codec { return codec{b: append(dst, encodingVersion)} }

// reading returns a codec that reads an encoding:
//
//	for c := reading(data); c.more(); { x.fields(&c) }
//
// One pass is enough if the encoding has the fields in that order.
func reading(data []byte) codec {
	c := codec{b: data, reading: true, rest: -1}
	if len(data) == 0 || data[0] != encodingVersion {
		c.fail()
		return c
	}
	c.b = data[1:]
	c.next()
	return c
}

// more reports whether there are fields to read. It fails if the last pass has read none, because
// their tag is unknown.
func (c *codec) more() bool {
	if c.tag != 0 && len(c.b) == c.rest {
		c.fail()
	}
	c.rest = len(c.b)
	return c.tag != 0
}

func (c *codec) fail() { c.b, c.tag, c.err = nil, 0, stored.ErrUnreadable }

// next reads the next tag.
func (c *codec) next() {
	if c.tag = 0; c.err != nil || len(c.b) == 0 {
		return
	}
	if c.tag, c.b = c.b[0], c.b[1:]; c.tag == 0 {
		c.fail()
	}
}

// number reads a number.
func (c *codec) number() int64 {
	n, size := binary.Varint(c.b)
	if size <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[size:]
	return n
}

// text reads a text, which aliases the encoding.
func (c *codec) text() []byte {
	length, size := binary.Uvarint(c.b)
	if size <= 0 || length > uint64(len(c.b)-size) {
		c.fail()
		return nil
	}
	end := size + int(length) //nolint:gosec // at most the length of the input
	text := c.b[size:end:end]
	c.b = c.b[end:]
	return text
}

// appendText appends a text and returns where it is in the encoding.
func (c *codec) appendText(tag byte, text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	c.b = binary.AppendUvarint(append(c.b, tag), uint64(len(text)))
	start := len(c.b)
	c.b = append(c.b, text...)
	return c.b[start:len(c.b):len(c.b)]
}

func integer[T int | int64 | uint64](c *codec, tag byte, n *T) {
	switch {
	case !c.reading && *n != 0:
		c.b = binary.AppendVarint(append(c.b, tag), int64(*n))
	case c.reading && c.tag == tag:
		*n = T(c.number())
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

// text is for a text. Texts become part of JSON later, so invalid UTF-8 is replaced.
func text[T ~string](c *codec, tag byte, t *T) {
	switch {
	case !c.reading && *t != "":
		valid := strings.ToValidUTF8(string(*t), "\ufffd")
		c.b = append(binary.AppendUvarint(append(c.b, tag), uint64(len(valid))), valid...)
	case c.reading && c.tag == tag:
		*t = T(c.text())
		c.next()
	}
}

// asJSON is for a list that is encoded as JSON.
func asJSON[T any](c *codec, tag byte, list *[]T) {
	switch {
	case !c.reading && len(*list) > 0:
		encoded, _ := json.Marshal(*list)
		c.appendText(tag, encoded)
	case c.reading && c.tag == tag:
		if json.Unmarshal(c.text(), list) != nil {
			c.fail()
		}
		c.next()
	}
}

// alias is for a text that refers to the bytes of the encoding afterwards, in both directions.
func (c *codec) alias(tag byte, t *jsontext.Value) {
	switch {
	case !c.reading:
		*t = c.appendText(tag, *t)
	case c.tag == tag:
		*t = c.text()
		c.next()
	}
}

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
	return c.b
}

// decodeState reads a state of the store.
func decodeState(key string, value []byte) (*State, error) {
	s := new(State)
	c := reading(value)
	for c.more() {
		s.fields(&c)
	}
	if s.Recent < 0 || s.Recent >= max(len(s.Names), 1) {
		c.fail()
	}
	if c.err != nil {
		return nil, stored.Unreadable("engagements", key, c.err)
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
		c.appendText(tagTail, s.tail) // not an alias, because the State appends to its tail
	case c.tag == tagTail:
		s.tail = c.text()
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
			n := &s.Names[i]
			text(c, tagCalls, &n.Name)
			for _, number := range [...]int64{n.Count, n.Call, n.Begun, n.Done} {
				c.b = binary.AppendVarint(c.b, number)
			}
		}
	}
	for c.reading && c.tag == tagCalls {
		s.Names = append(s.Names, CallSummary{Name: string(c.text()), Count: c.number(), Call: c.number(), Begun: c.number(), Done: c.number()})
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
	if c.err != nil {
		return Entry{}, stored.Unreadable("engagements", key, c.err)
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
	switch at := e.At.UnixNano(); {
	case !c.reading:
		integer(c, tagAt, &at)
	case c.tag == tagAt:
		e.At = time.Unix(0, c.number()).UTC()
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
	return c.b
}
