package oagent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// ruleOnSite is a rule of the text as it shows on a running site. The names are
// those of TestNumberedRules in package oagent.
type ruleOnSite struct {
	rule         string
	holds, fails siteCase
}

// agentRules returns the rules about what an agent is and may do.
func (s *rulesSite) agentRules() []ruleOnSite {
	const (
		collects = "\n  list-trips:\n    input_restriction: {assertion: recent.get-trip.outputs.public}\n"
		input    = "capabilities:\n  create-trip:\n    input_restriction: {assertion: 'recent.create-trip.inputs.to == \"Bern\"'}\n"
		stream   = "capabilities:\n  get-trip:\n    output_restriction: {assertion: '!recent.get-trip.outputs.contains(\"hunter\")'}\n"
		public   = "capabilities:\n  get-trip:\n    output_restriction: {assertion: recent.get-trip.outputs.public}\n"
		circuit  = "capabilities: {list-trips: {}, get-trip: {}}\nlifespan: {short_circuit: 3}\n"
		bearer   = "Bearer caller"
		ops      = "Bearer ops"
		bern     = `{"to":"Bern"}`
		zug      = `{"to":"Zug"}`
		one      = `{"id":"1"}`
		secret   = `{"id":"secret"}`
		refused  = "input_restriction"
		cutOff   = "short_circuit"
		ended    = "ended"
		inputs   = "  input: {tool_name: check-input, assertion: safe}\n"
		outputs  = "  output: {tool_name: check-output, assertion: output.safe}\n"
	)
	document := sitetest.AgentDocument("rejected", "  list-trips: {}\n")
	without := func(key string) string {
		return strings.Join(slices.DeleteFunc(strings.SplitAfter(document, "\n"), func(line string) bool { return strings.HasPrefix(line, key+":") }), "")
	}
	first, second := passes("listTrips", `{}`), passes("getTrip", one)
	return []ruleOnSite{
		{"agent/1 kind", s.defines("desk", `kind: openagentspec:v1/agent`), s.rejects(strings.Replace(document, "v1/agent", "v2/agent", 1), "kind: unsupported")},
		{"agent/2 name", s.defines("desk", "name: desk"), s.rejects(document+"---\n"+document, "rejected")},
		{"agent/3 description", s.defines("desk", "description: Tests."), s.rejects(without("description"), "description: missing")},
		{"agent/4 intent", s.defines("desk", "intent: You test."), s.rejects(without("intent"), "intent: missing")},
		{"agent/5 owner", s.defines("desk", "owner: tests"), s.rejects(without("owner"), "owner: missing")},
		{"agent/6 capabilities", s.describes, s.acts("capabilities: {list-trips: {}}", stopped("getTrip", one, "not_allowed"), first)},
		{"agent/6 capabilities: they exist", s.acts("capabilities: {list-trips: {}}", first), s.rejects(sitetest.AgentDocument("rejected", "  list-trip: {}\n"), "mean list-trips")},
		{"agent/7 collect_results", s.acts("capabilities:\n  get-trip: {collect_results: True}"+collects, second, first), s.acts("capabilities:\n  get-trip: {collect_results: False}"+collects, second, stopped("listTrips", `{}`, refused))},
		{"agent/7 collect_results absent", s.acts("capabilities:\n  get-trip: {}"+collects, second, first), s.acts("capabilities:\n  get-trip: {}"+collects, passes("getTrip", secret), stopped("listTrips", `{}`, refused))},
		{"agent/8 user_identity absent", s.uses("{}", "ada", bearer, bearer), s.uses("{}", "", "", "refused")},
		{"agent/8 user_identity", s.uses("{user_identity: True}", "", bearer, bearer), s.uses("{user_identity: False}", "ada", bearer, "")},
		{"OCP-User is never identity", s.namesItself(bearer), s.namesItself("")},
		{"agent/9 static_identity", s.uses("{user_identity: False, static_identity: OPS}", "ada", bearer, ops), s.uses("{static_identity: OPS}", "ada", bearer, bearer)},
		{"agent/9 static_identity without a caller", s.uses("{static_identity: OPS}", "", "", ops), s.uses("{user_identity: False}", "", bearer, "")},
		{"agent/9 static_identity: it is known", s.uses("{user_identity: False, static_identity: OPS}", "", bearer, ops), s.rejects(sitetest.AgentDocument("rejected", "  list-trips: {static_identity: OP}\n"), "identity OP")},
		{"agent/10 input_restriction", s.acts(input, passes("createTrip", bern)), s.acts(input, stopped("createTrip", zug, refused))},
		{"agent/11 output_restriction", s.acts(public, second), s.acts(public, withheld("getTrip", secret))},
		{"agent/12 require_review before", s.decides("approve", false), s.decides("deny", false)},
		{"agent/12 require_review after", s.decides("approve", true), s.decides("deny", true)},
		{"agent/13 assertion: the Engagement alone", s.asserts(`history._total == 3`, ""), s.rejects(strings.Replace(document, "list-trips: {}", "list-trips: {input_restriction: {assertion: inputs.id == 7}}", 1), "variable inputs")},
		{"agent/13.1 assertion before the call", s.acts(input, passes("createTrip", bern), passes("createTrip", bern)), s.acts(input, stopped("createTrip", zug, refused), stopped("createTrip", `{"to":"Bernex"}`, refused))},
		{"agent/13.2 assertion after the call", s.acts(public, second, second), s.acts(public, withheld("getTrip", secret), withheld("getTrip", secret))},
		{"agent/13.2 assertion after the call, of a stream", s.acts(stream, passes("getTrip", `{"id":"stream-open"}`)), s.acts(stream, withheld("getTrip", `{"id":"stream-secret"}`))},
		{"agent/13.2 assertion after the call, of a stream with progress", s.progresses(stream, "stream-open", "seats 3"), s.progresses(stream, "stream-secret", "withheld")},
		{"agent/13.3 assertion: any that fails", s.acts(public+collects, second, first), s.acts(public+collects, withheld("getTrip", secret), stopped("listTrips", `{}`, refused), second, first)},
		{"agent/14 guardrails", s.chats(inputs+outputs, "", "/in hello|/out fine", turn{"hello", "fine"}), s.rejects(document+"guardrails: {both: {tool_name: get-trip, assertion: ok}}\n", "guardrails.both: key")},
		{"agent/15 guardrail", s.chats(inputs, "", "/in hello", turn{"hello", "fine"}), s.rejects(document+"guardrails: {input: {assertion: ok}}\n", "guardrails.input.tool_name: missing")},
		{"agent/15.1 tool_name", s.chats(outputs, "", "/out fine", turn{"hello", "fine"}), s.rejects(document+"guardrails: {input: {tool_name: get-trips, assertion: ok}}\n", "tool get-trips")},
		{"agent/15.2 assertion", s.chats(inputs, "", "/in hello", turn{"hello", "fine"}), s.rejects(document+"guardrails: {input: {tool_name: get-trip, assertion: 'ok &&'}}\n", "guardrails.input.assertion: Syntax")},
		{"agent/15.3 input guardrail, each time", s.chats(inputs, "", "/in one|/in two|/in one", turn{"one", "fine"}, turn{"two", "fine"}, turn{"one", "fine"}), s.chats(inputs, "input", "/in one|/in forbidden", turn{"one", "fine"}, turn{"forbidden", "leaked"})},
		{"agent/15.4 output guardrail, each time", s.chats(outputs, "", "/out fine|/out well|/out fine", turn{"one", "fine"}, turn{"two", "well"}, turn{"one", "fine"}), s.chats(outputs, "output", "/out fine|/out forbidden", turn{"one", "fine"}, turn{"two", "forbidden"})},
		{"agent/15.5 guardrail: the output alone", s.chats("  input: {tool_name: check-input, assertion: output.safe && safe && by == \"k1\"}\n", "", "/in hello", turn{"hello", "fine"}), s.chats("  input: {tool_name: check-input, assertion: '\"history\" in output'}\n", "input", "/in hello", turn{"hello", "leaked"})},
		{"agent/15.6 guardrail: no more tools", s.chats(inputs+outputs, "", "/in one|/out fine|/in two|/out well", turn{"one", "fine"}, turn{"two", "well"}), s.chats(inputs+outputs, "output", "/in one|/out forbidden", turn{"one", "forbidden"})},
		{"agent/16 exposes", s.exposed("exposes: {seats: recent.get-trip.outputs.seats, id: recent.get-trip.inputs.id}", `{"seats":3,"id":"7"}`), s.exposed("exposes: {price: recent.get-trip.outputs.price}", `{}`)},
		{"agent/16 exposes: nothing if not populated", s.exposed("exposes: {n: history._total}", `{"n":2}`), s.exposed("", "")},
		{"agent/17 lifespan", s.acts("capabilities: {list-trips: {}}\nlifespan: {}", first), s.rejects(document+"lifespan: 3\n", "mapping")},
		{"agent/17.1 retain_memory", s.retains("True"), s.retains("False")},
		{"agent/17.2 short_circuit, one tool", s.acts(circuit, first, first, second), s.acts(circuit, first, first, stopped("listTrips", `{}`, cutOff), stopped("getTrip", one, ended))},
		{"agent/17.2 short_circuit, two tools", s.acts(circuit, first, second, first, second, second), s.acts(circuit, first, second, first, second, first, stopped("getTrip", one, cutOff), stopped("listTrips", `{}`, ended))},

		{"engagement/1 restrictions see it", s.asserts(`recent.get-trip.inputs.id == "1"`, ""), s.asserts(`recent.get-trip.inputs.id == "2"`, refused)},
		{"engagement/2 exposes see it", s.exposed("exposes: {id: recent.get-trip.inputs.id, list: history._list}", `{"id":"7","list":["get-trip","list-trips"]}`), s.exposed("exposes: {id: recent.get-trip.inputs.no}", `{}`)},
		{"engagement/3 started_at", s.asserts(`started_at > timestamp("2020-01-01T00:00:00Z")`, ""), s.asserts(`started_at > timestamp("2999-01-01T00:00:00Z")`, refused)},
		{"engagement/3 user.id", s.asserts(`user.id == "ada"`, ""), s.asserts(`user.id == "bob"`, refused)},
		{"engagement/3 user.email", s.asserts(`user.email == "ada@example.com"`, ""), s.asserts(`user.email == ""`, refused)},
		{"engagement/3 recent._name", s.asserts(`recent._name == "create-trip"`, ""), s.asserts(`recent._name == "list-trips"`, refused)},
		{"engagement/3 recent.{name}.inputs", s.asserts(`recent.create-trip.inputs.to == "Basel" && recent["get-trip"].inputs.id == "1"`, ""), s.asserts(`recent.create-trip.inputs.to == "Bern"`, refused)},
		{"engagement/3 recent.{name}.outputs", s.asserts(`recent.get-trip.outputs.public && recent.create-trip.outputs.seats == 3`, ""), s.asserts(`recent.get-trip.outputs.token == ""`, refused)},
		{"engagement/3 history._list", s.asserts(`history._list == ["create-trip", "get-trip", "create-trip"]`, ""), s.asserts(`history._list[3] == "list-trips"`, refused)},
		{"engagement/3 history._total", s.asserts(`history._total == 3`, ""), s.asserts(`history._total == 4`, refused)},
		{"engagement/3 history.{name}[x].inputs", s.asserts(`history.create-trip[0].inputs.to == "Bern" && history.create-trip[1].inputs.to == "Basel"`, ""), s.asserts(`history.create-trip[2].inputs.to == "Basel"`, refused)},
		{"engagement/3 history.{name}[x].outputs", s.asserts(`history["get-trip"][0].outputs.seats == 3`, ""), s.asserts(`history.create-trip[0].outputs.seats == 2`, refused)},
	}
}

// serverRules returns the rules about names, and about what a server offers. The
// text does not number the former: they are its points in their order.
func (s *rulesSite) serverRules() []ruleOnSite {
	const one = `{"id":"1"}`
	list := passes("listTrips", `{}`)
	document := sitetest.AgentDocument("rejected", "  list-trips: {}\n")
	remote := s.rejects(strings.Replace(document, "list-trips", "oagent://example.com/agents/desk", 1), "remote_agents")
	return []ruleOnSite{
		{"names/2 agent_name is unique", s.defines("desk", "name: desk"), s.rejects(document+"---\n"+document, "rejected")},
		{"names/3 RFC 1123", s.acts("capabilities: {get-trip: {}}", passes("getTrip", one)), s.rejects(strings.Replace(document, "name: rejected", "name: Rejected", 1), "name:")},
		{"names/4 complete tool_name", s.acts("capabilities: {trips.get-trip: {}}", passes("getTrip", one)), s.rejects(strings.Replace(document, "list-trips", "trip", 1), "tool agent trip")},
		{"names/5.1 agent_name", s.acts("capabilities: {desk: {}, list-trips: {}}", list), s.rejects(strings.Replace(document, "list-trips", "desks", 1), "tool agent desks")},
		{"names/5.2 oagent://agent_name", s.acts("capabilities: {'oagent://desk': {}, list-trips: {}}", list), s.rejects(strings.Replace(document, "list-trips", "oagent://desks", 1), "agent desks")},
		{"names/5.3 remote reference", s.acts("capabilities: {list-trips: {}}", list), remote},
		{"names/6 a tool before an agent", s.acts("capabilities: {"+agentNamedAsATool+": {}}", list), s.acts("capabilities: {'oagent://"+agentNamedAsATool+"': {}}", stopped("listTrips", `{}`, "not_allowed"))},
		{"server/1 surfacing", s.surfaces, func(t *testing.T) {
			if p := s.With(t).Problem(s.With(t).Get("/agents/ghost")); p.Status != 404 {
				t.Errorf("%+v", p)
			}
		}},
		{"server/2 documents define agents", s.defines("desk", "capabilities:"), s.rejects("kind: other\n", "kind: unsupported")},
		{"server/3.1 GET gives YAML", s.defines("desk", "name: desk"), func(t *testing.T) {
			if a := s.With(t).Get("/agents/desk"); strings.Contains(a.Body, "name: agent-1") || a.Header.Get("Etag") == "" {
				t.Errorf("%v %s", a.Header, a.Body)
			}
		}},
		{"server/3.2 it is advertised by oagent://", s.defines("desk", "name: desk"), remote},
		{"server/3.3 POST", s.defines("desk", "name: desk"), func(t *testing.T) {
			calls, asked := apiCalls(s.api), s.model.Calls.Load()
			for _, path := range []string{"/agents/desk", "/agents"} {
				k := s.talker(t, "desk", "http")
				a := k.request("POST", path, `{"input":"hello"}`)
				p := k.With(t).Problem(a)
				if p.Status != 405 || !strings.Contains(p.Detail, "agent") {
					t.Errorf("got %d %q, want 405 with the word agent", p.Status, p.Detail)
				}
				if allow, location := a.Header.Get("Allow"), a.Header.Get("Location"); allow != "GET, HEAD" || location != "" {
					t.Errorf("got Allow %q and Location %q, want GET, HEAD and none", allow, location)
				}
				if a := k.request("GET", "/engagements/"+k.talk, ""); a.Status != 404 {
					t.Errorf("an Engagement was begun: %d %s", a.Status, a.Body)
				}
			}
			if apiCalls(s.api) != calls || s.model.Calls.Load() != asked {
				t.Error("something behind the gateway was asked")
			}
		}},
	}
}

// ruleNumbers are all rules of the text, in its order.
var ruleNumbers = strings.Fields(`agent/1 agent/2 agent/3 agent/4 agent/5 agent/6 agent/7 agent/8 agent/9 agent/10 agent/11 agent/12 agent/13
	agent/13.1 agent/13.2 agent/13.3 agent/14 agent/15 agent/15.1 agent/15.2 agent/15.3 agent/15.4 agent/15.5 agent/15.6 agent/16
	agent/17 agent/17.1 agent/17.2 engagement/1 engagement/2 engagement/3 server/1 server/2 server/3.1 server/3.2 server/3.3`)

// TestNumbered_rules_on_site has each rule of the text, by its number there, as it
// shows to the clients of a running gateway: by MCP, by OTC and by plain requests.
func TestNumbered_rules_on_site(t *testing.T) { testNumberedRules(t, false) }

// TestNumbered_rules_in_log_only has the same calls, with the rules that can be in log only: none is refused, held or
// changed by one, and the record has what each would have done.
func TestNumbered_rules_in_log_only(t *testing.T) { testNumberedRules(t, true) }

func testNumberedRules(t *testing.T, tries bool) {
	s := &rulesSite{Site: sitetest.NewSite(t), Checker: sitetest.NewChecker(t), model: sitetest.NewModel(t), api: new(sitetest.RulesAPI), tries: tries}
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, s.Checker.URL))
	rules := slices.Concat(s.agentRules(), s.serverRules())
	s.startRules()
	covered := make(map[string]bool)
	for _, rule := range rules {
		number, _, _ := strings.Cut(rule.rule, " ")
		covered[number] = true
		t.Run(rule.rule, func(t *testing.T) {
			t.Run("holds", rule.holds)
			t.Run("fails", rule.fails)
		})
	}
	for _, number := range ruleNumbers {
		if !covered[number] {
			t.Errorf("the rule %s has no test", number)
		}
	}
}
