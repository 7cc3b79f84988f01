package oagent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// TestRefuse has refusals in the record that the guard has not decided.
func TestRefuse(t *testing.T) {
	unknown := &engagement.Refusal{Kind: "unknown_operation", Message: "there is no such operation"}
	t.Run("it begins an Engagement, and counts", func(t *testing.T) {
		g, a := newGuard(t, oagent.GuardOptions{}), agent(t, "capabilities: {find: {input_restriction: {assertion: history._total == 0}}}")
		b := binding(a)
		if err := g.Refuse(t.Context(), b, unknown, nil, "DELETE /admin"); err != nil {
			t.Fatal(err)
		}
		identity := &engagement.Refusal{Kind: "identity", Name: "find", Rule: "capabilities.find.user_identity", Message: "no one is logged in"}
		if err := g.Refuse(t.Context(), b, identity, jsontext.Value(`{"q":"a"}`), ""); err != nil {
			t.Fatal(err)
		}
		want(t, "it is no call of the history", outcomeOf(t, g, call(a, "find", `{}`), `{}`), "")
		entries := audit(t, g, b.Key())
		if got := whats(entries); got != "refused:unknown_operation refused:identity begun finished" {
			t.Fatalf("entries %s", got)
		}
		if e := entries[0]; e.Why != "DELETE /admin" || e.Name != "" || e.Inputs != nil {
			t.Errorf("entry %+v", e)
		}
		e := entries[1]
		if got, want := [...]string{e.Why, e.Name, e.Rule, string(e.Inputs)}, [...]string{"no one is logged in", "find", identity.Rule, `{"q":"a"}`}; got != want {
			t.Errorf("got the entry %q, want %q", got, want)
		}
		state, err := g.Engagements.Get(t.Context(), b.Key())
		if err != nil {
			t.Fatal(err)
		}
		if state.Refused != 2 || state.Total != 1 || state.User != alice {
			t.Errorf("got %d refused of %d calls by %v, want 2, 1, %v", state.Refused, state.Total, state.User, alice)
		}
	})
	t.Run("so often, and then no more", func(t *testing.T) {
		const most, more = 1000, 50
		g, a := newGuard(t, oagent.GuardOptions{}), agent(t, "capabilities: {find: {}}")
		b := binding(a)
		for range most + more {
			if err := g.Refuse(t.Context(), b, unknown, nil, ""); err != nil {
				t.Fatal(err)
			}
		}
		want(t, "the guard's own", outcomeOf(t, g, call(a, "delete-trip", `{}`), `{}`), engagement.KindNotAllowed)
		e, err := g.Engagements.Get(t.Context(), b.Key())
		if err != nil || e.Refused != most+1 || e.Entries != most+1 {
			t.Errorf("%d refused, %d entries, %v", e.Refused, e.Entries, err)
		}
	})
	t.Run("a long reason is cut, and large inputs are omitted", func(t *testing.T) {
		g, a := newGuard(t, oagent.GuardOptions{MaxPayload: 100}), agent(t, "capabilities: {find: {}}")
		b := binding(a)
		long := strings.Repeat("x", 5000)
		if err := g.Refuse(t.Context(), b, unknown, jsontext.Value(`{"q":"`+long+`"}`), long); err != nil {
			t.Fatal(err)
		}
		if e := audit(t, g, b.Key())[0]; len(e.Why) > 2100 || string(e.Inputs) != `{"_shed":5008,"_why":"max_recorded","_limit":100}` {
			t.Errorf("%d bytes of reason, inputs %.100s", len(e.Why), e.Inputs)
		}
	})
	t.Run("what cannot be recorded", func(t *testing.T) {
		g, b := newGuard(t, oagent.GuardOptions{}), binding(agent(t, "capabilities: {}"))
		b.Engagement = strings.Repeat("x", 10_000)
		if err := g.Refuse(t.Context(), b, unknown, nil, ""); err == nil {
			t.Error("an Engagement of that id was begun")
		}
		if err := g.Refuse(t.Context(), oagent.Binding{}, unknown, nil, ""); err == nil {
			t.Error("no agent has an Engagement")
		}
		s := openBolt(t)
		g, b = newGuard(t, oagent.GuardOptions{Store: s}), binding(agent(t, "capabilities: {}"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := g.Refuse(t.Context(), b, unknown, nil, ""); !errors.Is(err, store.ErrClosed) {
			t.Errorf("the store is closed: %v", err)
		}
	})
}
