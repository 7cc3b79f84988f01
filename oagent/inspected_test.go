package oagent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
)

const inspectedSecret = "0123456789abcdef0123456789abcdef"

// inspected returns a call whose inputs have a value for which an inspector requires a review of boss.
func inspected(a *oagent.Agent, originals *review.Originals, value string) oagent.Call {
	c := call(a, "pay", `{"amount":5,"card":"`+value+`"}`)
	c.Originals = originals
	c.Inspected = &oagent.Inspected{
		Inputs:   jsontext.Value(`{"amount":5,"card":"[card]"}`),
		Required: []oagent.RequiredReview{{Reviewer: "boss", Rule: "inspect.pii", Inspector: "pii", Found: []string{"card"}}},
	}
	return c
}

func newOriginals() *review.Originals {
	originals := review.NewOriginals([]string{inspectedSecret})
	originals.Keep = true
	return originals
}

// stored returns the records of a store as one text, and how many originals there are.
func stored(t *testing.T, s store.Store) (text string, originals int) {
	t.Helper()
	keys, err := s.Keys(t.Context(), "", "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		record, err := s.Get(t.Context(), key)
		if err != nil {
			continue
		}
		text += key + string(record.Value)
		if strings.HasPrefix(key, "original/") {
			originals++
		}
	}
	return text, originals
}

// TestInspected_originals_on_two_nodes reads the original on another node with the same secret, and not with another secret. The
// decision deletes it.
func TestInspected_originals_on_two_nodes(t *testing.T) {
	const card = "4111 1111 1111 1111"
	a, s := agent(t, "\ncapabilities:\n  pay: {}\n"), openBolt(t)
	one, two := newGuard(t, oagent.GuardOptions{Store: s}), newGuard(t, oagent.GuardOptions{Store: s})
	pay := inspected(a, newOriginals(), card)
	want(t, "the first call", outcomeOf(t, one, pay, `{}`), engagement.KindReviewPending)
	request := pending(t, two)
	by := engagement.Decider{User: "boss", Entry: "boss"}
	inputs, err := two.Reviews.Original(t.Context(), request, by, newOriginals())
	if err != nil || string(inputs) != string(pay.Inputs) {
		t.Errorf("the other node reads %s, %v", inputs, err)
	}
	rotated := review.NewOriginals([]string{strings.Repeat("n", 32), inspectedSecret})
	if inputs, err = two.Reviews.Original(t.Context(), request, by, rotated); err != nil || string(inputs) != string(pay.Inputs) {
		t.Errorf("after a rotation: %s, %v", inputs, err)
	}
	if inputs, err = two.Reviews.Original(t.Context(), request, by, review.NewOriginals([]string{strings.Repeat("n", 32)})); err == nil {
		t.Errorf("with another secret: %s", inputs)
	}
	text, n := stored(t, s)
	if strings.Contains(text, "4111") || n != 1 {
		t.Errorf("%d originals in the store %s", n, text)
	}
	if strings.Contains(text, engagement.Digest(string(pay.Inputs))) || !strings.Contains(text, newOriginals().Digest(pay.Inputs)) {
		t.Error("the store has a digest with which the inputs can be guessed")
	}
	decide(t, two, request.ID, true)
	if _, n = stored(t, s); n != 0 {
		t.Errorf("after the decision there are %d originals", n)
	}
	if _, err := one.Reviews.Original(t.Context(), request, by, newOriginals()); !errors.Is(err, review.ErrNotFound) {
		t.Errorf("after the decision: %v", err)
	}
	want(t, "other inputs", outcomeOf(t, one, inspected(a, newOriginals(), "5500 0000 0000 0004"), `{}`), engagement.KindReviewPending)
	want(t, "the approved call", outcomeOf(t, one, pay, `{}`), "")
	for _, e := range audit(t, one, pay.Key()) {
		if strings.Contains(string(e.Inputs), "4111") {
			t.Errorf("the record has %s", e.Inputs)
		}
	}
}

// TestInspected_originals_do_not_stay deletes originals when their Engagement is renewed, when the data of the user is erased, and
// when the review expires without anyone who deletes them.
func TestInspected_originals_do_not_stay(t *testing.T) {
	a := agent(t, "\ncapabilities:\n  pay: {}\n")
	reviewTTL := map[string]time.Duration{"expiry": time.Second} // the default for the others
	for name, end := range map[string]func(g *oagent.Guard, s store.Store, c *oagent.Call){
		"renewal": func(g *oagent.Guard, _ store.Store, c *oagent.Call) {
			if _, err := g.Renew(t.Context(), c.Key(), engagement.Renewal{Force: true}); err != nil {
				t.Error(err)
			}
		},
		"erasure": func(_ *oagent.Guard, s store.Store, c *oagent.Call) {
			if _, err := (review.UserData{}).Erase(t.Context(), s, c.User.ID); err != nil {
				t.Error(err)
			}
		},
		"expiry": func(_ *oagent.Guard, s store.Store, _ *oagent.Call) {
			testkit.Eventually(t, "the original expires", func() bool {
				_, n := stored(t, s)
				return n == 0
			})
		},
	} {
		s := openBolt(t)
		g := newGuard(t, oagent.GuardOptions{Store: s, ReviewTTL: reviewTTL[name]})
		pay := inspected(a, newOriginals(), "4111 1111 1111 1111")
		want(t, name, outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
		if _, n := stored(t, s); n != 1 && name != "expiry" { // it may have expired
			t.Errorf("%s: before, there are %d originals", name, n)
		}
		end(g, s, &pay)
		if _, n := stored(t, s); n != 0 {
			t.Errorf("%s: there are %d originals", name, n)
		}
	}
}

// TestInspected_without_readers stores no originals, and reviews the call nevertheless.
func TestInspected_without_readers(t *testing.T) {
	a, s := agent(t, "\ncapabilities:\n  pay: {}\n"), openBolt(t)
	g := newGuard(t, oagent.GuardOptions{Store: s})
	pay := inspected(a, review.NewOriginals([]string{inspectedSecret}), "4111 1111 1111 1111")
	want(t, "before", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	if _, n := stored(t, s); n != 0 || pending(t, g).HasOriginal {
		t.Errorf("there are %d originals", n)
	}
	decide(t, g, pending(t, g).ID, true)
	want(t, "after", outcomeOf(t, g, pay, `{}`), "")
}

// TestInspected_held_results_are_found although an inspector requires a review since the call, no longer requires one, or the secret
// is another one: the call is not made again.
func TestInspected_held_results_are_found(t *testing.T) {
	a := agent(t, "\ncapabilities:\n  pay: {output_restriction: {require_review: boss}}\n")
	const card = "4111 1111 1111 1111"
	with := inspected(a, newOriginals(), card)
	without, rotated := with, with
	without.Inspected = nil
	rotated.Originals = review.NewOriginals([]string{strings.Repeat("n", 32), inspectedSecret})
	for name, calls := range map[string][2]oagent.Call{
		"required since":     {without, with},
		"no longer required": {with, without},
		"another secret":     {with, rotated},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, oagent.GuardOptions{Store: openBolt(t)})
			want(t, "the call", outcomeOf(t, g, calls[0], `{"paid":true}`), engagement.KindReviewPending)
			if calls[0].Inspected != nil {
				decide(t, g, pending(t, g).ID, true)
				want(t, "the call after the review of its inputs", outcomeOf(t, g, calls[0], `{"paid":true}`), engagement.KindReviewPending)
			}
			held := pending(t, g)
			if held.Side != engagement.SideOutput {
				t.Fatalf("the review is %+v", held)
			}
			decide(t, g, held.ID, true)
			ticket, err := g.Begin(t.Context(), calls[1])
			if err != nil || ticket.Replayed == nil || string(ticket.Replayed.Outputs) != `{"paid":true}` {
				t.Errorf("the repeated call: %+v, %v", ticket, err)
			}
		})
	}
}

// undeletable is a store that does not delete originals while fails is set.
type undeletable struct {
	store.Store
	fails bool
}

func (u *undeletable) Delete(ctx context.Context, keys ...string) error {
	if u.fails && slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, "original/") }) {
		return errors.New("unreachable")
	}
	return u.Store.Delete(ctx, keys...)
}

// TestInspected_originals_are_deleted_later if the store fails at the decision or the renewal.
func TestInspected_originals_are_deleted_later(t *testing.T) {
	a := agent(t, "\ncapabilities:\n  pay: {}\n")
	for name, end := range map[string]func(g *oagent.Guard, id string, pay oagent.Call) error{
		"a decision of a call that was made": func(g *oagent.Guard, id string, pay oagent.Call) error {
			_, err := g.Reviews.Decide(t.Context(), id, "boss", true, "")
			if err != nil && !errors.Is(err, review.ErrNotFound) {
				want(t, "the approved call", outcomeOf(t, g, pay, `{}`), "")
			}
			return err
		},
		"the end of a run": func(g *oagent.Guard, id string, _ oagent.Call) error {
			return g.Reviews.Abandon(t.Context(), id, "ended")
		},
	} {
		s := &undeletable{Store: openBolt(t), fails: true}
		g := newGuard(t, oagent.GuardOptions{Store: s})
		pay := inspected(a, newOriginals(), "4111 1111 1111 1111")
		want(t, name, outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
		id := pending(t, g).ID
		if err := end(g, id, pay); err == nil {
			t.Errorf("%s: no error", name)
		}
		s.fails = false
		if err := end(g, id, pay); err != nil && !errors.Is(err, review.ErrNotFound) {
			t.Errorf("%s, repeated: %v", name, err)
		}
		if _, n := stored(t, s); n != 0 {
			t.Errorf("%s: there are %d originals", name, n)
		}
	}
}
