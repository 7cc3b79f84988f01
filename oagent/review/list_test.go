package review

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

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
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
func fillList(t *testing.T, s store.Store, n int, review func(int) *Review) {
	t.Helper()
	var open []Summary
	for i := range n {
		open = append(open, review(i).Summary)
	}
	value, err := json.Marshal(open)
	if err == nil {
		err = s.Put(t.Context(), openKey("boss"), store.Change{Value: value, TTL: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReviewList wants the list of a reviewer to be one look at the store, in the
// order of time, without what has expired, and no longer than its limits.
func TestReviewList(t *testing.T) {
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &looked{Store: s}
	now := time.Now().UTC().Truncate(time.Millisecond)
	q := NewQueue(Options{Store: l, TTL: time.Hour, Now: func() time.Time { return now }})
	review := func(i int) *Review {
		return &Review{Summary: Summary{
			ID: fmt.Sprint("R", i), Reviewer: "boss", User: engagement.User{ID: fmt.Sprint("u", i)},
			AskedAt: now.Add(time.Duration(-i) * time.Minute), ExpiresAt: now.Add(time.Hour),
		}}
	}
	fill := func(n int) {
		t.Helper()
		fillList(t, l, n, review)
	}
	fill(MaxOpen - 1)
	for i, isNew := range map[int]bool{MaxOpen: true, 7: false} {
		if added, err := q.lists.add(t.Context(), review(i)); added != isNew || err != nil {
			t.Errorf("review %d: added %t, error %v", i, added, err)
		}
	}
	if _, err := q.lists.add(t.Context(), review(MaxOpen+1)); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
	reviews, err := q.List(t.Context(), "boss")
	if err != nil || len(reviews) != MaxOpen {
		t.Fatalf("got %d reviews, want %d; error %v", len(reviews), MaxOpen, err)
	}
	if got, want := [...]string{reviews[0].ID, reviews[MaxOpen-1].ID}, [...]string{fmt.Sprint("R", MaxOpen), "R0"}; got != want {
		t.Errorf("the first and the last review: got %q, want %q", got, want)
	}
	if n := l.gets.Load(); n != 1 {
		t.Errorf("got %d looks, want 1", n)
	}
	if err := q.lists.remove(t.Context(), "boss", "R7"); err != nil {
		t.Error(err)
	}
	if reviews, _ = q.List(t.Context(), "boss"); len(reviews) != MaxOpen-1 {
		t.Errorf("%d reviews after one was closed", len(reviews))
	}
	now = now.Add(2 * time.Hour)
	if reviews, err = q.List(t.Context(), "boss"); err != nil || len(reviews) != 0 {
		t.Errorf("%d expired reviews, error %v", len(reviews), err)
	}
	if added, err := q.lists.add(t.Context(), review(1)); !added || err != nil {
		t.Errorf("after the others have expired: %t, %v", added, err)
	}

	// One user leaves room for the others.
	fill(0)
	of := func(user string, i int) *Review {
		r := review(i)
		r.User = engagement.User{ID: user}
		return r
	}
	const share = MaxOpen * 3 / 4
	for i := range share {
		if _, err := q.lists.add(t.Context(), of("alice", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.lists.add(t.Context(), of("alice", share)); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many of a user: %v", err)
	}
	if added, err := q.lists.add(t.Context(), of("bob", share)); !added || err != nil {
		t.Errorf("another user: %t, %v", added, err)
	}

	// Long names take more room.
	fill(0)
	long := func(i int) *Review {
		r := review(i)
		r.User.ID += strings.Repeat("u", engagement.MaxUserField-len(r.User.ID))
		r.Rule = strings.Repeat("r", 3000)
		return r
	}
	n := 0
	for ; n < MaxOpen; n++ {
		if _, err := q.lists.add(t.Context(), long(n)); err != nil {
			if !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 100 || n > 300 {
		t.Errorf("%d long reviews in a list", n)
	}
}

// TestQueue_lists_decisions keeps the latest decisions of each reviewer, and lists those of all.
func TestQueue_lists_decisions(t *testing.T) {
	s, err := embedded.Open(t.TempDir()+"/store.db", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	q := NewQueue(Options{Store: s, TTL: time.Hour, Now: func() time.Time { return now }})
	decide := func(reviewer string, i, size int) {
		q.decisions.add(t.Context(), &Review{
			Summary: Summary{ID: fmt.Sprint(reviewer, i), Reviewer: reviewer}, Status: engagement.ReviewDenied, Comment: strings.Repeat("c", size),
			DecidedAt: now.Add(time.Duration(i) * time.Second), DecidedBy: engagement.Decider{User: reviewer},
		})
	}
	for i := range maxDecided + 5 {
		decide("boss", i, 10)
	}
	decide("chief", 200, 10)
	own, err := q.DecidedBy(t.Context(), "boss")
	if err != nil || len(own) != maxDecided || own[0].ID != fmt.Sprint("boss", maxDecided+4) {
		t.Errorf("%d decisions of the reviewer, error %v", len(own), err)
	}
	_, all, err := q.All(t.Context())
	if err != nil || len(all) != maxDecided+1 || all[0].ID != "chief200" {
		t.Errorf("%d decisions of all, error %v", len(all), err)
	}
	for i := range 20 { // more than a list can have
		decide("boss", 300+i, 50_000)
	}
	if own, err = q.DecidedBy(t.Context(), "boss"); err != nil || len(own) == 0 || own[0].ID != "boss319" {
		t.Errorf("after long comments: %d decisions, error %v", len(own), err)
	}
	now = now.Add(3 * time.Hour)
	if own, err = q.DecidedBy(t.Context(), "boss"); err != nil || len(own) != 0 {
		t.Errorf("%d expired decisions, error %v", len(own), err)
	}
}

// lifetimes is a store that keeps the lifetime of each record.
type lifetimes struct {
	store.Store
	of map[string]time.Duration
}

func (l *lifetimes) Put(ctx context.Context, key string, c store.Change) error {
	l.of[key] = c.TTL
	return l.Store.Put(ctx, key, c)
}

// TestReview_original_of_a_recreated_review expires with the review, which was requested earlier.
func TestReview_original_of_a_recreated_review(t *testing.T) {
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now, l := time.Now().UTC(), &lifetimes{s, make(map[string]time.Duration)}
	r := &Review{
		Summary:  Summary{ID: "R1", AskedAt: now.Add(-50 * time.Minute), ExpiresAt: now.Add(10 * time.Minute)},
		Original: []byte(`{}`), Originals: NewOriginals([]string{"0123456789abcdef"}),
	}
	if err := NewQueue(Options{Store: l, TTL: time.Hour, Now: func() time.Time { return now }}).put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := l.of["original/R1"]; got != 10*time.Minute {
		t.Errorf("the original expires after %s", got)
	}
}
