package review

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

func TestStored_review_is_read(t *testing.T) {
	const id = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	samples.Store(t, "reviews", func(st store.Store) error {
		r := &Review{
			Status: engagement.ReviewApproved, Engagement: "e-1", Inputs: jsontext.Value(`{"sum":7}`), DecidedAt: at, Comment: "fine",
			DecidedBy: engagement.Decider{User: "boss"}, Inspector: "pii", Found: []string{"email"},
		}
		r.ID, r.Reviewer, r.Agent, r.Name, r.User.ID, r.Side = id, "boss", "desk", "pay", "ada", engagement.SideInput
		return NewQueue(Options{Store: st, TTL: time.Hour, Now: func() time.Time { return at }}).put(t.Context(), r)
	}, func(st store.Store) (any, error) { return NewQueue(Options{Store: st}).read(t.Context(), id) })
}
