package oagent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools"
)

const byAgent = `
capabilities:
  pay:
    input_restriction:
      require_review: supervisor
  send:
    output_restriction:
      require_review: oagent://supervisor
  look: {}
`

const supervisor = `kind: openagentspec:v1/agent
name: supervisor
description: Supervises.
intent: You supervise.
owner: team
capabilities:
  look: {}
guardrails:
  input: {tool_name: scan, assertion: output.safe}
lifespan: {short_circuit: 2}
`

// agents are the names of a server that has these agents and no tools.
type agents []string

func (agents) Tool(string) (string, *tools.Tool, bool) { return "", nil, false }
func (a agents) All() []string                         { return a }
func (agents) Renamed(string) string                   { return "" }
func (a agents) Agent(name string) bool                { return slices.Contains(a, name) }

// asking is a call on a server that has the agent supervisor.
func asking(a *oagent.Agent, name, inputs string) oagent.Call {
	c := call(a, name, inputs)
	c.Names = agents{"desk", "supervisor"}
	return c
}

func reviewingAgent(t testing.TB) *oagent.Agent {
	t.Helper()
	a, err := oagent.ReadAgent([]byte(supervisor), "supervisor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// asked makes a call that an agent is asked about, and returns the review.
func asked(t testing.TB, g *oagent.Guard, c oagent.Call, outputs string) *review.Review {
	t.Helper()
	ticket, err := g.Begin(t.Context(), c)
	if err == nil {
		err = ticket.Finish(t.Context(), jsontext.Value(outputs), 200)
	}
	r := refusal(t, err)
	if r.Kind != engagement.KindReviewPending {
		t.Fatalf("refused as %s: %s", r.Kind, r.Message)
	}
	request, err := g.Reviews.Get(t.Context(), r.Review, "oagent://supervisor")
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// TestAgentReviews wants the question and the decision in the reviewing agent's
// own Engagement, and no user to decide for it.
func TestAgentReviews(t *testing.T) {
	a, by := agent(t, byAgent), reviewingAgent(t)
	g := newGuard(t, oagent.GuardOptions{})
	for _, test := range []struct{ name, reviewer, outputs string }{{"pay", "supervisor", ""}, {"send", "oagent://supervisor", `{"sent":true}`}} {
		t.Run(test.name, func(t *testing.T) {
			c := asking(a, test.name, `{"amount":5}`)
			request := asked(t, g, c, test.outputs)
			if request.ByAgent != "supervisor" || request.Reviewer != test.reviewer {
				t.Errorf("%+v", request)
			}
			own := oagent.Reviewing(by, request.Key, request.User)
			entries := audit(t, g, own.Key())
			e := entries[len(entries)-1]
			got := [...]any{e.Event, e.Review, e.Agent, e.Engagement, e.Name, string(e.Inputs), string(e.Outputs), e.Side, e.Rule}
			if want := [...]any{engagement.EntryQuestion, request.ID, "desk", c.Key(), test.name, `{"amount":5}`, test.outputs, request.Side, request.Rule}; got != want {
				t.Errorf("question: got %v\nwant %v", got, want)
			}
			want(t, "again", outcomeOf(t, g, c, test.outputs), engagement.KindReviewPending)
			if again := audit(t, g, own.Key()); len(again) != len(entries) {
				t.Error("it is there twice")
			}
			for _, other := range []string{"supervisor", "desk", "alice", "", "oagent://desk", "oagent://Supervisor"} {
				if _, err := g.Reviews.Decide(t.Context(), request.ID, other, true, ""); !errors.Is(err, review.ErrNotFound) {
					t.Errorf("%s decides: %v", other, err)
				}
				if list, err := g.Reviews.List(t.Context(), other); len(list) != 0 || err != nil {
					t.Errorf("%s is asked %d, error %v", other, len(list), err)
				}
			}
			decided, err := g.Reviews.Decide(t.Context(), request.ID, "oagent://supervisor", true, "all well")
			if err != nil || decided.Status != engagement.ReviewApproved {
				t.Fatalf("%+v, %v", decided, err)
			}
			if _, err := g.Reviews.Decide(t.Context(), request.ID, "oagent://supervisor", false, ""); !errors.Is(err, review.ErrDecided) {
				t.Errorf("another verdict: %v", err)
			}
			entries = audit(t, g, own.Key())
			e = entries[len(entries)-1]
			if got, want := [...]string{e.Event, e.Verdict, e.Comment, e.Review}, [...]string{engagement.EntryDecision, engagement.ReviewApproved, "all well", request.ID}; got != want {
				t.Errorf("decision: got %q, want %q", got, want)
			}
			want(t, "approved", outcomeOf(t, g, c, test.outputs), "")
			reviewing, err := g.Engagements.Get(t.Context(), own.Key())
			if err != nil {
				t.Fatal(err)
			}
			about := [...]any{reviewing.Reviewed, reviewing.User, reviewing.Agent, reviewing.ID}
			if want := [...]any{c.Key(), alice, "supervisor", "review-" + c.Key()}; about != want {
				t.Errorf("the Engagement of the review: got %v, want %v", about, want)
			}
		})
	}
	b := binding(by) // one of a client, by the same name
	b.Engagement = "review-" + strings.Repeat("a", 40)
	if own := oagent.Reviewing(by, strings.Repeat("a", 40), alice); own.Key() == b.Key() {
		t.Error("a client can name an Engagement in which an agent reviews")
	}
}

// TestUser_called_like_an_agent wants a reviewer to be a user where there is no agent
// of that name.
func TestUser_called_like_an_agent(t *testing.T) {
	g := newGuard(t, oagent.GuardOptions{})
	c := call(agent(t, byAgent), "pay", `{}`)
	want(t, "asked", outcomeOf(t, g, c, `{}`), engagement.KindReviewPending)
	list, err := g.Reviews.List(t.Context(), "supervisor")
	if err != nil || len(list) != 1 {
		t.Fatalf("%d reviews, error %v", len(list), err)
	}
	if _, err := g.Reviews.Decide(t.Context(), list[0].ID, "oagent://supervisor", true, ""); !errors.Is(err, review.ErrNotFound) {
		t.Errorf("an agent decides for a user: %v", err)
	}
	if _, err := g.Reviews.Decide(t.Context(), list[0].ID, "supervisor", true, ""); err != nil {
		t.Error(err)
	}
	if own := oagent.Reviewing(reviewingAgent(t), c.Key(), alice); !errors.Is(errorOf(g.Engagements.Get(t.Context(), own.Key())), engagement.ErrNotFound) {
		t.Error("an agent has an Engagement for it")
	}
}

func errorOf(_ any, err error) error { return err }

// TestReviewing_engagement_ends wants an agent whose Engagement has ended to decide
// nothing more in that one, and everything elsewhere.
func TestReviewing_engagement_ends(t *testing.T) {
	by := reviewingAgent(t)
	for name, end := range map[string]func(t *testing.T, g *oagent.Guard, own oagent.Binding) error{
		"guardrails.input": func(t *testing.T, g *oagent.Guard, own oagent.Binding) error {
			return g.CheckGuardrail(t.Context(), own, engagement.SideInput, jsontext.Value(`{"safe":false}`))
		},
		"lifespan.short_circuit": func(t *testing.T, g *oagent.Guard, own oagent.Binding) error {
			for range 2 {
				ticket, err := g.Begin(t.Context(), oagent.Call{Binding: own, Name: "look"})
				if err != nil {
					return err
				}
				if err := ticket.Finish(t.Context(), nil, 200); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := agent(t, byAgent)
			g := newGuard(t, oagent.GuardOptions{})
			pay := asking(a, "pay", `{"amount":5}`)
			request := asked(t, g, pay, `{}`)
			own := oagent.Reviewing(by, request.Key, request.User)
			if r := refusal(t, end(t, g, own)); !r.Ends() {
				t.Fatalf("%+v", r)
			}
			_, err := g.Reviews.Decide(t.Context(), request.ID, "oagent://supervisor", true, "")
			if r := refusal(t, err); r.Kind != engagement.KindEnded || !strings.Contains(r.Message, name) {
				t.Errorf("%+v", r)
			}
			for what, c := range map[string]oagent.Call{"the call": pay, "another": asking(a, "pay", `{"amount":6}`)} {
				_, err := g.Begin(t.Context(), c)
				if r := refusal(t, err); r.Kind != engagement.KindReviewDenied || !testkit.ContainsAll(r.Message, "another Engagement") || !strings.Contains(r.Message, name) {
					t.Errorf("%s: %+v", what, r)
				}
			}
			ticket, err := g.Begin(t.Context(), asking(a, "send", `{}`))
			if err != nil {
				t.Fatal(err)
			}
			if r := refusal(t, ticket.Finish(t.Context(), jsontext.Value(`{"sent":true}`), 200)); r.Kind != engagement.KindReviewDenied || !r.Made {
				t.Errorf("%+v", r)
			}
			if list, err := g.Reviews.List(t.Context(), "oagent://supervisor"); err != nil || len(list) != 0 {
				t.Errorf("%d reviews, error %v", len(list), err)
			}
			elsewhere := pay
			elsewhere.Engagement = "e2"
			request = asked(t, g, elsewhere, `{}`)
			if _, err := g.Reviews.Decide(t.Context(), request.ID, "oagent://supervisor", true, ""); err != nil {
				t.Errorf("elsewhere: %v", err)
			}
		})
	}
}

// TestReviewClaim checks when a review can be claimed to ask its program. That only one node asks at a time, also
// if another one has died, is checked by package store/lease.
func TestReviewClaim(t *testing.T) {
	const lease = time.Minute
	began := time.Now()
	var late time.Duration // all the time that passes, or a slow machine would end the pauses
	now := func() time.Time { return began.Add(late) }
	g := newGuard(t, oagent.GuardOptions{Store: openBolt(t), Now: now})
	a := agent(t, byAgent)
	one := func(what, id string) *review.Claim {
		t.Helper()
		claim, _, err := g.Reviews.Claim(t.Context(), id, lease)
		if claim == nil || err != nil {
			t.Fatalf("%s: it cannot be claimed, error %v", what, err)
		}
		return claim
	}
	none := func(what, id string) (again time.Time) {
		t.Helper()
		claim, again, err := g.Reviews.Claim(t.Context(), id, lease)
		if claim != nil || err != nil {
			t.Fatalf("%s: it can be claimed, error %v", what, err)
		}
		return again
	}
	request := asked(t, g, asking(a, "pay", `{"amount":1}`), `{}`)
	first := one("it is new", request.ID)
	if at := none("it is claimed", request.ID); at.Before(now()) {
		t.Errorf("it is looked at again at %v", at)
	}
	again, err := first.Fail(t.Context())
	if err != nil || again.Sub(now()) > 2*time.Second {
		t.Errorf("again %v, error %v", again, err)
	}
	if at := none("it has just failed", request.ID); at.IsZero() {
		t.Error("it is never asked again")
	}
	late += time.Minute
	if err := one("after a pause", request.ID).Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := one("it was released", request.ID).Defer(t.Context()); err != nil {
		t.Error(err)
	}
	if at := none("the program decides later", request.ID); !at.IsZero() {
		t.Errorf("it is looked at again at %v", at)
	}

	request = asked(t, g, asking(a, "pay", `{"amount":2}`), `{}`)
	tries := 0
	for again = now(); !again.IsZero(); tries++ {
		if pause := again.Sub(now()); pause > 10*time.Minute {
			t.Fatalf("a pause of %s", pause)
		}
		late += 10 * time.Minute
		if again, err = one("once more", request.ID).Fail(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if none("often enough", request.ID); tries != 20 {
		t.Errorf("asked %d times", tries)
	}
	if _, err := g.Reviews.Decide(t.Context(), request.ID, "oagent://supervisor", true, ""); err != nil {
		t.Error(err)
	}
	if at := none("it is decided", request.ID); !at.IsZero() {
		t.Errorf("it is looked at again at %v", at)
	}
	if _, _, err := g.Reviews.Claim(t.Context(), "nothing", lease); !errors.Is(err, review.ErrNotFound) {
		t.Error(err)
	}
}

// leaving is a store whose caller goes away in the middle of a change.
type leaving struct {
	store.Store
	leave func()
}

func (l leaving) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	return l.Store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		c, err := change(old)
		l.leave()
		return c, err
	})
}

// TestReview_claim_is_left wants a claim that was written to be returned, so that it
// can be released, though who asked for it is going.
func TestReview_claim_is_left(t *testing.T) {
	stores(t, func(t *testing.T, nodes []store.Store) {
		request := asked(t, newGuard(t, oagent.GuardOptions{Store: nodes[0]}), asking(agent(t, byAgent), "pay", `{"amount":1}`), `{}`)
		ctx, leave := context.WithCancel(t.Context())
		g := newGuard(t, oagent.GuardOptions{Store: leaving{nodes[0], leave}})
		claim, _, err := g.Reviews.Claim(ctx, request.ID, time.Hour)
		if claim == nil || err != nil {
			t.Fatalf("%v, %v", claim, err)
		}
		if err := claim.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if claim, _, err = g.Reviews.Claim(t.Context(), request.ID, time.Hour); claim == nil || err != nil {
			t.Errorf("after it was released: %v, %v", claim, err)
		}
	})
}

// cutOff is a store that fails the changes of one key.
type cutOff struct {
	store.Store
	key atomic.Value
}

func (c *cutOff) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if key == c.key.Load() {
		return errors.New("cut off")
	}
	return c.Store.Update(ctx, key, change)
}

// TestDecision_of_agent_is_cut_off wants a decision that an agent's record has, and no
// other, to be made to count.
func TestDecision_of_agent_is_cut_off(t *testing.T) {
	a := agent(t, byAgent)
	s := &cutOff{Store: openBolt(t)}
	g := newGuard(t, oagent.GuardOptions{Store: s})
	pay := asking(a, "pay", `{"amount":1}`)
	request := asked(t, g, pay, `{}`)
	s.key.Store("engagement/" + request.Key)
	if _, err := g.Reviews.Decide(t.Context(), request.ID, "oagent://supervisor", false, "no"); err == nil {
		t.Fatal("no error")
	}
	s.key.Store("")
	want(t, "nothing counts yet", outcomeOf(t, g, pay, `{}`), engagement.KindReviewPending)
	if _, err := g.Reviews.Decide(t.Context(), request.ID, "oagent://supervisor", true, ""); !errors.Is(err, review.ErrDecided) {
		t.Errorf("the other decision: %v", err)
	}
	if claim, _, err := g.Reviews.Claim(t.Context(), request.ID, time.Minute); claim != nil || err != nil {
		t.Errorf("%v, %v", claim, err)
	}
	_, err := g.Begin(t.Context(), pay)
	if r := refusal(t, err); r.Kind != engagement.KindReviewDenied || !testkit.ContainsAll(r.Message, "no") {
		t.Errorf("%+v", r)
	}
}

// TestReviewedEngagement wants a reviewer to see the Engagement as expressions do,
// within limits.
func TestReviewedEngagement(t *testing.T) {
	a := agent(t, byAgent)
	g := newGuard(t, oagent.GuardOptions{})
	type fields struct{ Inputs, Outputs jsontext.Value }
	type seen struct {
		StartedAt time.Time       `json:"started_at"`
		User      engagement.User `json:"user"`
		Recent    struct {
			Name            string `json:"_name"`
			Look, Pay, Send *fields
		} `json:"recent"`
		History struct {
			Total      int64    `json:"_total"`
			Omitted    int64    `json:"_omitted"`
			List       []string `json:"_list"`
			Look, Send []fields
		} `json:"history"`
	}
	see := func(r *review.Review) (s seen, size int) {
		t.Helper()
		object, err := g.Reviews.Engagement(t.Context(), r)
		if err == nil {
			err = json.Unmarshal(object, &s, json.MatchCaseInsensitiveNames(true))
		}
		if err != nil {
			t.Fatalf("%v: %.500s", err, object)
		}
		return s, len(object)
	}
	s, _ := see(asked(t, g, asking(a, "pay", `{"amount":1}`), `{}`))
	if s.User != alice || s.StartedAt.IsZero() {
		t.Errorf("before the first call: got the user %v, want %v; started at %s", s.User, alice, s.StartedAt)
	}
	if s.History.Total != 0 || s.History.List == nil {
		t.Errorf("before the first call: got %d calls, want 0; got the list %#v, want an empty one", s.History.Total, s.History.List)
	}
	if s.Recent.Name != "" || string(s.Recent.Pay.Inputs) != `{"amount":1}` {
		t.Errorf(`before the first call: got the recent call %q, want none; got the inputs %s, want {"amount":1}`, s.Recent.Name, s.Recent.Pay.Inputs)
	}
	want(t, "look", outcomeOf(t, g, asking(a, "look", `{"n":0}`), `{"ok":true}`), "")
	held := asked(t, g, asking(a, "send", `{"to":"x"}`), `{"sent":true}`)
	s, _ = see(held)
	if want := []string{"look", "send"}; s.Recent.Name != "send" || !slices.Equal(s.History.List, want) {
		t.Fatalf("of a result: got %q after %q, want send after %q", s.Recent.Name, s.History.List, want)
	}
	got := []string{string(s.Recent.Send.Outputs), string(s.Recent.Look.Outputs), string(s.History.Send[0].Outputs), string(s.History.Look[0].Inputs)}
	if want := []string{`{"sent":true}`, `{"ok":true}`, `{"sent":true}`, `{"n":0}`}; !slices.Equal(got, want) {
		t.Errorf("of a result: got %q, want %q", got, want)
	}
	other := asked(t, g, asking(a, "pay", `{"amount":2}`), `{}`)
	if s, _ = see(other); string(s.Recent.Send.Outputs) != "null" || string(s.History.Send[0].Outputs) != "null" {
		t.Errorf("what is held is seen in another review: %+v", s)
	}
	for i := range 150 {
		want(t, "look", outcomeOf(t, g, asking(a, "look", fmt.Sprintf(`{"n":%d}`, i+1)), `{}`), "")
	}
	s, _ = see(other)
	if got, want := [...]int{int(s.History.Total), int(s.History.Omitted), len(s.History.List), len(s.History.Look)}, [...]int{152, 52, 100, 100}; got != want {
		t.Fatalf("got %d calls, %d omitted, %d listed, %d shown; want %d", got[0], got[1], got[2], got[3], want)
	}
	if got := string(s.History.Look[99].Inputs); got != `{"n":150}` {
		t.Errorf(`got the last inputs %s, want {"n":150}`, got)
	}
	large := `"` + strings.Repeat("x", 60<<10) + `"`
	for range 5 {
		want(t, "look", outcomeOf(t, g, asking(a, "look", `{}`), large), "")
	}
	s, size := see(other)
	n := len(s.History.Look)
	if size > 300<<10 || n < 3 {
		t.Fatalf("got %d bytes, want at most %d; got %d calls, want at least 3", size, 300<<10, n)
	}
	if last := string(s.History.Look[n-1].Outputs); last != large {
		t.Errorf("got the last outputs %.100s, want %.100s", last, large)
	}
	if got := string(s.History.Look[n-3].Outputs); !strings.HasPrefix(got, `{"_shed":`) {
		t.Errorf(`got the outputs %.100s, want {"_shed":…`, got)
	}
	if _, err := g.Reviews.Engagement(t.Context(), &review.Review{Summary: review.Summary{ID: "x", Key: strings.Repeat("a", 40)}}); !errors.Is(err, engagement.ErrNotFound) {
		t.Error(err)
	}
}
