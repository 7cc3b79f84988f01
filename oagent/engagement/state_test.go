package engagement

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/store/lease"
)

// TestState_reads_back wants a state to be the same after the store had it.
func TestState_reads_back(t *testing.T) {
	of := Ref{Agent: "desk", ID: "e \"1\"\n", User: User{ID: "ä\u2028", Email: "a@b"}}
	for _, names := range []int{0, 1, indexNamesFrom, indexNamesFrom + 1, 300} {
		s := NewState(of, time.UnixMilli(1_700_000_000_123))
		for i := range names {
			s.tail = appendTail(s.tail, i)
			s.Recent = s.IndexOf(fmt.Sprintf("tool-%d", i))
			s.Total++
			s.Names[s.Recent] = CallSummary{Name: s.Names[s.Recent].Name, Count: 1, Call: s.Total, Begun: int64(2 * i), Done: int64(2*i + 1)}
		}
		if names > 1 {
			s.Ended = &Ending{At: Milliseconds(1_700_000_000_999), Kind: KindGuardrail, Rule: "guardrails.input.assertion", Why: `it has "x"`}
			s.Reviews = []RequestedReview{{ID: "A", Side: SideOutput, Reviewer: `"boss"`, Name: "tool-1", Inputs: "ff", Call: 2, Nth: 1, Status: ReviewDenied, Comment: "no\n", At: 5}}
			s.Reviewed = "3f6c"
			s.Assigned = []AssignedReview{{ID: "A", At: 5, Verdict: ReviewApproved, Comment: "ä\"", Lease: lease.Lease{Tries: 2, Token: "t"}, Settled: true}, {ID: "B"}}
		}
		read, err := decodeState("", s.append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if len(read.tail) == 0 {
			read.tail = nil
		}
		if len(read.Names) == 0 {
			read.Names = nil
		}
		s.Owner = "" // not stored in the state
		if !reflect.DeepEqual(read, s) {
			t.Errorf("%d names: got %+v, want %+v", names, read, s)
		}
	}
}

// TestEntry_reads_back wants the same of an entry.
func TestEntry_reads_back(t *testing.T) {
	for _, e := range []Entry{
		{Event: EntryBegun, At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)},
		{
			Event: EntryFinished, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), CallID: "1k1bprgcjeq0ab6c", Call: 7, Nth: 3, Name: "act", Inputs: jsontext.Value(`{"a":[1,"ä"]}`), Outputs: jsontext.Value(`null`),
			Status: 200, Kind: KindOutputRestriction, Rule: "r", Why: "w\x00\"", Side: SideOutput, Review: "R", By: "boss", Verdict: ReviewDenied, Comment: "c", Subject: Subject{"desk", "3f6c"},
		},
	} {
		if read, err := decodeEntry("", e.append(nil)); err != nil || !reflect.DeepEqual(read, e) {
			t.Errorf("got %+v, want %+v, error %v", read, e, err)
		}
		var event string // as versions without CallID read it
		c := reading(e.append(nil))
		for c.tag == tagWhat {
			text(&c, tagWhat, &event)
		}
		if event != e.Event {
			t.Errorf("versions without CallID read the event %q, want %q", event, e.Event)
		}
	}
}

// TestDamagedEncodings wants cut or changed states and entries to be errors, or to be read as
// others, and never to be read beyond their end.
func TestDamagedEncodings(t *testing.T) {
	s := NewState(Ref{Agent: "desk", ID: "e1", User: User{ID: "alice"}}, time.UnixMilli(1_700_000_000_123))
	s.Recent, s.Total = s.IndexOf("get-trip"), 1
	s.Names[0] = CallSummary{Name: "get-trip", Count: 1, Call: 1, Begun: 2, Done: 3}
	s.Reviews = []RequestedReview{{ID: "A", Status: ReviewPending}}
	e := Entry{Event: EntryBegun, At: time.Unix(5, 0), Name: "get-trip", Inputs: jsontext.Value(`{"a":1}`), Outputs: jsontext.Value(`[]`)}
	state, entry := s.append(nil), e.append(nil)
	for _, whole := range [][]byte{state, entry} {
		for i := range whole {
			for _, change := range []byte{0x01, 0x80, 0xff} {
				damaged := slices.Clone(whole)
				damaged[i] ^= change
				_, _ = decodeState("", damaged)
				_, _ = decodeEntry("", damaged)
			}
			_, _ = decodeState("", whole[:i])
			_, _ = decodeEntry("", whole[:i])
		}
	}
	for _, value := range [][]byte{nil, {}, []byte(`{"born":1}`), {encodingVersion + 1}, {encodingVersion, 0}, {encodingVersion, 200, 1}, state[:len(state)-1]} {
		if _, err := decodeState("", value); err == nil {
			t.Errorf("the state %q is read", value)
		}
	}
	if _, err := decodeEntry("", entry[:len(entry)-1]); err == nil {
		t.Error("an entry that was cut is read")
	}
}
