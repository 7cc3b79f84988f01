package engagement

import (
	"encoding/binary"
	"fmt"
)

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
func decodeState(value []byte) (*State, error) {
	s := new(State)
	c := reading(value)
	for c.more() {
		s.fields(&c)
	}
	if c.from.err == nil && (s.Recent < 0 || s.Recent >= max(len(s.Names), 1)) {
		c.from.fail()
	}
	if c.from.err != nil {
		return nil, fmt.Errorf("reading the record of an Engagement: %w", c.from.err)
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
	text(c, tagUserID, &s.UserID)
	text(c, tagEmail, &s.Email)
	text(c, tagID, &s.ID)
	integer(c, tagStarted, &s.Started)
	since(c, tagLast, &s.Last, s.Started)
	since(c, tagUsed, &s.ProlongedAt, s.Started)
	integer(c, tagEnded, &s.Ended)
	text(c, tagEndedKind, &s.EndedKind)
	text(c, tagEndedRule, &s.EndedRule)
	text(c, tagEndedWhy, &s.EndedWhy)
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
	integer(c, tagRenewals, &s.Renewals)
	integer(c, tagFirst, &s.First)
	integer(c, tagBefore, &s.EarlierBytes)
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

// call appends a CallSummary.
func (e *encoder) call(n *CallSummary) {
	e.text(tagCalls, n.Name)
	e.b = binary.AppendVarint(e.b, n.Count)
	e.b = binary.AppendVarint(e.b, n.Call)
	e.b = binary.AppendVarint(e.b, n.Begun)
	e.b = binary.AppendVarint(e.b, n.Done)
}
