package oagent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/store"
)

// looked counts looks at a store.
type looked struct {
	store.Store
	gets atomic.Int64
}

func (l *looked) Get(ctx context.Context, key string) (store.Record, error) {
	l.gets.Add(1)
	return l.Store.Get(ctx, key)
}

// fillList gives boss so many reviews to decide.
func fillList(t *testing.T, g *Guard, n int, review func(int) *Review) {
	t.Helper()
	var open []ReviewSummary
	for i := range n {
		open = append(open, review(i).summary())
	}
	value, err := json.Marshal(open)
	if err == nil {
		err = g.store.Put(t.Context(), openKey("boss"), store.Change{Value: value, TTL: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReviewList wants the list of a reviewer to be one look at the store, in the
// order of time, without what has expired, and no longer than its limits.
func TestReviewList(t *testing.T) {
	s, err := store.OpenBolt(filepath.Join(t.TempDir(), "records.db"), store.BoltOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &looked{Store: s}
	now := time.Now().UTC().Truncate(time.Millisecond)
	g, err := NewGuard(GuardOptions{Store: l, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	review := func(i int) *Review {
		return &Review{
			ID: fmt.Sprint("R", i), Reviewer: "boss", User: User{ID: fmt.Sprint("u", i%3)},
			AskedAt: now.Add(time.Duration(-i) * time.Minute), ExpiresAt: now.Add(time.Hour),
		}
	}
	fill := func(n int) {
		t.Helper()
		fillList(t, g, n, review)
	}
	fill(maxOpen - 1)
	for i, isNew := range map[int]bool{maxOpen: true, 7: false} {
		if added, err := g.openFor(t.Context(), review(i)); added != isNew || err != nil {
			t.Errorf("review %d: added %t, error %v", i, added, err)
		}
	}
	if _, err := g.openFor(t.Context(), review(maxOpen+1)); !errors.Is(err, errBusyReviewer) {
		t.Errorf("one too many: %v", err)
	}
	reviews, err := g.Reviews(t.Context(), "boss")
	if err != nil || len(reviews) != maxOpen || reviews[0].ID != fmt.Sprint("R", maxOpen) || reviews[maxOpen-1].ID != "R0" || l.gets.Load() != 1 {
		t.Errorf("%d reviews, %d looks, error %v", len(reviews), l.gets.Load(), err)
	}
	if err := g.closeReview(t.Context(), "boss", "R7"); err != nil {
		t.Error(err)
	}
	if reviews, _ = g.Reviews(t.Context(), "boss"); len(reviews) != maxOpen-1 {
		t.Errorf("%d reviews after one was closed", len(reviews))
	}
	now = now.Add(2 * time.Hour)
	if reviews, err = g.Reviews(t.Context(), "boss"); err != nil || len(reviews) != 0 {
		t.Errorf("%d expired reviews, error %v", len(reviews), err)
	}
	if added, err := g.openFor(t.Context(), review(1)); !added || err != nil {
		t.Errorf("after the others have expired: %t, %v", added, err)
	}

	// One user leaves room for the others.
	fill(0)
	of := func(user string, i int) *Review {
		r := review(i)
		r.User = User{ID: user}
		return r
	}
	for i := range maxOpenOfUser {
		if _, err := g.openFor(t.Context(), of("alice", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.openFor(t.Context(), of("alice", maxOpenOfUser)); !errors.Is(err, errBusyReviewer) {
		t.Errorf("one too many of a user: %v", err)
	}
	if added, err := g.openFor(t.Context(), of("bob", maxOpenOfUser)); !added || err != nil {
		t.Errorf("another user: %t, %v", added, err)
	}

	// Long names take more room.
	fill(0)
	long := func(i int) *Review {
		r := review(i)
		r.User.ID += strings.Repeat("u", MaxUserField-len(r.User.ID))
		r.Rule = strings.Repeat("r", 3000)
		return r
	}
	n := 0
	for ; n < maxOpen; n++ {
		if _, err := g.openFor(t.Context(), long(n)); err != nil {
			if !errors.Is(err, errBusyReviewer) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 100 || n > 300 {
		t.Errorf("%d long reviews in a list", n)
	}
}

// TestBusyReviewerStoresNothing wants calls that a reviewer has no room for to leave
// nothing in the store, whatever Engagement they belong to.
func TestBusyReviewerStoresNothing(t *testing.T) {
	s, err := store.OpenBolt(filepath.Join(t.TempDir(), "records.db"), store.BoltOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g, err := NewGuard(GuardOptions{Store: s, ReviewWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	a, err := ReadAgent([]byte("kind: openagentspec:v1/agent\nname: desk\ndescription: Answers.\nintent: You answer.\nowner: team\n"+
		"capabilities: {pay: {input_restriction: {require_review: boss}}}"), "desk.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(i int) *Refusal {
		t.Helper()
		_, err := g.Begin(t.Context(), Call{Binding: Binding{Agent: a, Engagement: fmt.Sprint("e", i)}, Name: "pay"})
		r, ok := AsRefusal(err)
		if !ok || r.Kind != KindReviewPending || r.RetryAfter == 0 {
			t.Fatalf("call %d: %v", i, err)
		}
		return r
	}
	now := time.Now()
	fillList(t, g, maxOpen-1, func(i int) *Review {
		return &Review{ID: fmt.Sprint("R", i), Reviewer: "boss", User: User{ID: fmt.Sprint("u", i%3)}, AskedAt: now, ExpiresAt: now.Add(time.Hour)}
	})
	id := ask(0).Review
	for i := range 10 {
		if r := ask(i + 1); r.Review != "" || !strings.Contains(r.Message, "others to decide first") {
			t.Errorf("call %d: %+v", i, r)
		}
	}
	for prefix, wanted := range map[string]int{reviewPath: 1, engagementPath: 1} {
		if keys, err := s.Keys(t.Context(), prefix, "", 100); err != nil || len(keys) != wanted {
			t.Errorf("%d records %s, error %v", len(keys), prefix, err)
		}
	}
	if _, err := g.Decide(t.Context(), id, "boss", true, ""); err != nil {
		t.Fatal(err)
	}
	if r := ask(1); r.Review == "" {
		t.Errorf("there is room again: %+v", r)
	}
}
