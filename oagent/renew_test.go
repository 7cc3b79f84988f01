package oagent_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/storetest"
)

const repeating = `
capabilities:
  look: {}
  count:
    input_restriction: {assertion: history._total < 3}
  pay:
    output_restriction: {require_review: boss}
lifespan: {short_circuit: 2}
`

// onStores runs a test on each store.
func onStores(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Run("embedded", func(t *testing.T) { test(t, openBolt(t)) })
	storetest.OnShared(t, func(t *testing.T, server *storetest.SharedServer) { test(t, server.Open(t)) })
}

// endByRepetition ends the Engagement of the agent by short_circuit.
func endByRepetition(t *testing.T, g *oagent.Guard, a *oagent.Agent) {
	t.Helper()
	want(t, "the first", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
	want(t, "its repetition", outcomeOf(t, g, call(a, "look", `{}`), `{}`), engagement.KindShortCircuit)
	want(t, "after the end", outcomeOf(t, g, call(a, "count", `{}`), `{}`), engagement.KindEnded)
}

func TestRenew_begins_an_ended_Engagement_anew_and_keeps_its_record(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		a := agent(t, repeating)
		g := newGuard(t, oagent.GuardOptions{Store: s})
		b := binding(a)
		endByRepetition(t, g, a)
		renewed, err := g.Renew(t.Context(), b.Key(), engagement.Renewal{By: "alice"})
		if err != nil || renewed.Ended != nil {
			t.Fatalf("got the end %+v and the error %v, want neither", renewed.Ended, err)
		}
		got := [...]any{renewed.Total, renewed.Renewals, renewed.First, renewed.User.ID, renewed.ID}
		if want := [...]any{int64(0), int64(1), int64(5), "alice", "e1"}; got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
		for _, guard := range []*oagent.Guard{g, newGuard(t, oagent.GuardOptions{Store: s})} { // as well after a restart
			want(t, "a call", outcomeOf(t, guard, call(a, "count", `{"n":1}`), `{}`), "")
			again, err := guard.Engagements.Get(t.Context(), b.Key())
			if err != nil || again.Ended != nil || again.Recent != "count" {
				t.Errorf("%+v, %v", again, err)
			}
			want(t, "another", outcomeOf(t, guard, call(a, "look", `{}`), `{}`), "")
			if _, err := guard.Renew(t.Context(), b.Key(), engagement.Renewal{By: "eve", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		entries := audit(t, g, b.Key())
		wanted := "begun finished refused:short_circuit refused:ended renewed:short_circuit " +
			"begun finished begun finished renewed begun finished begun finished renewed"
		if got := whats(entries); got != wanted {
			t.Errorf("got  %s\nwant %s", got, wanted)
		}
		if e := entries[4]; e.By != "alice" || e.Rule != "lifespan.short_circuit" {
			t.Errorf("%+v", e)
		}
	})
}

func TestRenew_is_refused_while_the_Engagement_goes_on(t *testing.T) {
	a := agent(t, repeating)
	g := newGuard(t, oagent.GuardOptions{})
	b := binding(a)
	if _, err := g.Renew(t.Context(), b.Key(), engagement.Renewal{By: "alice"}); !errors.Is(err, engagement.ErrNotFound) {
		t.Errorf("before it began: %v", err)
	}
	want(t, "a call", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
	if _, err := g.Renew(t.Context(), b.Key(), engagement.Renewal{By: "alice"}); !errors.Is(err, engagement.ErrActive) {
		t.Errorf("while it goes on: %v", err)
	}
	want(t, "the repetition still counts", outcomeOf(t, g, call(a, "look", `{}`), `{}`), engagement.KindShortCircuit)
	for range 2 { // the second time nothing has happened in it
		if e, err := g.Renew(t.Context(), b.Key(), engagement.Renewal{By: "alice"}); err != nil || e.Renewals != 1 {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

func TestRenew_forgets_what_expressions_saw(t *testing.T) {
	a := agent(t, `
capabilities:
  put: {}
  list:
    input_restriction:
      assertion: size(history.put) == 1 && history.put[0].inputs.n == 2 && recent.put.outputs.n == 2
`)
	s := openBolt(t)
	g := newGuard(t, oagent.GuardOptions{Store: s})
	b := binding(a)
	want(t, "put", outcomeOf(t, g, call(a, "put", `{"n":1}`), `{"n":1}`), "")
	want(t, "list", outcomeOf(t, g, call(a, "list", `{}`), `{}`), engagement.KindInputRestriction)
	if _, err := g.Renew(t.Context(), b.Key(), engagement.Renewal{By: "eve", Force: true}); err != nil {
		t.Fatal(err)
	}
	want(t, "put anew", outcomeOf(t, g, call(a, "put", `{"n":2}`), `{"n":2}`), "")
	want(t, "list anew", outcomeOf(t, g, call(a, "list", `{}`), `{}`), "")
	want(t, "list elsewhere", outcomeOf(t, newGuard(t, oagent.GuardOptions{Store: s}), call(a, "list", `{}`), `{}`), "")
}

func TestRenew_withholds_the_result_of_a_running_call(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		a := agent(t, repeating)
		g, other := newGuard(t, oagent.GuardOptions{Store: s}), newGuard(t, oagent.GuardOptions{Store: s})
		b := binding(a)
		running, err := g.Begin(t.Context(), call(a, "count", `{"n":1}`))
		if err != nil {
			t.Fatal(err)
		}
		aborted, err := g.Begin(t.Context(), call(a, "look", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Renew(t.Context(), b.Key(), engagement.Renewal{By: "eve", Force: true}); err != nil {
			t.Fatal(err)
		}
		// The call of the same number and name is another one.
		fresh, err := g.Begin(t.Context(), call(a, "count", `{"n":2}`))
		if err != nil || fresh.Number != 1 {
			t.Fatalf("%+v, %v", fresh, err)
		}
		r := refusal(t, running.Finish(t.Context(), jsontext.Value(`{"old":true}`), 200))
		if r.Kind != engagement.KindEnded || !r.Made {
			t.Errorf("%+v", r)
		}
		aborted.Abort(t.Context(), "it broke off")
		want(t, "the new one", kindOf(t, fresh.Finish(t.Context(), jsontext.Value(`{"old":false}`), 200)), "")
		if got := whats(audit(t, g, b.Key())); got != "begun begun renewed begun late:ended late finished" {
			t.Error(got)
		}
	})
}

func TestRenew_closes_the_reviews_of_the_Engagement(t *testing.T) {
	a := agent(t, repeating)
	g := newGuard(t, oagent.GuardOptions{})
	b := binding(a)
	want(t, "held", outcomeOf(t, g, call(a, "pay", `{"n":1}`), `{"ok":true}`), engagement.KindReviewPending)
	review := pending(t, g)
	if _, err := g.Renew(t.Context(), b.Key(), engagement.Renewal{By: "eve", Force: true}); err != nil {
		t.Fatal(err)
	}
	if open, err := g.Reviews.List(t.Context(), "boss"); err != nil || len(open) != 0 {
		t.Errorf("%d reviews, %v", len(open), err)
	}
	if r, err := g.Reviews.Get(t.Context(), review.ID, "boss"); err != nil || r.Status != engagement.ReviewDenied || r.Outputs != nil {
		t.Errorf("%+v, %v", r, err)
	}
	ticket, err := g.Begin(t.Context(), call(a, "pay", `{"n":1}`))
	if err != nil || ticket.Replayed != nil {
		t.Errorf("%+v, %v", ticket, err)
	}
}

func TestEngagement_lives_from_its_last_call_whatever_is_refused(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	kept := &keeping{Store: openBolt(t)}
	g := newGuard(t, oagent.GuardOptions{Store: kept, TTL: time.Hour, Now: clock})
	a := agent(t, repeating)
	life := func() time.Duration { return kept.change.Load().TTL.Round(time.Second) }

	want(t, "a call", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
	now = now.Add(10 * time.Minute)
	want(t, "another", outcomeOf(t, g, call(a, "count", `{}`), `{}`), "")
	if life() != time.Hour {
		t.Errorf("a call leaves it a life of %s", life())
	}
	now = now.Add(10 * time.Minute)
	want(t, "a refusal", outcomeOf(t, g, call(a, "delete", `{}`), `{}`), engagement.KindNotAllowed)
	if life() != 50*time.Minute {
		t.Errorf("a refusal leaves it a life of %s", life())
	}
	want(t, "the end", outcomeOf(t, g, call(a, "count", `{}`), `{}`), engagement.KindShortCircuit)
	now = now.Add(40 * time.Minute)
	want(t, "after the end", outcomeOf(t, g, call(a, "count", `{}`), `{}`), engagement.KindEnded)
	if life() != 10*time.Minute {
		t.Errorf("a refusal after the end leaves it a life of %s", life())
	}
}

func TestReview_of_an_output_gives_one_result_to_parallel_repetitions(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		a := agent(t, held)
		// The clock stands still, so that all calls are parallel, however slow the machine is.
		now := time.Now()
		options := oagent.GuardOptions{Store: s, Now: func() time.Time { return now }}
		nodes := []*oagent.Guard{newGuard(t, options), newGuard(t, options)}
		pay := call(a, "pay", `{"amount":5}`)
		want(t, "held", outcomeOf(t, nodes[0], pay, `{"ok":true}`), engagement.KindReviewPending)
		decide(t, nodes[0], pending(t, nodes[0]).ID, true)
		var again, given atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				ticket, err := nodes[i%2].Begin(t.Context(), pay)
				switch {
				case err != nil:
					t.Error(err)
				case ticket.Replayed == nil:
					again.Add(1)
				case string(ticket.Replayed.Outputs) == `{"ok":true}` && ticket.Replayed.Status == 200:
					given.Add(1)
				}
			})
		}
		all.Wait()
		if again.Load() != 0 || given.Load() != 20 {
			t.Errorf("%d called again, %d got the result", again.Load(), given.Load())
		}
	})
}
