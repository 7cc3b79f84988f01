package engagement

import (
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"
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
	w := encoder{append(dst, encodingVersion)}
	w.number(tagBorn, int64(s.Born))         //nolint:gosec // 53 bits
	w.number(tagRevision, int64(s.Revision)) //nolint:gosec // 53 bits
	w.text(tagAgentName, s.Agent)
	w.text(tagUserID, s.UserID)
	w.text(tagEmail, s.Email)
	w.text(tagID, s.ID)
	w.number(tagStarted, s.Started)
	w.number(tagLast, s.Last-s.Started)
	w.number(tagUsed, s.Used-s.Started)
	w.number(tagEnded, s.Ended)
	w.text(tagEndedKind, string(s.EndedKind))
	w.text(tagEndedRule, s.EndedRule)
	w.text(tagEndedWhy, s.EndedWhy)
	w.number(tagTotal, s.Total)
	w.number(tagRefused, s.Refused)
	w.number(tagKept, s.Kept)
	w.number(tagRecent, int64(s.Recent))
	w.bytes(tagTail, s.tail)
	w.number(tagRenewals, s.Renewals)
	w.number(tagFirst, s.First)
	w.number(tagBefore, s.Before)
	w.text(tagReviewed, s.Reviewed)
	if len(s.Reviews) > 0 {
		reviews, _ := json.Marshal(s.Reviews) // strings and numbers only
		w.bytes(tagReviews, reviews)
	}
	if len(s.Questions) > 0 {
		questions, _ := json.Marshal(s.Questions) // strings and numbers only
		w.bytes(tagQuestions, questions)
	}
	for i := range s.Names {
		n := &s.Names[i]
		w.text(tagCalls, n.Name)
		w.b = binary.AppendVarint(w.b, n.Count)
		w.b = binary.AppendVarint(w.b, n.Call)
		w.b = binary.AppendVarint(w.b, n.Begun)
		w.b = binary.AppendVarint(w.b, n.Done)
	}
	return w.b
}

// decodeState reads a state of the store.
func decodeState(value []byte) (*State, error) {
	s := new(State)
	d := newDecoder(value)
	for {
		tag, ok := d.next()
		if !ok {
			break
		}
		s.decodeField(d, tag)
	}
	if d.err == nil && (s.Recent < 0 || s.Recent >= max(len(s.Names), 1)) {
		d.fail()
	}
	if d.err != nil {
		return nil, fmt.Errorf("reading the record of an Engagement: %w", d.err)
	}
	s.Last += s.Started
	s.Used += s.Started
	s.reindex()
	return s, nil
}

func (s *State) decodeField(d *decoder, tag byte) {
	switch tag {
	case tagBorn:
		s.Born = uint64(d.number()) //nolint:gosec // 53 bits
	case tagRevision:
		s.Revision = uint64(d.number()) //nolint:gosec // 53 bits
	case tagAgentName:
		s.Agent = d.text()
	case tagUserID:
		s.UserID = d.text()
	case tagEmail:
		s.Email = d.text()
	case tagID:
		s.ID = d.text()
	case tagStarted:
		s.Started = d.number()
	case tagLast:
		s.Last = d.number()
	case tagUsed:
		s.Used = d.number()
	case tagEnded:
		s.Ended = d.number()
	case tagEndedKind:
		s.EndedKind = Kind(d.text())
	case tagEndedRule:
		s.EndedRule = d.text()
	case tagEndedWhy:
		s.EndedWhy = d.text()
	case tagTotal:
		s.Total = d.number()
	case tagRefused:
		s.Refused = d.number()
	case tagKept:
		s.Kept = d.number()
	case tagRecent:
		s.Recent = int(d.number())
	case tagTail:
		s.tail = d.bytes()
	case tagRenewals:
		s.Renewals = d.number()
	case tagFirst:
		s.First = d.number()
	case tagBefore:
		s.Before = d.number()
	case tagReviewed:
		s.Reviewed = d.text()
	case tagReviews:
		d.json(&s.Reviews)
	case tagQuestions:
		d.json(&s.Questions)
	case tagCalls:
		s.Names = append(s.Names, CallSummary{Name: d.text(), Count: d.number(), Call: d.number(), Begun: d.number(), Done: d.number()})
	default:
		d.fail()
	}
}

// json reads a text that is JSON.
func (d *decoder) json(into any) {
	if json.Unmarshal(d.bytes(), into) != nil {
		d.fail()
	}
}
