package oagent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// A move is one call and what becomes of it.
type move struct {
	name, inputs, outputs string
	want                  engagement.Kind
}

// TestRules is the rules of the text about what an agent may do and what an
// Engagement holds, in its order (OpenAgentSpec v1, Agent and Engagement).
func TestRules(t *testing.T) {
	for _, test := range []struct {
		rule, document string
		moves          []move
	}{
		{"capabilities: what is listed may be used, what is not may not", `
capabilities:
  get-trip: {}
`, []move{
			{"get-trip", `{"id":1}`, `{}`, ""},
			{"delete-trip", `{"id":1}`, `{}`, engagement.KindNotAllowed},
			{"get-trip", `{"id":1}`, `{}`, ""}, // it may go on
		}},
		{"capabilities: an agent is one", `
capabilities:
  oagent://planner:
  helper:
`, []move{{"oagent://planner", `{}`, `{}`, ""}, {"planner", `{}`, `{}`, engagement.KindNotAllowed}, {"oagent://helper", `{}`, `{}`, ""}, {"helper", `{}`, `{}`, ""}}},
		{"collect_results: outputs are in the Engagement", `
capabilities:
  find: {}
  act:
    input_restriction:
      assertion: recent.find.outputs.ok && history.find[0].outputs.ok
`, []move{{"find", `{}`, `{"ok":true}`, ""}, {"act", `{}`, `{}`, ""}, {"find", `{}`, `{"ok":false}`, ""}, {"act", `{}`, `{}`, engagement.KindInputRestriction}}},
		{"collect_results False: they are not", `
capabilities:
  find: {collect_results: False}
  act:
    input_restriction:
      assertion: recent.find.outputs.ok
  look:
    input_restriction:
      assertion: recent.find.outputs == null && history.find[0].outputs == null
`, []move{{"find", `{}`, `{"ok":true}`, ""}, {"act", `{}`, `{}`, engagement.KindInputRestriction}, {"look", `{}`, `{}`, ""}}},
		{"collect_results False: its own output restriction sees them", `
capabilities:
  find:
    collect_results: False
    output_restriction:
      assertion: recent.find.outputs.ok
`, []move{{"find", `{}`, `{"ok":true}`, ""}, {"find", `{}`, `{"ok":false}`, engagement.KindOutputRestriction}}},
		{"input_restriction: sees the inputs of the call", `
capabilities:
  search-faqs:
    input_restriction:
      assertion: recent.search-faqs.inputs["path"].startsWith("public")
`, []move{
			{"search-faqs", `{"path":"public/a"}`, `{}`, ""},
			{"search-faqs", `{"path":"private"}`, `{}`, engagement.KindInputRestriction},
			{"search-faqs", `{"other":"public"}`, `{}`, engagement.KindInputRestriction},
			{"search-faqs", `{"path":7}`, `{}`, engagement.KindInputRestriction},
			{"search-faqs", `{"path":"public/b"}`, `{}`, ""},
		}},
		{"input_restriction: a refused call is not in the history", `
capabilities:
  act:
    input_restriction:
      assertion: recent.act.inputs.n < 2 && history._total < 2
`, []move{
			{"act", `{"n":2}`, ``, engagement.KindInputRestriction},
			{"act", `{"n":1}`, ``, ""},
			{"act", `{"n":3}`, ``, engagement.KindInputRestriction},
			{"act", `{"n":1}`, ``, ""},
			{"act", `{"n":1}`, ``, engagement.KindInputRestriction},
		}},
		{"output_restriction: sees the outputs of the call", `
capabilities:
  refund:
    output_restriction:
      assertion: recent.refund.outputs.status == "accepted"
`, []move{
			{"refund", `{}`, `{"status":"accepted"}`, ""},
			{"refund", `{}`, `{"status":"no"}`, engagement.KindOutputRestriction},
			{"refund", `{}`, `{}`, engagement.KindOutputRestriction},
			{"refund", `{}`, ``, engagement.KindOutputRestriction},
			{"refund", `{}`, `{"status":"accepted","status":"no"}`, engagement.KindOutputRestriction},
			{"refund", `{}`, `<html>`, engagement.KindOutputRestriction},
		}},
		{"output_restriction: what was withheld is not in the Engagement, the call is", `
capabilities:
  find:
    output_restriction:
      assertion: recent.find.outputs.ok
  act:
    input_restriction:
      assertion: recent.find.outputs == null && history.find[0].outputs == null && history._total == 1
`, []move{{"find", `{}`, `{"ok":false}`, engagement.KindOutputRestriction}, {"act", `{}`, `{}`, ""}}},
		{"assertion: it must be a bool", `
capabilities:
  act:
    input_restriction:
      assertion: recent.act.inputs.go
`, []move{{"act", `{"go":true}`, `{}`, ""}, {"act", `{"go":"true"}`, `{}`, engagement.KindInputRestriction}, {"act", `{"go":1}`, `{}`, engagement.KindInputRestriction}}},
		{"short_circuit: Tool 1, Tool 1, Tool 1 ends it", `
capabilities: {tool-1: {}, tool-2: {}}
lifespan: {short_circuit: 3}
`, []move{{"tool-1", ``, ``, ""}, {"tool-1", ``, ``, ""}, {"tool-1", ``, ``, engagement.KindShortCircuit}, {"tool-2", ``, ``, engagement.KindEnded}}},
		{"short_circuit: Tool 1, Tool 2 three times ends it", `
capabilities: {tool-1: {}, tool-2: {}}
lifespan: {short_circuit: 3}
`, []move{
			{"tool-1", ``, ``, ""},
			{"tool-2", ``, ``, ""},
			{"tool-1", ``, ``, ""},
			{"tool-2", ``, ``, ""},
			{"tool-1", ``, ``, ""},
			{"tool-2", ``, ``, engagement.KindShortCircuit},
			{"tool-1", ``, ``, engagement.KindEnded},
		}},
		{"short_circuit: a call that is corrected after a refusal is not a repetition", `
capabilities:
  tool-1:
    input_restriction: {assertion: recent.tool-1.inputs.ok}
lifespan: {short_circuit: 2}
`, []move{
			{"tool-1", `{"ok":false}`, ``, engagement.KindInputRestriction},
			{"tool-1", `{"ok":true}`, ``, ""},
			{"tool-1", `{"ok":false}`, ``, engagement.KindShortCircuit},
		}},
		{"short_circuit: refused calls count", `
capabilities:
  tool-1:
    input_restriction: {assertion: recent.tool-1.inputs.ok}
lifespan: {short_circuit: 3}
`, []move{
			{"tool-1", `{"ok":false}`, ``, engagement.KindInputRestriction},
			{"tool-1", `{"ok":false}`, ``, engagement.KindInputRestriction},
			{"tool-1", `{"ok":false}`, ``, engagement.KindShortCircuit},
			{"tool-1", `{"ok":true}`, ``, engagement.KindEnded},
		}},
		{"short_circuit: a refused call does not hide a repetition", `
capabilities:
  tool-1: {}
  tool-2:
    input_restriction: {assertion: recent.tool-2.inputs.ok}
lifespan: {short_circuit: 2}
`, []move{
			{"tool-1", ``, ``, ""},
			{"tool-2", `{"ok":false}`, ``, engagement.KindInputRestriction},
			{"tool-1", ``, ``, engagement.KindShortCircuit},
		}},
		{"Engagement: user, started_at, recent._name", `
capabilities:
  first:
    input_restriction:
      assertion: recent._name == "" && history._list == [] && history._total == 0 && !has(history.first) && has(recent.first)
  second:
    input_restriction:
      assertion: recent._name == "first" && user.id == "alice" && user.email.endsWith("@example.com") && started_at < timestamp("2999-01-01T00:00:00Z")
  third:
    input_restriction:
      assertion: history._list == ["first", "second"] && "first" in history._list && !("third" in history._list) && history._list[1] == "second"
`, []move{{"first", ``, ``, ""}, {"second", ``, ``, ""}, {"third", ``, ``, ""}, {"first", ``, ``, engagement.KindInputRestriction}}},
		{"Engagement: recent and history", `
capabilities:
  find: {}
  act:
    input_restriction:
      assertion: >-
        recent.find.inputs.q == "b" && recent.find.outputs.n == 2 && history.find[0].inputs.q == "a" && history["find"][1].outputs.n == 2
        && history.find.map(c, c.inputs.q) == ["a", "b"] && history.find.size() == 2 && history.find.all(c, c.outputs.n > 0)
`, []move{{"find", `{"q":"a"}`, `{"n":1}`, ""}, {"find", `{"q":"b"}`, `{"n":2}`, ""}, {"act", ``, ``, ""}}},
		{"Engagement: numbers keep their values", `
capabilities:
  act:
    input_restriction:
      assertion: >-
        recent.act.inputs.int + 1 == 9007199254740994 && recent.act.inputs.float == 1.5 && recent.act.inputs.big == "12345678901234567890"
        && type(recent.act.inputs.int) == int && type(recent.act.inputs.float) == double && recent.act.inputs.whole == 2.0
`, []move{{"act", `{"int":9007199254740993,"float":1.5,"big":12345678901234567890,"whole":2}`, ``, ""}}},
		{"Engagement: what was not invoked is not there", `
capabilities:
  act:
    input_restriction:
      assertion: recent.find.outputs.ok
  find: {}
`, []move{{"act", ``, ``, engagement.KindInputRestriction}, {"find", ``, `{"ok":true}`, ""}, {"act", ``, ``, ""}}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			a := agent(t, test.document)
			s := openBolt(t)
			g, cold := newGuard(t, oagent.GuardOptions{Store: s}), newGuard(t, oagent.GuardOptions{Store: s})
			second := binding(a)
			second.Engagement = "cold"
			for i, m := range test.moves {
				c := call(a, m.name, m.inputs)
				c.Name, c.IsAgent = strings.CutPrefix(m.name, oagent.Scheme)
				if m.inputs == "" {
					c.Inputs = nil
				}
				want(t, m.name, outcomeOf(t, g, c, m.outputs), m.want)
				// The same with guards that have nothing in memory.
				c.Binding = second
				if i%2 == 0 {
					cold = newGuard(t, oagent.GuardOptions{Store: s})
				}
				want(t, m.name+", cold", outcomeOf(t, cold, c, m.outputs), m.want)
			}
		})
	}
}

// TestGuardrails wants a guardrail that does not hold to end the Engagement.
func TestGuardrails(t *testing.T) {
	document := `
capabilities: {act: {}}
guardrails:
  input: {tool_name: check-text, assertion: flagged == false}
  output: {tool_name: check-text, assertion: "!output.flagged"}
`
	for _, test := range []struct {
		name   string
		side   engagement.Side
		output string
		want   engagement.Kind
	}{
		{"input holds", engagement.SideInput, `{"flagged":false}`, ""},
		{"input fails", engagement.SideInput, `{"flagged":true}`, engagement.KindGuardrail},
		{"input: a missing field", engagement.SideInput, `{}`, engagement.KindUnchecked},
		{"input: no JSON", engagement.SideInput, `oops`, engagement.KindUnchecked},
		{"output: a page in place of JSON", engagement.SideOutput, `"<html>maintenance</html>"`, engagement.KindUnchecked},
		{"output holds", engagement.SideOutput, `{"flagged":false}`, ""},
		{"output fails", engagement.SideOutput, `{"flagged":true}`, engagement.KindGuardrail},
		{"output is no bool", engagement.SideOutput, `{"flagged":"no"}`, engagement.KindGuardrail},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := agent(t, document)
			var events []oagent.Event
			g := newGuard(t, oagent.GuardOptions{Notify: func(e oagent.Event) { events = append(events, e) }})
			b := binding(a)
			inFlight, err := g.Begin(t.Context(), call(a, "act", `{}`))
			if err != nil {
				t.Fatal(err)
			}
			want(t, "before", kindOf(t, g.CheckActive(t.Context(), b)), "")
			want(t, "guardrail", kindOf(t, g.CheckGuardrail(t.Context(), b, test.side, jsontext.Value(test.output))), test.want)
			after, result, ended := engagement.Kind(""), engagement.Kind(""), 0
			ends := test.want == engagement.KindGuardrail
			if ends {
				after, result, ended = engagement.KindEnded, engagement.KindEnded, 1
			}
			want(t, "a call in flight", kindOf(t, inFlight.Finish(t.Context(), jsontext.Value(`{}`), 200)), result)
			want(t, "active", kindOf(t, g.CheckActive(t.Context(), b)), after)
			want(t, "a call", outcomeOf(t, g, call(a, "act", `{}`), `{}`), after)
			want(t, "a guardrail", kindOf(t, g.CheckGuardrail(t.Context(), b, test.side, jsontext.Value(`{"flagged":false}`))), after)
			if len(events) != ended {
				t.Errorf("events: %+v", events)
			}
			e, err := g.Engagements.Get(t.Context(), b.Key())
			if err != nil || (e.Status == engagement.StatusError) != ends || (e.Ended != nil) != ends {
				t.Errorf("%+v, error %v", e, err)
			}
		})
	}
	for _, side := range []engagement.Side{engagement.SideInput, engagement.SideOutput} {
		t.Run("made/"+string(side), func(t *testing.T) {
			// The model was asked before its answer is looked at, and not before what
			// the user says is.
			a, s := agent(t, document), openBolt(t)
			g, b := newGuard(t, oagent.GuardOptions{Store: s}), binding(a)
			check := func(what string, err error, kind engagement.Kind) {
				t.Helper()
				if r, ok := engagement.AsRefusal(err); !ok || r.Kind != kind || r.Made != (side == engagement.SideOutput) {
					t.Errorf("%s: %+v", what, r)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			check("a tool that does not answer", g.FailGuardrail(t.Context(), b, side, nil), engagement.KindUnchecked)
			check("it does not hold", g.CheckGuardrail(t.Context(), b, side, jsontext.Value(`{"flagged":true}`)), engagement.KindGuardrail)
			check("it has ended", g.CheckGuardrail(t.Context(), b, side, jsontext.Value(`{"flagged":false}`)), engagement.KindEnded)
			check("the client has gone", g.CheckGuardrail(ctx, b, side, jsontext.Value(`{}`)), engagement.KindStore)
			b.Engagement = strings.Repeat("e", engagement.MaxID+1)
			check("a malformed id", g.CheckGuardrail(t.Context(), b, side, jsontext.Value(`{"flagged":false}`)), engagement.KindInvalid)
			b.Engagement = "other"
			_ = s.Close()
			check("the store", g.CheckGuardrail(t.Context(), b, side, jsontext.Value(`{"flagged":false}`)), engagement.KindStore)
		})
	}
	t.Run("a tool that does not answer", func(t *testing.T) {
		a := agent(t, document)
		g := newGuard(t, oagent.GuardOptions{})
		want(t, "guardrail", kindOf(t, g.FailGuardrail(t.Context(), binding(a), engagement.SideInput, t.Context().Err())), engagement.KindUnchecked)
		want(t, "it goes on", outcomeOf(t, g, call(a, "act", `{}`), `{}`), "")
	})
}

// TestMessages wants refusals that say what to do, and do not quote.
func TestMessages(t *testing.T) {
	a := agent(t, `
capabilities:
  act:
    input_restriction:
      assertion: int(recent.act.inputs.n) < 5
    output_restriction:
      assertion: recent.act.outputs.missing.field == 1
  other: {}
`)
	g := newGuard(t, oagent.GuardOptions{})
	for name, test := range map[string]struct {
		call  oagent.Call
		rule  string
		words []string
	}{
		"a capability":   {call(a, "nothing", `{"n":"hunter2"}`), "capabilities", []string{"nothing", "desk", "act, other"}},
		"an assertion":   {call(a, "act", `{"n":"7"}`), "capabilities.act.input_restriction.assertion", []string{"was not made", "int(recent.act.inputs.n) < 5"}},
		"an error":       {call(a, "act", `{"n":"hunter2"}`), "capabilities.act.input_restriction.assertion", []string{"cannot be decided"}},
		"a missing path": {call(a, "act", `{"m":"hunter2"}`), "capabilities.act.input_restriction.assertion", []string{`recent["act"].inputs.n is missing`}},
		"outputs":        {call(a, "act", `{"n":"1"}`), "capabilities.act.output_restriction.assertion", []string{"was made", `recent["act"].outputs.missing is missing`}},
	} {
		t.Run(name, func(t *testing.T) {
			ticket, err := g.Begin(t.Context(), test.call)
			if err == nil {
				err = ticket.Finish(t.Context(), jsontext.Value(`{"secret":"hunter2"}`), 200)
			}
			r, ok := engagement.AsRefusal(err)
			if !ok {
				t.Fatalf("got %v, want a refusal", err)
			}
			got := [...]any{r.Rule, r.Agent, r.Engagement, r.Status(), r.Ends()}
			if want := [...]any{test.rule, "desk", "e1", 403, false}; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			if strings.Contains(r.Message, "hunter2") {
				t.Errorf("the message has outputs: %s", r.Message)
			}
			for _, word := range test.words {
				if !strings.Contains(r.Message, word) {
					t.Errorf("%q is not in: %s", word, r.Message)
				}
			}
		})
	}
}

// TestParts_of_assertions wants the part that fails to be named: of an input restriction to
// the caller, of an output restriction to auditors alone, because it would reveal to the caller
// how the withheld outputs compare with the inputs.
func TestParts_of_assertions(t *testing.T) {
	const begun = "a part of"
	a := agent(t, "capabilities:\n  act:\n    input_restriction: {assertion: recent.act.inputs.n > 0 && recent.act.inputs.n < 9}\n"+
		"    output_restriction: {assertion: recent.act.outputs.balance >= recent.act.inputs.n && recent.act.outputs.public}\n")
	g := newGuard(t, oagent.GuardOptions{})
	_, err := g.Begin(t.Context(), call(a, "act", `{"n":9}`))
	want(t, "an input restriction", kindOf(t, err), engagement.KindInputRestriction)
	if !strings.Contains(err.Error(), "recent.act.inputs.n < 9 ("+begun) {
		t.Errorf("the part is not named: %v", err)
	}
	messages := make(map[string]bool)
	for _, n := range []string{`{"n":2}`, `{"n":8}`} {
		ticket, err := g.Begin(t.Context(), call(a, "act", n))
		if err != nil {
			t.Fatal(err)
		}
		err = ticket.Finish(t.Context(), jsontext.Value(`{"balance":5,"public":false}`), 200)
		want(t, "an output restriction", kindOf(t, err), engagement.KindOutputRestriction)
		messages[err.Error()] = true
	}
	if len(messages) != 1 {
		t.Errorf("refusals depend on the outputs: %v", messages)
	}
	b := binding(a)
	entries := audit(t, g, b.Key())
	if why := entries[len(entries)-1].Why; !strings.Contains(why, "inputs.n ("+begun) {
		t.Errorf("the record says %q", why)
	}
}

// TestInFlight wants each call's output restriction to see its own outputs, and
// recent the call that was begun last.
func TestInFlight(t *testing.T) {
	a := agent(t, `
capabilities:
  find:
    output_restriction:
      assertion: recent.find.outputs.ok && history.find[recent.find.inputs.n].outputs.ok
  look:
    input_restriction:
      assertion: recent.find.inputs.n == 1 && recent.find.outputs.tag == "second"
`)
	g := newGuard(t, oagent.GuardOptions{})
	first, err := g.Begin(t.Context(), call(a, "find", `{"n":0}`))
	if err != nil {
		t.Fatal(err)
	}
	second, err := g.Begin(t.Context(), call(a, "find", `{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "second", kindOf(t, second.Finish(t.Context(), jsontext.Value(`{"ok":true,"tag":"second"}`), 200)), "")
	want(t, "first", kindOf(t, first.Finish(t.Context(), jsontext.Value(`{"ok":false,"tag":"first"}`), 200)), engagement.KindOutputRestriction)
	want(t, "recent", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
	if err := second.Finish(t.Context(), nil, 200); err == nil {
		t.Error("a ticket can be used twice")
	}
}

// TestShed wants what is too large kept out of the record, and assertions that
// look at it to fail.
func TestShed(t *testing.T) {
	a := agent(t, `
capabilities:
  act:
    input_restriction:
      assertion: recent.act.inputs.size() > 0
    output_restriction:
      assertion: recent.act.outputs.size() > 0
  look:
    input_restriction:
      assertion: '!("x" in recent.act.inputs)'
  glance:
    input_restriction:
      assertion: '!("x" in recent.act.outputs)'
  count:
    input_restriction:
      assertion: 'history.act.all(c, !("x" in c.inputs))'
  total:
    input_restriction:
      assertion: history.act.size() == 1
`)
	g := newGuard(t, oagent.GuardOptions{MaxPayload: 100})
	large := `{"a":"` + strings.Repeat("a", 200) + `"}`
	want(t, "the call itself", outcomeOf(t, g, call(a, "act", large), large), "")
	for _, name := range []string{"look", "glance", "count"} {
		want(t, name, outcomeOf(t, g, call(a, name, `{}`), `{}`), engagement.KindInputRestriction)
	}
	want(t, "total", outcomeOf(t, g, call(a, "total", `{}`), `{}`), "")
	b := binding(a)
	if e := audit(t, g, b.Key())[0]; string(e.Inputs) != `{"_shed":208,"_why":"max_recorded","_limit":100}` {
		t.Errorf("the record has %s", e.Inputs)
	}
	g = newGuard(t, oagent.GuardOptions{MaxRecord: 300})
	want(t, "first", outcomeOf(t, g, call(a, "act", large), `{}`), engagement.KindOutputRestriction)
	want(t, "there is room", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
	want(t, "second", outcomeOf(t, g, call(a, "act", large), `{"a":1}`), "")
	want(t, "there is none", outcomeOf(t, g, call(a, "look", `{}`), `{}`), engagement.KindInputRestriction)
}

// TestRecord wants the record to say what was decided, and why.
func TestRecord(t *testing.T) {
	a := agent(t, `
capabilities:
  act:
    input_restriction:
      assertion: recent.act.inputs.n < 5
    output_restriction: {assertion: recent.act.outputs.ok}
guardrails:
  input: {tool_name: check-text, assertion: ok}
`)
	at := time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)
	g := newGuard(t, oagent.GuardOptions{Now: func() time.Time { return at }})
	b := binding(a)
	outcomeOf(t, g, call(a, "act", `{"n":1}`), `{"ok":true}`)
	outcomeOf(t, g, call(a, "act", `{"n":9}`), ``)
	outcomeOf(t, g, call(a, "nothing", `{"n":9}`), ``)
	outcomeOf(t, g, call(a, "act", `{"n":2}`), `{"ok":false,"secret":1}`)
	ticket, err := g.Begin(t.Context(), call(a, "act", `{"n":3}`))
	if err != nil {
		t.Fatal(err)
	}
	ticket.Abort(t.Context(), "the upstream does not answer")
	if _, err = g.Begin(t.Context(), call(a, "act", `{"n":4}`)); err != nil {
		t.Fatal(err)
	}
	_ = g.CheckGuardrail(t.Context(), b, engagement.SideInput, jsontext.Value(`{"ok":true}`))
	_ = g.CheckGuardrail(t.Context(), b, engagement.SideInput, jsontext.Value(`{"ok":false}`))
	entries := audit(t, g, b.Key())
	wanted := "begun finished refused:input_restriction refused:not_allowed begun finished:output_restriction begun aborted begun guardrail guardrail:guardrail"
	if got := whats(entries); got != wanted {
		t.Fatalf("got  %s\nwant %s", got, wanted)
	}
	first, refused, withheld := entries[0], entries[2], entries[5]
	if got, want := [...]any{first.At.UTC(), first.Call, first.Nth, first.Name}, [...]any{at.UTC(), int64(1), int64(1), "act"}; got != want {
		t.Errorf("the first call: got %v, want %v", got, want)
	}
	if in, out := string(first.Inputs), string(entries[1].Outputs); in != `{"n":1}` || out != `{"ok":true}` {
		t.Errorf(`the first call: got the inputs %s, want {"n":1}; got the outputs %s, want {"ok":true}`, in, out)
	}
	got := [...]any{refused.Rule, refused.Why != "", string(refused.Inputs), refused.Call}
	if want := [...]any{"capabilities.act.input_restriction.assertion", true, `{"n":9}`, int64(0)}; got != want {
		t.Errorf("refused: got %v, want %v", got, want)
	}
	got = [...]any{withheld.Status, withheld.Why != "", string(withheld.Outputs), withheld.Call}
	if want := [...]any{200, true, "", int64(2)}; got != want || withheld.Outputs != nil {
		t.Errorf("withheld: got %v, want %v", got, want)
	}
	e, err := g.Engagements.Get(t.Context(), b.Key())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := [...]int64{e.Total, e.Refused, e.Entries}, [...]int64{4, 4, 11}; got != want {
		t.Errorf("the Engagement: got the numbers %v, want %v", got, want)
	}
	got = [...]any{e.StartedAt.UTC(), e.Agent, e.User, e.ID}
	if want := [...]any{at.UTC(), "desk", alice, "e1"}; got != want {
		t.Errorf("the Engagement: got %v, want %v", got, want)
	}
	all, _, err := g.Engagements.Page(t.Context(), "", "", 10)
	if err != nil || len(all) != 1 || all[0].Key != b.Key() {
		t.Errorf("%+v, error %v", all, err)
	}
	if _, err := g.Engagements.Entries(t.Context(), strings.Repeat("0", 40), 0, 10); err != engagement.ErrNotFound { //nolint:errorlint // as it is
		t.Errorf("another's: %v", err)
	}
}

// TestHistory_limits_a_capability_from_its_first_call wants size(history.<itself>)
// to count from nothing.
func TestHistory_limits_a_capability_from_its_first_call(t *testing.T) {
	a := agent(t, "capabilities:\n  act: {input_restriction: {assertion: size(history.act) < 2}}\n  look: {input_restriction: {assertion: has(history.act)}}\n")
	g := newGuard(t, oagent.GuardOptions{Store: openBolt(t)})
	want(t, "look before act", outcomeOf(t, g, call(a, "look", `{}`), `{}`), engagement.KindInputRestriction)
	want(t, "first", outcomeOf(t, g, call(a, "act", `{}`), `{}`), "")
	want(t, "second", outcomeOf(t, g, call(a, "act", `{}`), `{}`), "")
	want(t, "third", outcomeOf(t, g, call(a, "act", `{}`), `{}`), engagement.KindInputRestriction)
	want(t, "look after act", outcomeOf(t, g, call(a, "look", `{}`), `{}`), "")
}

// TestExposed wants the values of exposes, without those that are not there.
func TestExposed(t *testing.T) {
	a := agent(t, `
capabilities: {create-ticket: {}, search: {}}
exposes:
  ticket: recent.create-ticket.outputs["ticket_id"]
  urls: history.search.map(t, t.inputs.url)
  calls: history._total
  list: history._list
  all: history
`)
	s := openBolt(t)
	g := newGuard(t, oagent.GuardOptions{Store: s})
	check := func(g *oagent.Guard, wanted string, missing int) {
		t.Helper()
		e, err := g.Exposed(t.Context(), binding(a))
		if err != nil || string(e.Object) != wanted || len(e.Missing) != missing {
			t.Errorf("got  %s\nwant %s\nmissing %v, error %v", e.Object, wanted, e.Missing, err)
		}
	}
	check(g, `{"urls":[],"calls":0,"list":[],"all":{"_list":[],"_total":0}}`, 1)
	outcomeOf(t, g, call(a, "search", `{"url":"u1"}`), `{}`)
	check(g, `{"urls":["u1"],"calls":1,"list":["search"],"all":{"_list":["search"],"_total":1,"search":[{"inputs":{"url":"u1"},"outputs":{}}]}}`, 1)
	outcomeOf(t, g, call(a, "create-ticket", `{}`), `{"ticket_id":12345678901234567890}`)
	full := `{"ticket":12345678901234567890,"urls":["u1"],"calls":2,"list":["search","create-ticket"],"all":{"_list":["search","create-ticket"],"_total":2,` +
		`"create-ticket":[{"inputs":{},"outputs":{"ticket_id":12345678901234567890}}],"search":[{"inputs":{"url":"u1"},"outputs":{}}]}}`
	full = strings.Replace(full, `{"ticket":12345678901234567890`, `{"ticket":"12345678901234567890"`, 1) // a value by itself is what CEL has
	check(g, full, 0)
	check(newGuard(t, oagent.GuardOptions{Store: s}), full, 0)
}

// TestStatus wants the list of Engagements to have the words of the text.
func TestStatus(t *testing.T) {
	a := agent(t, "capabilities:\n  act: {}\n  ask:\n    input_restriction: {require_review: boss}\nlifespan: {short_circuit: 2}\n")
	g := newGuard(t, oagent.GuardOptions{})
	for _, step := range []struct{ name, status string }{
		{"act", engagement.StatusAwaitingModel}, {"ask", engagement.StatusAwaitingReview}, {"act", engagement.StatusError},
	} {
		outcomeOf(t, g, call(a, step.name, `{}`), `{}`)
		all, _, err := g.Engagements.Page(t.Context(), "", "", 10)
		if err != nil || len(all) != 1 || all[0].Status != step.status {
			t.Errorf("%s: %+v, %v", step.name, all, err)
		}
	}
}
