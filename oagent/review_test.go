package oagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
)

const reviewed = `
capabilities:
  pay:
    input_restriction:
      require_review: boss
      assertion: recent.pay.inputs.amount < 1000
  other: {}
`

const held = `
capabilities:
  pay:
    output_restriction:
      require_review: boss
      assertion: recent.pay.outputs.ok
  look:
    input_restriction:
      assertion: recent.pay.outputs.ok
`

// pending returns the only review that the reviewer has to decide.
func pending(t testing.TB, g *oagent.Guard) *review.Review {
	t.Helper()
	reviews, err := g.Reviews.List(t.Context(), "boss")
	if err != nil || len(reviews) != 1 {
		t.Fatalf("%d reviews, error %v", len(reviews), err)
	}
	request, err := g.Reviews.Get(t.Context(), reviews[0].ID, "boss")
	if err != nil {
		t.Fatal(err)
	}
	return request
}

func decide(t testing.TB, g *oagent.Guard, id string, approve bool) {
	t.Helper()
	if _, err := g.Reviews.Decide(t.Context(), id, "boss", approve, "as I said"); err != nil {
		t.Fatal(err)
	}
}

func refusal(t testing.TB, err error) *engagement.Refusal {
	t.Helper()
	r, ok := engagement.AsRefusal(err)
	if !ok {
		t.Fatalf("no refusal: %v", err)
	}
	return r
}

// TestReview_of_inputs is require_review before a call.
func TestReview_of_inputs(t *testing.T) {
	a := agent(t, reviewed)
	s := openBolt(t)
	var events []string
	g := newGuard(t, oagent.GuardOptions{Store: s, Notify: func(e oagent.Event) { events = append(events, string(e.Kind)+" "+e.Review.Status) }})
	pay := call(a, "pay", `{"amount":5,"to":"x"}`)

	_, err := g.Begin(t.Context(), pay)
	r := refusal(t, err)
	request := pending(t, g)
	got := [...]any{r.Kind, r.Review, r.Status(), r.Made, r.Rule}
	if want := [...]any{engagement.KindReviewPending, request.ID, 403, false, "capabilities.pay.input_restriction.require_review"}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if r.RetryAfter <= 0 || !strings.Contains(r.Message, request.ID) {
		t.Errorf("got %q with a retry after %s, want a later retry, with the id %s", r.Message, r.RetryAfter, request.ID)
	}
	about := [...]any{request.Agent, request.User, request.Name, string(request.Inputs), request.Engagement, request.Side}
	if want := [...]any{"desk", alice, "pay", string(pay.Inputs), "e1", engagement.SideInput}; about != want {
		t.Errorf("got %v, want %v", about, want)
	}
	want(t, "again", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	if again := pending(t, g); again.ID != request.ID {
		t.Error("an identical call is a new review")
	}
	want(t, "an assertion comes first", outcomeOf(t, g, call(a, "pay", `{"amount":1000}`), `{}`), engagement.KindInputRestriction)
	pending(t, g)

	// Only the named reviewer sees it and decides.
	for _, other := range []string{"", "alice", "boss ", "Boss"} {
		_, decideErr := g.Reviews.Decide(t.Context(), request.ID, other, true, "")
		_, readErr := g.Reviews.Get(t.Context(), request.ID, other)
		reviews, listErr := g.Reviews.List(t.Context(), other)
		if !errors.Is(decideErr, review.ErrNotFound) || !errors.Is(readErr, review.ErrNotFound) {
			t.Errorf("%q: got the errors %v and %v, want %v", other, decideErr, readErr, review.ErrNotFound)
		}
		if len(reviews) != 0 || listErr != nil {
			t.Errorf("%q: got %d reviews and the error %v, want none", other, len(reviews), listErr)
		}
	}
	decide(t, g, request.ID, true)
	decide(t, g, request.ID, true)
	if _, err := g.Reviews.Decide(t.Context(), request.ID, "boss", false, ""); !errors.Is(err, review.ErrDecided) {
		t.Errorf("another verdict: %v", err)
	}
	if reviews, err := g.Reviews.List(t.Context(), "boss"); err != nil || len(reviews) != 0 {
		t.Errorf("%d reviews, error %v", len(reviews), err)
	}

	// It is for exactly this call.
	bob, elsewhere, otherAgent := pay, pay, pay
	bob.User.ID, elsewhere.Engagement = "bob", "e2"
	another := *a
	another.Name = "another"
	otherAgent.Agent = &another
	for name, c := range map[string]oagent.Call{
		"a user": bob, "an Engagement": elsewhere, "an agent": otherAgent,
		"inputs":   call(a, "pay", `{"amount":6,"to":"x"}`),
		"a number": call(a, "pay", `{"amount":5.0,"to":"x"}`),
		"more":     call(a, "pay", `{"amount":5,"to":"x","y":null}`),
	} {
		want(t, name, outcomeOf(t, g, c, `{}`), engagement.KindReviewPending)
	}
	// In another order, with other space and escapes they are the same inputs.
	ticket, err := g.Begin(t.Context(), call(a, "pay", ` {"to" : "\u0078", "amount":5}`))
	if err != nil {
		t.Fatal(err)
	}
	if ticket.Review != request.ID || ticket.Number != 1 || ticket.Replayed != nil {
		t.Fatalf("got call %d by the review %s, want 1 by %s; got the stored result %+v, want none", ticket.Number, ticket.Review, request.ID, ticket.Replayed)
	}
	want(t, "an approval is for one call", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	if got := strings.Join(events[:3], ", "); got != "review_asked pending, review_decided approved, review_asked pending" {
		t.Error(got)
	}
}

// TestReview_passes_once wants of many identical calls one to pass.
func TestReview_passes_once(t *testing.T) {
	stores(t, func(t *testing.T, nodes []store.Store) {
		a := agent(t, reviewed)
		var guards []*oagent.Guard
		for _, s := range nodes {
			guards = append(guards, newGuard(t, oagent.GuardOptions{Store: s}))
		}
		pay := call(a, "pay", `{"amount":5}`)
		want(t, "asked", outcomeOf(t, guards[0], pay, `{}`), engagement.KindReviewPending)
		decide(t, guards[0], pending(t, guards[0]).ID, true)
		var passed atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if _, err := guards[i%len(guards)].Begin(t.Context(), pay); err == nil {
					passed.Add(1)
				} else if kind := kindOf(t, err); kind != engagement.KindReviewPending {
					t.Errorf("refused as %s: %v", kind, errors.Unwrap(err))
				}
			})
		}
		all.Wait()
		if passed.Load() != 1 {
			t.Errorf("%d passed", passed.Load())
		}
		pending(t, guards[0]) // and all others wait for the same review
	})
}

// TestReviewWait wants a call that waits to go on as soon as it is decided, on
// whichever node.
func TestReviewWait(t *testing.T) {
	for _, approve := range []bool{true, false} {
		for _, document := range []string{reviewed, held} {
			t.Run(fmt.Sprint(approve, strings.Contains(document, "input_restriction:\n      require")), func(t *testing.T) {
				stores(t, func(t *testing.T, nodes []store.Store) {
					a := agent(t, document)
					asked := make(chan string, 1)
					g := newGuard(t, oagent.GuardOptions{Store: nodes[0], ReviewWait: time.Minute, Notify: func(e oagent.Event) {
						if e.Kind == oagent.EventReviewAsked {
							asked <- e.Review.ID
						}
					}})
					there := newGuard(t, oagent.GuardOptions{Store: nodes[len(nodes)-1]})
					var reviewer sync.WaitGroup
					reviewer.Go(func() {
						if _, err := there.Reviews.Decide(t.Context(), <-asked, "boss", approve, ""); err != nil {
							t.Error(err)
						}
					})
					wanted := engagement.KindReviewDenied
					if approve {
						wanted = ""
					}
					want(t, "the call", outcomeOf(t, g, call(a, "pay", `{"amount":1}`), `{"ok":true}`), wanted)
					reviewer.Wait()
				})
			})
		}
	}
}

// TestReviewWait_ends_with_the_server checks that a call does not wait for its reviewer when the server stops.
func TestReviewWait_ends_with_the_server(t *testing.T) {
	for _, document := range []string{reviewed, held} {
		stores(t, func(t *testing.T, nodes []store.Store) {
			serving, stop := context.WithCancel(t.Context())
			g := newGuard(t, oagent.GuardOptions{Store: nodes[0], ReviewWait: time.Hour, Notify: func(e oagent.Event) {
				if e.Kind == oagent.EventReviewAsked {
					stop()
				}
			}})
			c := call(agent(t, document), "pay", `{"amount":1}`)
			c.Serving = serving
			want(t, "the call", outcomeOf(t, g, c, `{"ok":true}`), engagement.KindReviewPending)
		})
	}
}

// TestReviewDenied wants identical calls to be refused, and others to be asked
// for.
func TestReviewDenied(t *testing.T) {
	a := agent(t, reviewed)
	g := newGuard(t, oagent.GuardOptions{})
	pay := call(a, "pay", `{"amount":5}`)
	want(t, "asked", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	decide(t, g, pending(t, g).ID, false)
	_, err := g.Begin(t.Context(), pay)
	if r := refusal(t, err); r.Kind != engagement.KindReviewDenied || !strings.Contains(r.Message, "as I said") {
		t.Errorf("%+v", r)
	}
	want(t, "another", outcomeOf(t, g, call(a, "pay", `{"amount":6}`), `{}`), engagement.KindReviewPending)
	want(t, "it goes on", outcomeOf(t, g, call(a, "other", `{}`), `{}`), "")
	b := binding(a)
	if got := whats(audit(t, g, b.Key())); got != "review decided refused:review_denied review begun finished" {
		t.Error(got)
	}
}

// TestReview_of_changed_document wants an approval not to count for what an agent's
// document has become since.
func TestReview_of_changed_document(t *testing.T) {
	t.Run("before the call", func(t *testing.T) {
		g := newGuard(t, oagent.GuardOptions{})
		before, after := agent(t, reviewed), agent(t, strings.Replace(reviewed, "  pay:\n", "  pay:\n    static_identity: everything\n    user_identity: false\n", 1))
		want(t, "asked", outcomeOf(t, g, call(before, "pay", `{"amount":5}`), `{}`), engagement.KindReviewPending)
		decide(t, g, pending(t, g).ID, true)
		want(t, "changed", outcomeOf(t, g, call(after, "pay", `{"amount":5}`), `{}`), engagement.KindReviewPending)
		pending(t, g)
		want(t, "as it was", outcomeOf(t, g, call(before, "pay", `{"amount":5}`), `{}`), "")
	})
	for name, test := range map[string]struct {
		old, by string
		want    engagement.Kind
	}{
		"the same":         {"recent.pay.outputs.ok", "recent.pay.outputs.ok == true", ""},
		"a new assertion":  {"recent.pay.outputs.ok", "recent.pay.outputs.n < 7", engagement.KindOutputRestriction},
		"another reviewer": {"require_review: boss", "require_review: board", engagement.KindReviewDenied},
		"no reviewer":      {"      require_review: boss\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, oagent.GuardOptions{})
			before, after := agent(t, held), agent(t, strings.Replace(held, test.old, test.by, 1))
			want(t, "held", outcomeOf(t, g, call(before, "pay", `{}`), `{"ok":true,"n":7}`), engagement.KindReviewPending)
			decide(t, g, pending(t, g).ID, true)
			ticket, err := g.Begin(t.Context(), call(after, "pay", `{}`))
			want(t, "given", kindOf(t, err), test.want)
			if err != nil {
				if r := refusal(t, err); !r.Made || r.Status() != 403 {
					t.Errorf("%+v", r)
				}
				return
			}
			if ticket.Replayed == nil {
				t.Error("the call is made again")
			}
		})
	}
}

// TestReviewExpires wants neither question nor approval to count for ever.
func TestReviewExpires(t *testing.T) {
	a := agent(t, reviewed)
	now := time.Now()
	g := newGuard(t, oagent.GuardOptions{ReviewTTL: time.Hour, Now: func() time.Time { return now }})
	pay := call(a, "pay", `{"amount":5}`)
	want(t, "asked", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	first := pending(t, g).ID
	decide(t, g, first, true)
	now = now.Add(2 * time.Hour)
	want(t, "too late", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	second := pending(t, g).ID
	if first == second {
		t.Fatal("it is the same review")
	}
	now = now.Add(2 * time.Hour)
	if _, err := g.Reviews.Decide(t.Context(), second, "boss", true, ""); !errors.Is(err, review.ErrNotFound) {
		t.Errorf("an approval too late: %v", err)
	}
}

// TestReviewLimits wants no reviewer to be flooded by one Engagement.
func TestReviewLimits(t *testing.T) {
	a := agent(t, reviewed)
	g := newGuard(t, oagent.GuardOptions{MaxPayload: 1000})
	for i := range 40 {
		want(t, "asked", outcomeOf(t, g, call(a, "pay", fmt.Sprintf(`{"amount":%d}`, i)), `{}`), engagement.KindReviewPending)
	}
	if reviews, err := g.Reviews.List(t.Context(), "boss"); err != nil || len(reviews) != 32 {
		t.Errorf("%d reviews, error %v", len(reviews), err)
	}
	large := fmt.Sprintf(`{"amount":1,"note":%q}`, strings.Repeat("a", 1000))
	want(t, "too large", outcomeOf(t, g, call(a, "pay", large), `{}`), engagement.KindInputRestriction)
}

// TestReview_of_outputs is require_review before a result: it is given to an
// identical call, which is not made.
func TestReview_of_outputs(t *testing.T) {
	a := agent(t, held)
	s := openBolt(t)
	g := newGuard(t, oagent.GuardOptions{Store: s})
	pay := call(a, "pay", `{"amount":5}`)
	begin := func() (*oagent.Ticket, error) { return g.Begin(t.Context(), pay) }

	ticket, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	r := refusal(t, ticket.Finish(t.Context(), jsontext.Value(`{"ok":true,"n":7}`), 201))
	request := pending(t, g)
	got := [...]any{r.Kind, r.Made, r.Review, string(request.Outputs), request.Result, request.Side}
	if want := [...]any{engagement.KindReviewPending, true, request.ID, `{"ok":true,"n":7}`, 201, engagement.SideOutput}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	want(t, "it is not in the Engagement", outcomeOf(t, g, call(a, "look", `{}`), `{}`), engagement.KindInputRestriction)
	_, err = begin()
	if r := refusal(t, err); r.Kind != engagement.KindReviewPending || !r.Made {
		t.Errorf("%+v", r)
	}
	decide(t, g, request.ID, true)
	g = newGuard(t, oagent.GuardOptions{Store: s}) // after a restart
	ticket, err = begin()
	if err != nil || ticket.Replayed == nil {
		t.Fatalf("got the ticket %+v and the error %v, want a stored result", ticket, err)
	}
	if got, want := [...]any{string(ticket.Replayed.Outputs), ticket.Replayed.Status, ticket.Number}, [...]any{`{"ok":true,"n":7}`, 201, int64(1)}; got != want {
		t.Fatalf("got the stored result %v, want %v", got, want)
	}
	if err := ticket.Finish(t.Context(), nil, 0); err != nil {
		t.Error(err)
	}
	want(t, "it is in the Engagement", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
	if read, err := g.Reviews.Get(t.Context(), request.ID, "boss"); err != nil || read.Outputs != nil {
		t.Errorf("the outputs are still in the review: %+v, %v", read, err)
	}

	// The next is a new call, and denied.
	if ticket, err = begin(); err != nil || ticket.Replayed != nil || ticket.Number != 3 {
		t.Fatalf("%+v, %v", ticket, err)
	}
	want(t, "the next", kindOf(t, ticket.Finish(t.Context(), jsontext.Value(`{"ok":true}`), 200)), engagement.KindReviewPending)
	decide(t, g, pending(t, g).ID, false)
	_, err = begin()
	if r := refusal(t, err); r.Kind != engagement.KindReviewDenied || !r.Made {
		t.Errorf("%+v", r)
	}
	// Without the assertion no review is requested.
	ticket, err = g.Begin(t.Context(), call(a, "pay", `{"amount":6}`))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "an assertion comes first", kindOf(t, ticket.Finish(t.Context(), jsontext.Value(`{"ok":false}`), 200)), engagement.KindOutputRestriction)
	b := binding(a)
	wanted := "begun review held refused:input_restriction decided released begun finished begun review held decided refused:review_denied begun finished:output_restriction"
	if got := whats(audit(t, g, b.Key())); got != wanted {
		t.Errorf("got  %s\nwant %s", got, wanted)
	}
}

// TestHeld_result_is_lost wants a call whose result cannot be given not to be made
// again without a word.
func TestHeld_result_is_lost(t *testing.T) {
	a := agent(t, held)
	s := openBolt(t)
	g := newGuard(t, oagent.GuardOptions{Store: s})
	pay := call(a, "pay", `{"amount":5}`)
	want(t, "held", outcomeOf(t, g, pay, `{"ok":true}`), engagement.KindReviewPending)
	id := pending(t, g).ID
	if err := s.Delete(t.Context(), "review/"+id); err != nil {
		t.Fatal(err)
	}
	_, err := g.Begin(t.Context(), pay)
	if r := refusal(t, err); r.Kind != engagement.KindReviewDenied || !r.Made || !strings.Contains(r.Message, "lost") {
		t.Errorf("%+v", r)
	}
	if _, err := g.Begin(t.Context(), pay); err != nil {
		t.Error(err)
	}
}

// TestLostReview wants a question that is lost asked again, with the same id.
func TestLostReview(t *testing.T) {
	a := agent(t, reviewed)
	s := openBolt(t)
	g := newGuard(t, oagent.GuardOptions{Store: s})
	pay := call(a, "pay", `{"amount":5}`)
	want(t, "asked", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	id := pending(t, g).ID
	if err := s.Delete(t.Context(), "review/"+id); err != nil {
		t.Fatal(err)
	}
	want(t, "again", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	if again := pending(t, g); again.ID != id {
		t.Errorf("%s and %s", id, again.ID)
	}
	decide(t, g, id, true)
	want(t, "approved", outcomeOf(t, g, pay, `{}`), "")
}

// TestReviewJSON wants what a reviewer reads to be plain.
func TestReviewJSON(t *testing.T) {
	a := agent(t, reviewed)
	g := newGuard(t, oagent.GuardOptions{})
	outcomeOf(t, g, call(a, "pay", `{"amount":5}`), `{}`)
	text, err := json.Marshal(pending(t, g))
	if err != nil || !strings.Contains(string(text), `"inputs":{"amount":5}`) || strings.Contains(string(text), "outputs") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestReview_no_wait checks that a call with NoWait is refused at once while its review is open, and that
// one that is Uncertain only gets a held result and is not made.
func TestReview_no_wait(t *testing.T) {
	a := agent(t, held)
	g := newGuard(t, oagent.GuardOptions{ReviewWait: time.Hour})
	pay := call(a, "pay", `{"amount":5}`)
	pay.NoWait = true
	only := pay
	only.Uncertain = true

	if _, err := g.Begin(t.Context(), only); !errors.Is(err, oagent.ErrNoHeldResult) {
		t.Fatalf("nothing is held: error %v", err)
	}
	ticket, err := g.Begin(t.Context(), pay)
	if err != nil || ticket.Number != 1 {
		t.Fatalf("call %+v, error %v", ticket, err)
	}
	if r := refusal(t, ticket.Finish(t.Context(), jsontext.Value(`{"ok":true}`), 200)); r.Kind != engagement.KindReviewPending || !r.Made {
		t.Fatalf("refusal %+v", r)
	}
	if _, err := g.Begin(t.Context(), only); refusal(t, err).Kind != engagement.KindReviewPending {
		t.Fatalf("the review is open: error %v", err)
	}
	decide(t, g, pending(t, g).ID, true)
	ticket, err = g.Begin(t.Context(), only)
	if err != nil || ticket.Replayed == nil {
		t.Fatalf("the review is approved: ticket %+v, error %v", ticket, err)
	}
}

// TestReviewUncertain checks that an uncertain call is made if its review is not used up, and only once.
func TestReviewUncertain(t *testing.T) {
	g := newGuard(t, oagent.GuardOptions{ReviewWait: time.Hour})
	pay := call(agent(t, reviewed), "pay", `{"amount":5}`)
	pay.NoWait, pay.Uncertain = true, true
	if _, err := g.Begin(t.Context(), pay); !errors.Is(err, oagent.ErrNoHeldResult) {
		t.Fatalf("there is no review: error %v", err)
	}
	first := pay
	first.Uncertain = false
	if _, err := g.Begin(t.Context(), first); refusal(t, err).Kind != engagement.KindReviewPending {
		t.Fatalf("the first attempt: error %v", err)
	}
	if _, err := g.Begin(t.Context(), pay); refusal(t, err).Kind != engagement.KindReviewPending {
		t.Fatalf("the review is open: error %v", err)
	}
	decide(t, g, pending(t, g).ID, true)
	if ticket, err := g.Begin(t.Context(), pay); err != nil || ticket.Replayed != nil {
		t.Fatalf("the review is approved: ticket %+v, error %v", ticket, err)
	}
	if _, err := g.Begin(t.Context(), pay); !errors.Is(err, oagent.ErrNoHeldResult) {
		t.Fatalf("the review is used up: error %v", err)
	}
}
