package oagent_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// numbered is a rule of OpenAgentSpec v1 by its number in the text: what it lets
// happen, and what it does not. Rules of the text's own numbering follow each
// other through a section, with those below them as 13.1.
type numbered struct {
	rule         string
	holds, fails func(t *testing.T)
}

// accepts is a document that is read.
func accepts(document string) func(*testing.T) {
	return func(t *testing.T) {
		if _, err := oagent.ReadAgent([]byte(document), "agent.yaml"); err != nil {
			t.Error(err)
		}
	}
}

// rejects is a document that is not, with what is said of it.
func rejects(document, why string) func(*testing.T) {
	return func(t *testing.T) {
		a, err := oagent.ReadAgent([]byte(document), "agent.yaml")
		if a != nil || err == nil || !testkit.ContainsAll(err.Error(), why) {
			t.Errorf("got %v\nwant %s", err, why)
		}
	}
}

// acts is what becomes of calls, one after the other, of the agent with that body.
func acts(body string, moves ...move) func(*testing.T) {
	return func(t *testing.T) {
		a, g := agent(t, body), newGuard(t, oagent.GuardOptions{})
		for _, m := range moves {
			want(t, m.name+" "+m.inputs, outcomeOf(t, g, call(a, m.name, m.inputs), m.outputs), m.want)
		}
	}
}

// asserts is the assertion of look, after a call of find and one of get-trip.
func asserts(assertion string, kind engagement.Kind) func(*testing.T) {
	return acts("capabilities:\n  find: {}\n  get-trip: {}\n  look:\n    input_restriction:\n      assertion: >-\n        "+assertion+"\n",
		move{"find", `{"q":"a"}`, `{"n":1}`, ""}, move{"get-trip", `{"id":7}`, `{"seats":[{"free":true}]}`, ""}, move{"find", `{"q":"b"}`, `{"n":2}`, ""},
		move{"look", `{}`, `{}`, kind})
}

// confirms is a call that must be confirmed, and what becomes of its repetition.
func confirms(body string, approve bool, kind engagement.Kind) func(*testing.T) {
	return func(t *testing.T) {
		a, g := agent(t, body), newGuard(t, oagent.GuardOptions{})
		pay := call(a, "pay", `{"amount":5}`)
		want(t, "not confirmed", outcomeOf(t, g, pay, `{"ok":true}`), engagement.KindReviewPending)
		decide(t, g, pending(t, g).ID, approve)
		want(t, "decided", outcomeOf(t, g, pay, `{"ok":true}`), kind)
	}
}

// uses is with whose credentials a capability is used.
func uses(capability string, callerKnown bool, identity oagent.Identity) func(*testing.T) {
	return func(t *testing.T) {
		c, _ := agent(t, "capabilities:\n  get-trip: "+capability).Capability("get-trip")
		if got := c.Identity(callerKnown); got != identity {
			t.Errorf("got %+v, want %+v", got, identity)
		}
	}
}

// guards is what a guardrail makes of its tool's output, and of a call behind it.
func guards(side engagement.Side, assertion, output string, kind, after engagement.Kind) func(*testing.T) {
	return func(t *testing.T) {
		a := agent(t, "capabilities: {act: {}}\nguardrails:\n  "+string(side)+": {tool_name: check-text, assertion: '"+assertion+"'}\n")
		g := newGuard(t, oagent.GuardOptions{})
		b := binding(a)
		want(t, "an earlier one", kindOf(t, g.CheckGuardrail(t.Context(), b, side, jsontext.Value(`{"flagged":false}`))), "")
		want(t, "the guardrail", kindOf(t, g.CheckGuardrail(t.Context(), b, side, jsontext.Value(output))), kind)
		want(t, "a call", outcomeOf(t, g, call(a, "act", `{}`), `{}`), after)
		want(t, "CheckActive", kindOf(t, g.CheckActive(t.Context(), b)), after)
	}
}

// exposed is what an agent exposes after one call.
func exposed(exposes, object string) func(*testing.T) {
	return func(t *testing.T) {
		a, g := agent(t, "capabilities: {get-trip: {}}\n"+exposes), newGuard(t, oagent.GuardOptions{})
		want(t, "a call", outcomeOf(t, g, call(a, "get-trip", `{"id":7}`), `{"seats":3}`), "")
		e, err := g.Exposed(t.Context(), binding(a))
		if err != nil || string(e.Object) != object {
			t.Errorf("got %s, %v\nwant %s", e.Object, err, object)
		}
	}
}

// TestNumberedRules has each rule of the text that is decided here. Those about
// what a server does with an agent, and names, are elsewhere: TestOAgent has all
// that can be wrong with a document, TestLink references, and in caddymodule
// TestNumbered_rules_on_site has every rule as it shows on a running gateway.
func TestNumberedRules(t *testing.T) {
	document := func(old, by string) string { return strings.Replace(whole("get-trip: {}"), old, by, 1) }
	guardrail := func(text string) string { return whole("get-trip: {}", "guardrails: {input: "+text+"}") }
	const (
		input    = "capabilities:\n  find:\n    input_restriction: {assertion: recent.find.inputs.n < 5}\n"
		output   = "capabilities:\n  find:\n    output_restriction: {assertion: recent.find.outputs.n < 5}\n"
		before   = "capabilities:\n  pay:\n    input_restriction: {require_review: boss}\n"
		after    = "capabilities:\n  pay:\n    output_restriction: {require_review: boss}\n"
		collects = "  look:\n    input_restriction: {assertion: recent.find.outputs.n == 1}\n"
		refused  = engagement.KindInputRestriction
	)
	one, two := move{"tool-1", `{}`, ``, ""}, move{"tool-2", `{}`, ``, ""}
	oneEnds, twoEnds := move{"tool-1", `{}`, ``, engagement.KindShortCircuit}, move{"tool-2", `{}`, ``, engagement.KindShortCircuit}
	const circuit = "capabilities: {tool-1: {}, tool-2: {}}\nlifespan: {short_circuit: 3}\n"
	for _, test := range []numbered{
		{"agent/1 kind", accepts(whole("get-trip: {}")), rejects(document("v1/agent", "v2/agent"), "kind: unsupported")},
		{"agent/2 name", accepts(document("name: desk", "name: desk.eu")), rejects(without("name"), "name: missing")},
		{"agent/3 description", accepts(document("Answers questions.", "Answers.")), rejects(without("description"), "description: missing")},
		{"agent/4 intent", accepts(document("You answer questions.", "Answer.")), rejects(without("intent"), "intent: missing")},
		{"agent/5 owner", accepts(document("owner: team", "owner: a@example.com")), rejects(without("owner"), "owner: missing")},
		{
			"agent/6 capabilities",
			acts("capabilities: {find: {}}", move{"find", `{}`, `{}`, ""}),
			acts("capabilities: {find: {}}", move{"delete-trip", `{}`, `{}`, engagement.KindNotAllowed}),
		},
		{
			"agent/7 collect_results",
			acts("capabilities:\n  find: {collect_results: True}\n"+collects, move{"find", `{}`, `{"n":1}`, ""}, move{"look", `{}`, `{}`, ""}),
			acts("capabilities:\n  find: {collect_results: False}\n"+collects, move{"find", `{}`, `{"n":1}`, ""}, move{"look", `{}`, `{}`, refused}),
		},
		{
			"agent/7 collect_results absent",
			acts("capabilities:\n  find: {}\n"+collects, move{"find", `{}`, `{"n":1}`, ""}, move{"look", `{}`, `{}`, ""}),
			acts("capabilities:\n  find: {}\n"+collects, move{"find", `{}`, `{"n":2}`, ""}, move{"look", `{}`, `{}`, refused}),
		},
		{"agent/8 user_identity absent", uses("{}", true, oagent.Identity{User: true}), uses("{}", false, oagent.Identity{})},
		{"agent/8 user_identity", uses("{user_identity: True}", true, oagent.Identity{User: true}), uses("{user_identity: False}", true, oagent.Identity{})},
		{"agent/9 static_identity", uses("{user_identity: False, static_identity: ops}", true, oagent.Identity{Static: "ops"}), uses("{static_identity: ops}", true, oagent.Identity{User: true})},
		{"agent/9 static_identity without a caller", uses("{static_identity: ops}", false, oagent.Identity{Static: "ops"}), uses("{user_identity: False}", false, oagent.Identity{})},
		{"agent/10 input_restriction", acts(input, move{"find", `{"n":4}`, `{}`, ""}), acts(input, move{"find", `{"n":5}`, `{}`, refused})},
		{"agent/11 output_restriction", acts(output, move{"find", `{}`, `{"n":4}`, ""}), acts(output, move{"find", `{}`, `{"n":5}`, engagement.KindOutputRestriction})},
		{"agent/12 require_review before", confirms(before, true, ""), confirms(before, false, engagement.KindReviewDenied)},
		{"agent/12 require_review after", confirms(after, true, ""), confirms(after, false, engagement.KindReviewDenied)},
		{"agent/13 assertion: the Engagement alone", asserts(`history._total == 3`, ""), rejects(whole("get-trip: {input_restriction: {assertion: inputs.id == 7}}"), "variable inputs")},
		{"agent/13.1 assertion before the call", acts(input, move{"find", `{"n":4}`, `{"n":9}`, ""}), func(t *testing.T) {
			_, err := newGuard(t, oagent.GuardOptions{}).Begin(t.Context(), call(agent(t, input), "find", `{"n":5}`))
			if r := refusal(t, err); r.Made {
				t.Errorf("the call was made: %+v", r)
			}
		}},
		{"agent/13.2 assertion after the call", acts(output, move{"find", `{"n":9}`, `{"n":4}`, ""}), func(t *testing.T) {
			g, a := newGuard(t, oagent.GuardOptions{}), agent(t, output)
			ticket, err := g.Begin(t.Context(), call(a, "find", `{}`))
			if err != nil {
				t.Fatal(err)
			}
			if r := refusal(t, ticket.Finish(t.Context(), jsontext.Value(`{"n":5}`), 200)); !r.Made {
				t.Errorf("the call was not made: %+v", r)
			}
			b := binding(a)
			for _, e := range audit(t, g, b.Key()) {
				if e.Outputs != nil {
					t.Errorf("it was used: %+v", e)
				}
			}
		}},
		{"agent/13.3 assertion: any that fails", acts(input+collects, move{"find", `{"n":1}`, `{"n":1}`, ""}, move{"look", `{}`, `{}`, ""}), acts(input+collects, move{"find", `{"n":"1"}`, `{}`, refused}, move{"look", `{}`, `{}`, refused})},
		{"agent/14 guardrails", accepts(whole("get-trip: {}", "guardrails: {output: {tool_name: check, assertion: ok}}")), rejects(whole("get-trip: {}", "guardrails: {both: {tool_name: check, assertion: ok}}"), "guardrails.both: unknown key")},
		{"agent/15 guardrail", accepts(guardrail("{tool_name: check, assertion: ok}")), rejects(guardrail("{assertion: ok}"), "tool_name: missing")},
		{"agent/15.1 tool_name", accepts(guardrail("{tool_name: trains.check, assertion: ok}")), rejects(guardrail("{tool_name: 'oagent://check', assertion: ok}"), "tool_name: oagent://check")},
		{"agent/15.2 assertion", accepts(guardrail("{tool_name: check, assertion: ok}")), rejects(guardrail("{tool_name: check, assertion: 'ok &&'}"), "guardrails.input.assertion: Syntax")},
		{"agent/15.3 input guardrail, each time", guards(engagement.SideInput, "!flagged", `{"flagged":false}`, "", ""), guards(engagement.SideInput, "!flagged", `{"flagged":true}`, engagement.KindGuardrail, engagement.KindEnded)},
		{"agent/15.4 output guardrail, each time", guards(engagement.SideOutput, "!flagged", `{"flagged":false}`, "", ""), guards(engagement.SideOutput, "!flagged", `{"flagged":true}`, engagement.KindGuardrail, engagement.KindEnded)},
		{"agent/15.5 guardrail: the output alone", guards(engagement.SideInput, "output.flagged == false", `{"flagged":false}`, "", ""), func(t *testing.T) {
			a := agent(t, "capabilities: {act: {}}\nguardrails:\n  input: {tool_name: check-text, assertion: 'history._total >= 0'}\n")
			want(t, "the Engagement", kindOf(t, newGuard(t, oagent.GuardOptions{}).CheckGuardrail(t.Context(), binding(a), engagement.SideInput, jsontext.Value(`{}`))), engagement.KindUnchecked)
		}},
		{"agent/15.6 guardrail: no more tools", guards(engagement.SideInput, "!flagged", `{"flagged":false}`, "", ""), guards(engagement.SideInput, "!flagged", `{"flagged":null}`, engagement.KindGuardrail, engagement.KindEnded)},
		{"agent/16 exposes", exposed("exposes: {seats: recent.get-trip.outputs.seats}", `{"seats":3}`), exposed("exposes: {price: recent.get-trip.outputs.price}", `{}`)},
		{"agent/16 exposes: the Engagement alone", exposed("exposes: {n: history._total}", `{"n":1}`), rejects(whole("get-trip: {}", "exposes: {n: agent.name}"), "exposes.n: variable agent")},
		{"agent/17 lifespan", accepts(whole("get-trip: {}", "lifespan: {}")), rejects(whole("get-trip: {}", "lifespan: 3"), "lifespan: mapping")},
		{"agent/17.1 retain_memory", func(t *testing.T) {
			if !agent(t, "capabilities: {}").RetainMemory || !agent(t, "capabilities: {}\nlifespan: {retain_memory: True}").RetainMemory {
				t.Error("memory is not retained")
			}
		}, func(t *testing.T) {
			if agent(t, "capabilities: {}\nlifespan: {retain_memory: False}").RetainMemory {
				t.Error("memory is retained")
			}
		}},
		{"agent/17.2 short_circuit, one tool", acts(circuit, one, one, two), acts(circuit, one, one, oneEnds)},
		{"agent/17.2 short_circuit, two tools", acts(circuit, one, two, one, two, two), acts(circuit, one, two, one, two, one, twoEnds, move{"tool-1", `{}`, ``, engagement.KindEnded})},

		// The spellings of agents that are out there.
		{
			"published/hyphens and a key",
			acts("capabilities:\n  search-knowledge-base:\n    input_restriction:\n      assertion: recent.search-knowledge-base.inputs[\"base_id\"].startsWith(\"Acme/HR/\")\n", move{"search-knowledge-base", `{"base_id":"Acme/HR/1"}`, `{}`, ""}),
			acts("capabilities:\n  search-knowledge-base:\n    input_restriction:\n      assertion: recent.search-knowledge-base.inputs[\"base_id\"].startsWith(\"Acme/HR/\")\n", move{"search-knowledge-base", `{"base_id":"Acme/Board/1"}`, `{}`, refused}),
		},
		{
			"published/underscores and map",
			exposed("exposes: {ids: 'history.get_trip.map(t, t.inputs.id)'}", `{"ids":[7]}`),
			exposed("exposes: {ids: 'history.get_trip.map(t, t.inputs.no)'}", `{}`),
		},

		{"engagement/1 restrictions see it", asserts(`recent.get-trip.inputs.id == 7`, ""), asserts(`recent.get-trip.inputs.id == 8`, refused)},
		{"engagement/2 exposes see it", exposed("exposes: {id: 'recent.get-trip.inputs.id', list: history._list}", `{"id":7,"list":["get-trip"]}`), exposed("exposes: {id: recent.get-trip.inputs.no}", `{}`)},
		{"engagement/3 started_at", asserts(`started_at > timestamp("2020-01-01T00:00:00Z")`, ""), asserts(`started_at > timestamp("2999-01-01T00:00:00Z")`, refused)},
		{"engagement/3 user.id", asserts(`user.id == "alice"`, ""), asserts(`user.id == "bob"`, refused)},
		{"engagement/3 user.email", asserts(`user.email == "alice@example.com"`, ""), func(t *testing.T) {
			c := call(agent(t, "capabilities: {look: {input_restriction: {assertion: 'user.email != \"\"'}}}"), "look", `{}`)
			c.User.Email = ""
			want(t, "of another user", outcomeOf(t, newGuard(t, oagent.GuardOptions{}), c, `{}`), refused)
		}},
		{"engagement/3 recent._name", asserts(`recent._name == "find"`, ""), asserts(`recent._name == "look"`, refused)},
		{"engagement/3 recent.{name}.inputs", asserts(`recent.find.inputs.q == "b" && recent["get-trip"].inputs.id == 7`, ""), asserts(`recent.find.inputs.q == "a"`, refused)},
		{"engagement/3 recent.{name}.outputs", asserts(`recent.find.outputs.n == 2 && recent.get-trip.outputs.seats[0].free`, ""), asserts(`recent.find.outputs.m == 2`, refused)},
		{"engagement/3 history._list", asserts(`history._list == ["find", "get-trip", "find"]`, ""), asserts(`history._list[3] == "look"`, refused)},
		{"engagement/3 history._total", asserts(`history._total == 3`, ""), asserts(`history._total == 4`, refused)},
		{"engagement/3 history.{name}[x].inputs", asserts(`history.find[0].inputs.q == "a" && history.find[1].inputs.q == "b"`, ""), asserts(`history.find[2].inputs.q == "b"`, refused)},
		{"engagement/3 history.{name}[x].outputs", asserts(`history["get-trip"][0].outputs.seats.size() == 1`, ""), asserts(`history.find[0].outputs.n == 2`, refused)},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Run("holds", test.holds)
			t.Run("fails", test.fails)
		})
	}
}
