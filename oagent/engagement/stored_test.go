package engagement

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools/logonly"
)

func TestStored_engagement_is_read(t *testing.T) {
	for sample, callID := range map[string]string{"engagements": "", "engagements_call_ids": "1k1bprgcjeq0ab6c"} {
		t.Run(sample, func(t *testing.T) { readStored(t, sample, callID) })
	}
}

// readStored reads a sample. The entries of a new one have the id of a call.
func readStored(t *testing.T, sample, callID string) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	of := Ref{Agent: "desk", ID: "e-1", User: User{ID: "ada", Email: "ada@example.com"}}
	records := func(st store.Store) *Records {
		return NewRecords(Options{Store: st, TTL: time.Hour, MaxPayload: 1 << 10, MaxRecord: 1 << 20, CacheSize: 1 << 20, Now: func() time.Time { return now }})
	}
	begin := func(at time.Time) *State { return NewState(of, at) }
	samples.Store(t, sample, func(st store.Store) error {
		s := records(st)
		err := s.Change(t.Context(), of.Key(), begin, func(tx *Tx) error {
			tx.CallID = callID
			tx.Begin("get_trip", jsontext.Value(`{"id":7}`), "", logonly.Would{}, true)
			return nil
		})
		if err != nil {
			return err
		}
		return s.Change(t.Context(), of.Key(), begin, func(tx *Tx) error {
			tx.CallID = callID
			tx.Finish(Entry{Event: EntryFinished, Call: 1, Nth: 1, Name: "get_trip", Status: 200}, jsontext.Value(`{"seats":[1,"a"]}`))
			tx.Log(Entry{Event: EntryRefused, Name: "cancel_trip", Kind: KindNotAllowed, Rule: "/capabilities", Why: "not \"allowed\""})
			tx.End(KindGuardrail, "/guardrails/input", "too many")
			return nil
		})
	}, func(st store.Store) (any, error) {
		s := records(st)
		summary, err := s.Get(t.Context(), of.Key())
		if err != nil {
			return nil, err
		}
		entries, err := s.Log(t.Context(), of.Key(), 0, 100)
		return map[string]any{"summary": summary, "entries": entries}, err
	})
}
