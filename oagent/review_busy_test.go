package oagent_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// TestBusy_reviewer_stores_nothing wants calls that a reviewer has no room for to leave
// nothing in the store, whatever Engagement they belong to.
func TestBusy_reviewer_stores_nothing(t *testing.T) {
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g, err := oagent.NewGuard(oagent.GuardOptions{Store: s, ReviewWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	a, err := oagent.ReadAgent([]byte("kind: openagentspec:v1/agent\nname: desk\ndescription: Answers.\nintent: You answer.\nowner: team\n"+
		"capabilities: {pay: {input_restriction: {require_review: boss}}}"), "desk.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(i int) *engagement.Refusal {
		t.Helper()
		_, err := g.Begin(t.Context(), oagent.Call{Binding: oagent.Binding{Agent: a, Engagement: fmt.Sprint("e", i)}, Name: "pay"})
		r, ok := engagement.AsRefusal(err)
		if !ok || r.Kind != engagement.KindReviewPending || r.RetryAfter == 0 {
			t.Fatalf("call %d: %v", i, err)
		}
		return r
	}
	now := time.Now()
	fill := make([]review.Summary, review.MaxOpen-1)
	for i := range fill {
		fill[i] = review.Summary{ID: fmt.Sprint("R", i), Reviewer: "boss", User: engagement.User{ID: fmt.Sprint("u", i%3)}, AskedAt: now, ExpiresAt: now.Add(time.Hour)}
	}
	value, err := json.Marshal(fill)
	if err == nil {
		err = s.Put(t.Context(), "reviewer/"+engagement.Digest("boss"), store.Change{Value: value, TTL: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
	id := ask(0).Review
	for i := range 10 {
		if r := ask(i + 1); r.Review != "" || !testkit.ContainsAll(r.Message, "reviewer limit") {
			t.Errorf("call %d: %+v", i, r)
		}
	}
	for prefix, wanted := range map[string]int{"review/": 1, "engagement/": 1} {
		if keys, err := s.Keys(t.Context(), prefix, "", 100); err != nil || len(keys) != wanted {
			t.Errorf("%d records %s, error %v", len(keys), prefix, err)
		}
	}
	if _, err := g.Reviews.Decide(t.Context(), id, "boss", true, ""); err != nil {
		t.Fatal(err)
	}
	if r := ask(1); r.Review == "" {
		t.Errorf("there is room again: %+v", r)
	}
}
