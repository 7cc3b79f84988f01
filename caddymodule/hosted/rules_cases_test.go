package hosted_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// calledAgents are agents that those of the rules call.
var calledAgents = map[string]string{
	"helper":     "capabilities: {get-trip: {}}",
	"list-trips": "capabilities: {}", // there is a tool of this name too
}

// calledModel is the model of calledAgents.
func calledModel(r *modelserver.Request) modelserver.Step {
	return modelserver.Step{Text: "This is " + agentOf(r) + "."}
}

var saysDone = modelserver.Step{Text: "Done."}

// then plays calls of tools, one after the other: name, arguments, name, arguments … Then the model
// says that it is done.
func then(pairs ...string) func(*modelserver.Request) modelserver.Step {
	var steps []modelserver.Step
	for i := 0; i < len(pairs); i += 2 {
		steps = append(steps, sitetest.Calls(pairs[i], pairs[i+1]))
	}
	return sitetest.Play(append(steps, saysDone)...)
}

// saysAll says what of the request the function returns.
func saysAll(of func(*modelserver.Request) string) func(*modelserver.Request) modelserver.Step {
	return func(r *modelserver.Request) modelserver.Step { return modelserver.Step{Text: of(r)} }
}

func toolNames(r *modelserver.Request) string {
	var names []string
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const (
	tripOne  = `{"id":"1"}`
	getOne   = "GET /trips/1 Bearer ann"
	getAll   = "GET /trips Bearer ann"
	postTrip = "POST /trips Bearer ann"
	toBern   = `{"to":"Bern"}`
)

// hostedFlowRules returns the rules about names and agents.
func hostedFlowRules() []hostedRule {
	const (
		input   = "guardrails: {input: {tool_name: check-input, assertion: safe}}\n"
		output  = "guardrails: {output: {tool_name: check-output, assertion: output.safe}}\n"
		both    = "guardrails: {input: {tool_name: check-input, assertion: safe}, output: {tool_name: check-output, assertion: safe}}\n"
		circuit = "capabilities: {get-trip: {}, list-trips: {}}\nlifespan: {short_circuit: 3}"
		secret  = `{"id":"secret"}`
		public  = "{output_restriction: {assertion: recent.get-trip.outputs.public}}"
		collect = "capabilities:\n  get-trip: {%s}\n  list-trips: {input_restriction: {assertion: recent.get-trip.outputs.public}}\n"
	)
	get := then("get-trip", tripOne)
	asks := sitetest.Play(modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "ask-user", Arguments: `{"question":"Where?"}`}}}, saysDone)
	identity := func(number, capability string, api ...string) hostedRule {
		return hostedRule{rule: number, body: "capabilities: {get-trip: " + capability + "}", respond: get, api: api}
	}
	anonymous := func(k *hostedTalk) { k.begin("hello", "Authorization", "") }
	says := func(inputs ...string) func(*hostedTalk) {
		return func(k *hostedTalk) {
			k.begin(inputs[0])
			for _, in := range inputs[1:] {
				k.add(in)
			}
		}
	}
	reviewed := func(user, decision string, header ...string) func(*hostedTalk) {
		return func(k *hostedTalk) {
			k.begin("hello")
			k.decideAs(user, decision, header...)
		}
	}
	return []hostedRule{
		{rule: "names/4 complete tool_name", body: "capabilities: {trips.get-trip: {}}", respond: func(r *modelserver.Request) modelserver.Step {
			if len(r.Messages) > 1 {
				return saysDone
			}
			return sitetest.Calls(r.Tools[0].Name, tripOne)
		}, api: []string{getOne}, model: `"seats":3`},
		{rule: "names/4 not a part of it", body: "capabilities: {get-trip: {}}", respond: then("trip", tripOne, "get", tripOne), model: "no tool trip get"},
		{rule: "names/5.1 agent_name", body: "capabilities: {helper: {}}", respond: then("helper", `{"input":"hi"}`), model: `"text":"This is helper."`},
		{rule: "names/5.2 oagent://agent_name", body: "capabilities: {'oagent://helper': {}}", respond: then("helper", `{"input":"hi"}`), model: `"text":"This is helper."`},
		{rule: "names/6 a tool before an agent", body: "capabilities: {list-trips: {}}", respond: then("list-trips", `{}`), api: []string{getAll}, model: `"seats":3`},
		{rule: "names/6 an agent exclusively", body: "capabilities: {'oagent://list-trips': {}}", respond: then("list-trips", `{"input":"hi"}`), model: `"text":"This is list-trips."`},

		{rule: "agent/4 intent", body: "capabilities: {}", respond: saysAll(func(r *modelserver.Request) string {
			return fmt.Sprint(strings.HasPrefix(agentOf(r), "rule-"))
		}), text: "true"},
		{rule: "agent/6 describes", body: "capabilities: {get-trip: {}}", respond: saysAll(func(r *modelserver.Request) string {
			i := slices.IndexFunc(r.Tools, func(t modelserver.Tool) bool { return t.Name == "get-trip" })
			return toolNames(r) + " " + string(r.Tools[i].Schema)
		}), text: `ask-user get-trip {"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`},
		{rule: "agent/6 describes agents", body: "capabilities: {helper: {}}", respond: saysAll(func(r *modelserver.Request) string {
			return r.Tools[0].Description
		}), text: "Says what helper knows."},
		{rule: "agent/6 invokes and parses", body: "capabilities: {get-trip: {}}", respond: get, api: []string{getOne}, model: `"result":{"public":true,"seats":3}`, turns: 2},
		{rule: "agent/6 not without a capability", body: "capabilities: {get-trip: {}}", respond: then("delete-trip", tripOne), model: "no tool delete-trip"},
		{rule: "agent/7 collect_results absent", body: fmt.Sprintf(collect, ""), respond: then("get-trip", tripOne, "list-trips", "{}"), api: []string{getOne, getAll}},
		{rule: "agent/7 collect_results", body: fmt.Sprintf(collect, "collect_results: True"), respond: then("get-trip", tripOne, "list-trips", "{}"), api: []string{getOne, getAll}},
		{rule: "agent/7 collect_results: False", body: fmt.Sprintf(collect, "collect_results: False"), respond: then("get-trip", tripOne, "list-trips", "{}"), api: []string{getOne}, model: `"seats":3 input_restriction`},
		identity("agent/8 user_identity absent", "{}", getOne),
		identity("agent/8 user_identity", "{user_identity: True}", getOne),
		identity("agent/8 user_identity: False", "{user_identity: False}", "GET /trips/1"),
		identity("agent/9 static_identity", "{user_identity: False, static_identity: OPS}", "GET /trips/1 Bearer ops"),
		identity("agent/9 static_identity with a user", "{static_identity: OPS}", getOne),
		{rule: "agent/9 static_identity, user without credentials", body: "capabilities: {get-trip: {user_identity: False, static_identity: OPS}}", respond: get, act: anonymous, api: []string{"GET /trips/1 Bearer ops"}},
		{
			rule: "agent/10 input_restriction", body: "capabilities: {create-trip: {input_restriction: {assertion: 'recent.create-trip.inputs.to == \"Bern\"'}}}",
			respond: then("create-trip", `{"to":"Zug"}`, "create-trip", toBern), api: []string{postTrip}, model: `input_restriction "seats":3`,
		},
		{
			rule: "agent/11 output_restriction", body: "capabilities: {get-trip: " + public + "}",
			respond: then("get-trip", secret, "get-trip", tripOne), api: []string{"GET /trips/secret Bearer ann", getOne}, model: `output_restriction "seats":3`, unseen: "hunter2",
		},
		{rule: "agent/12 require_review, waits", body: "capabilities: {create-trip: {input_restriction: {require_review: boss}}}", respond: then("create-trip", toBern), status: "awaiting-verification"},
		{rule: "agent/12 require_review before", body: "capabilities: {create-trip: {input_restriction: {require_review: boss}}}", respond: then("create-trip", toBern), act: reviewed("boss", "approve"), api: []string{postTrip}},
		{rule: "agent/12 require_review denied", body: "capabilities: {create-trip: {input_restriction: {require_review: boss}}}", respond: then("create-trip", toBern), act: reviewed("boss", "deny"), model: "denied"},
		{rule: "agent/12 require_review after", body: "capabilities: {get-trip: {output_restriction: {require_review: boss}}}", respond: then("get-trip", secret), act: reviewed("boss", "deny"), api: []string{"GET /trips/secret Bearer ann"}, model: "denied", unseen: "hunter2"},
		{rule: "agent/12 require_review by an agent", body: "capabilities: {create-trip: {input_restriction: {require_review: helper}}}", respond: then("create-trip", toBern), act: reviewed("robot", "approve", "X-Act-As", "helper"), api: []string{postTrip}},
		{rule: "agent/12 require_review of an agent", body: "capabilities: {'oagent://helper': {input_restriction: {require_review: boss}}}", respond: then("helper", `{"input":"hi"}`), act: reviewed("boss", "approve"), model: "This is helper."},
		{rule: "agent/13 assertion: the Engagement alone", body: "capabilities: {get-trip: {}, list-trips: {input_restriction: {assertion: 'history._list == [\"get-trip\"]'}}}", respond: then("list-trips", "{}", "get-trip", tripOne, "list-trips", "{}"), api: []string{getOne, getAll}, model: "input_restriction"},
		{rule: "agent/13.1 assertion before the call", body: "capabilities: {create-trip: {input_restriction: {assertion: 'history._total < 1'}}}", respond: then("create-trip", toBern, "create-trip", toBern), api: []string{postTrip}, model: "input_restriction"},
		{rule: "agent/13.1 assertion before an agent is called", body: "capabilities: {helper: {input_restriction: {assertion: 'recent.helper.inputs.input != \"hi\"'}}}", respond: then("helper", `{"input":"hi"}`), model: "input_restriction", unseen: "This is helper"},
		{rule: "agent/13.2 assertion after the call", body: "capabilities: {get-trip: " + public + ", list-trips: {input_restriction: {assertion: 'history._total == 0 || !recent.get-trip.outputs.public'}}}", respond: then("get-trip", secret, "list-trips", "{}"), api: []string{"GET /trips/secret Bearer ann"}, model: "output_restriction input_restriction", unseen: "hunter2"},
		{rule: "agent/13.2 assertion after a stream", body: "capabilities: {get-trip: {output_restriction: {assertion: '!recent.get-trip.outputs.contains(\"hunter\")'}}}", respond: then("get-trip", `{"id":"stream-secret"}`), api: []string{"GET /trips/stream-secret Bearer ann"}, model: "output_restriction", unseen: "hunter2"},
		{rule: "agent/13.3 an assertion that cannot be evaluated fails", body: "capabilities: {list-trips: {}, get-trip: {input_restriction: {assertion: recent.list-trips.outputs.no}}}", respond: get, model: "input_restriction"},
		{rule: "agent/13.3 parallel calls", body: "capabilities: {get-trip: " + public + "}", respond: sitetest.Play(modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "get-trip", Arguments: secret}, {ID: "2", Name: "get-trip", Arguments: secret}}}, saysDone), api: []string{"GET /trips/secret Bearer ann", "GET /trips/secret Bearer ann"}, model: "output_restriction", unseen: "hunter2"},

		{rule: "agent/14 guardrails", body: "capabilities: {}\n" + both, respond: sitetest.Play(saysDone), checked: "/in hello|/out Done."},
		{rule: "agent/15 guardrail", body: "capabilities: {}\n" + input, respond: sitetest.Play(saysDone), checked: "/in hello"},
		{rule: "agent/15.1 tool_name", body: "capabilities: {}\n" + output, respond: sitetest.Play(saysDone), checked: "/out Done."},
		{rule: "agent/15.1 the model has no such tool", body: "capabilities: {get-trip: {}}\n" + output, respond: then("check-output", `{"text":"x"}`), checked: "/out Done.", model: "no tool check-output"},
		{rule: "agent/15.2 assertion", body: "capabilities: {}\nguardrails: {input: {tool_name: check-input, assertion: 'by == \"other\"'}}", respond: sitetest.Play(saysDone), checked: "/in hello", status: "error", kind: "guardrail"},
		{rule: "agent/15.3 input guardrail, each time", body: "capabilities: {}\n" + input, respond: asks, act: says("hello", "Here"), checked: "/in hello|/in Here"},
		{rule: "agent/15.3 input guardrail, the second time", body: "capabilities: {}\n" + input, respond: asks, act: says("hello", "forbidden"), checked: "/in hello|/in forbidden", status: "error", kind: "guardrail", turns: 1, unseen: "forbidden"},
		{rule: "agent/15.4 output guardrail, each time", body: "capabilities: {}\n" + output, respond: asks, act: says("hello", "Here"), checked: "/out Where?|/out Done."},
		{rule: "agent/15.4 output guardrail, the question", body: "capabilities: {}\n" + output, respond: sitetest.Play(sitetest.Calls("ask-user", `{"question":"forbidden"}`), saysDone), checked: "/out forbidden", status: "error", kind: "guardrail"},
		{rule: "agent/15.4 output guardrail, the answer", body: "capabilities: {}\n" + output, respond: sitetest.Play(modelserver.Step{Text: "forbidden"}), checked: "/out forbidden", status: "error", kind: "guardrail"},
		{rule: "agent/15.5 guardrail: the output alone", body: "capabilities: {}\nguardrails: {input: {tool_name: check-input, assertion: 'output.safe && safe && by == \"k1\"'}}", respond: sitetest.Play(saysDone), checked: "/in hello"},
		{rule: "agent/15.5 guardrail: not the Engagement", body: "capabilities: {}\nguardrails: {input: {tool_name: check-input, assertion: '\"user\" in output'}}", respond: sitetest.Play(saysDone), checked: "/in hello", status: "error", kind: "guardrail"},
		{rule: "agent/15.6 no more tools, no model", body: "capabilities: {get-trip: {}}\n" + both, respond: get, act: says("forbidden"), checked: "/in forbidden", status: "error", kind: "guardrail", unseen: "forbidden"},
		{rule: "agent/15.6 of a called agent", body: "capabilities: {helper: {}}\nguardrails: {output: {tool_name: check-output, assertion: '!safe'}}", respond: then("helper", `{"input":"hi"}`), checked: "/out Done.", status: "error", kind: "guardrail"},
		{rule: "agent/16 exposes", body: "capabilities: {get-trip: {}, list-trips: {}}\nexposes: {seats: recent.get-trip.outputs.seats, id: recent.get-trip.inputs.id, none: recent.list-trips.inputs}", respond: get, api: []string{getOne}, exposes: `{"seats":3,"id":"1"}`},
		{rule: "agent/16 exposes nothing that is withheld", body: "capabilities: {get-trip: " + public + "}\nexposes: {token: recent.get-trip.outputs.token}", respond: then("get-trip", secret), api: []string{"GET /trips/secret Bearer ann"}, exposes: `{}`},
		{rule: "agent/16 exposes if it fails", body: "capabilities: {get-trip: {}}\nexposes: {seats: recent.get-trip.outputs.seats}", respond: sitetest.Play(sitetest.Calls("get-trip", tripOne), modelserver.Step{Status: 400, Error: "bad"}), api: []string{getOne}, exposes: `{"seats":3}`, status: "error", kind: "model"},
		{rule: "agent/17 lifespan", body: "capabilities: {get-trip: {}}\nlifespan: {}", respond: get, api: []string{getOne}},
		{rule: "agent/17.1 retain_memory: False", body: "capabilities: {}\nlifespan: {retain_memory: False}", respond: remembers, act: twice, text: "A new user."},
		{rule: "agent/17.1 retain_memory", body: "capabilities: {}\nlifespan: {retain_memory: True}", respond: remembers, act: twice, text: "You again."},
		{rule: "agent/17.1 retain_memory absent", body: "capabilities: {}", respond: remembers, act: twice, text: "You again."},
		{rule: "agent/17.2 short_circuit", body: circuit, respond: then("get-trip", tripOne, "get-trip", tripOne, "get-trip", tripOne), api: []string{getOne, getOne}, status: "error", kind: "short_circuit", turns: 3},
		{rule: "agent/17.2 short_circuit, two tools", body: circuit, respond: then("get-trip", tripOne, "list-trips", "{}", "get-trip", tripOne, "list-trips", "{}", "get-trip", tripOne, "list-trips", "{}"), api: []string{getOne, getAll, getOne, getAll, getOne}, status: "error", kind: "short_circuit", turns: 6},
		{rule: "agent/17.2 short_circuit, not violated", body: circuit, respond: then("get-trip", tripOne, "get-trip", tripOne, "list-trips", "{}", "get-trip", tripOne, "get-trip", tripOne), api: []string{getOne, getOne, getAll, getOne, getOne}},
	}
}

// remembers says whether it knows the user from an earlier Engagement.
var remembers = saysAll(func(r *modelserver.Request) string {
	if len(r.Messages) > 1 && strings.Contains(r.Messages[0].Text, "first word") {
		return "You again."
	}
	return "A new user."
})

// twice begins two Engagements, one after the other.
func twice(k *hostedTalk) {
	k.begin("first word")
	sitetest.Eventually(k.t, "what is retained", func() bool {
		k.begin("hello")
		return k.last.Text == "You again." || strings.Contains(k.rules[k.agent].rule, "False")
	})
}

// hostedEngagementRules returns the rules about the Engagement: list-trips asserts what the calls
// before it have left there.
func hostedEngagementRules() []hostedRule {
	var rules []hostedRule
	add := func(rule, assertion string) {
		rules = append(rules, hostedRule{
			rule: rule, body: "capabilities:\n  create-trip: {}\n  get-trip: {}\n  list-trips:\n    input_restriction:\n      assertion: >-\n        " + assertion,
			respond: then("create-trip", toBern, "get-trip", tripOne, "create-trip", `{"to":"Basel"}`, "list-trips", "{}"),
			act:     func(k *hostedTalk) { k.begin("hello", "X-Test-Email", "ann@example.com") },
			api:     []string{postTrip, getOne, postTrip, getAll}, turns: 5,
		})
	}
	add("engagement/1 restrictions see it", `recent.get-trip.inputs.id == "1" && history._total == 3`)
	add("engagement/3 started_at", `started_at > timestamp("2020-01-01T00:00:00Z") && started_at < timestamp("2999-01-01T00:00:00Z")`)
	add("engagement/3 user.id", `user.id == "ann"`)
	add("engagement/3 user.email", `user.email == "ann@example.com"`)
	add("engagement/3 recent._name", `recent._name == "create-trip"`)
	add("engagement/3 recent.{name}.inputs", `recent.create-trip.inputs.to == "Basel"`)
	add("engagement/3 recent.{name}.outputs", `recent.get-trip.outputs.public && recent.create-trip.outputs.seats == 3`)
	add("engagement/3 history._list", `history._list == ["create-trip", "get-trip", "create-trip"]`)
	add("engagement/3 history._total", `history._total == 3`)
	add("engagement/3 history.{name}[x].inputs", `history.create-trip[0].inputs.to == "Bern" && history.create-trip[1].inputs.to == "Basel"`)
	add("engagement/3 history.{name}[x].outputs", `history["get-trip"][0].outputs.seats == 3`)
	return append(rules, hostedRule{
		rule: "engagement/2 exposes see it", body: "capabilities: {helper: {}}\nexposes: {list: history._list, said: recent.helper.outputs.text, user: user.id}",
		respond: then("helper", `{"input":"hi"}`), exposes: `{"list":["helper"],"said":"This is helper.","user":"ann"}`,
	}, hostedRule{
		rule: "engagement/3 agents in it", body: "capabilities: {helper: {}, get-trip: {input_restriction: {assertion: 'recent.helper.inputs.input == \"hi\" && recent.helper.outputs.text == \"This is helper.\" && history._list == [\"helper\"]'}}}",
		respond: then("helper", `{"input":"hi"}`, "get-trip", tripOne), api: []string{getOne},
	})
}

// hostedServerRules returns the rules about the server.
func hostedServerRules() []hostedRule {
	defines := func(k *hostedTalk) {
		a := k.with(k.t).As("ann", "GET", "/agents/"+k.agent, "")
		if kind := a.Header.Get("Content-Type"); a.Status != http.StatusOK || kind != "application/yaml" {
			k.t.Errorf("definition: got the status %d with %s, want 200 with application/yaml", a.Status, kind)
		}
		if a.Header.Get("Etag") == "" || !strings.Contains(a.Body, "name: "+k.agent+"\n") {
			k.t.Errorf("definition: got the headers %v, want an Etag; got %s, want the name %s", a.Header, a.Body, k.agent)
		}
		k.begin("hello")
	}
	server := func(rule string, act func(*hostedTalk)) hostedRule {
		return hostedRule{rule: rule, body: "capabilities: {}", respond: sitetest.Play(saysDone), act: act}
	}
	return []hostedRule{
		server("server/1 surfacing", func(k *hostedTalk) {
			a := k.with(k.t).As("ann", "GET", "/agents", "")
			if a.Status != http.StatusOK || !strings.Contains(a.Body, `"`+k.agent+`"`) || !strings.Contains(a.Body, `"helper"`) {
				k.t.Errorf("index: status %d, %s", a.Status, a.Body)
			}
			k.begin("hello")
		}),
		server("server/3.1 GET gives YAML", defines),
		server("server/3.2 the same path by oagent://", defines),
		server("server/3.3 POST to the same path", func(k *hostedTalk) {
			k.begin("hello")
			if !strings.HasPrefix(k.location, "/engagements/") {
				k.t.Errorf("location %q", k.location)
			}
		}),
		server("server/3.3.1 input in JSON", func(k *hostedTalk) {
			k.begin("héllo \" \u2028 \U0001f600")
			if got := k.requests()[0].Messages[0].Text; got != "héllo \" \u2028 \U0001f600" {
				k.t.Errorf("the model got %q", got)
			}
		}),
		server("server/3.3.2 a new Engagement with that agent", func(k *hostedTalk) {
			k.begin("hello")
			first := k.location
			k.begin("hello")
			if k.location == first || k.last.Agent != k.agent || len(k.requests()) != 2 {
				k.t.Errorf("%s and %s, state %+v", first, k.location, k.last)
			}
		}),
		server("server/3.3.3 303 to the state in JSON", func(k *hostedTalk) {
			a := k.with(k.t).As("ann", "POST", "/agents/"+k.agent, `{"input":"hello"}`)
			k.location = a.Header.Get("Location")
			if a.Status != http.StatusSeeOther || k.location == "" {
				k.t.Fatalf("status %d, %v", a.Status, a.Header)
			}
			state := k.with(k.t).As("ann", "GET", k.location, "", "Prefer", "wait=60")
			if state.Header.Get("Content-Type") != "application/json" || state.Header.Get("Cache-Control") != "no-store" {
				k.t.Errorf("state: %v", state.Header)
			}
			k.last = k.with(k.t).View(state)
		}),
	}
}

// hostedModelFaults returns what becomes of an Engagement when the API of the model fails.
func hostedModelFaults() []hostedRule {
	failing := func(times int, first modelserver.Step) func(*modelserver.Request) modelserver.Step {
		seen := make(map[string]int) // the two wire formats are tested one after the other
		return func(r *modelserver.Request) modelserver.Step {
			if seen[agentOf(r)]++; seen[agentOf(r)] <= times {
				return first
			}
			return saysDone
		}
	}
	retried := func(first modelserver.Step) func(*modelserver.Request) modelserver.Step { return failing(1, first) }
	const plain = "capabilities: {get-trip: {}}"
	fails := func(rule, kind string, step modelserver.Step) hostedRule {
		return hostedRule{rule: rule, body: plain, respond: sitetest.Play(step), status: "error", kind: kind, turns: 1}
	}
	badCall := func(rule string, call modelserver.Call, words string, api ...string) hostedRule {
		return hostedRule{rule: rule, body: plain, respond: sitetest.Play(modelserver.Step{Calls: []modelserver.Call{call}}, saysDone), model: words, api: api, turns: 2}
	}
	never := make(chan struct{})
	limited := modelserver.Step{Status: 429, Error: "slow down", Header: http.Header{"Retry-After": {"1"}}}
	errorEvent := modelserver.Step{Text: "Half of a text", FailMidStream: true, Error: "overloaded", ErrorCode: "overloaded_error"}
	brokenStream := modelserver.Step{Text: strings.Repeat("Half of a text. ", 40), CutAfter: 700}
	return []hostedRule{
		{rule: "fault 429, then not", body: plain, options: "retries 1", respond: retried(limited), act: func(k *hostedTalk) {
			began := time.Now()
			k.begin("hello")
			if took := time.Since(began); took < time.Second {
				k.t.Errorf("the request was repeated after %s, and the API asked to wait a second", took)
			}
		}, turns: 2},
		{rule: "fault 503, then not", body: plain, options: "retries 1", respond: retried(modelserver.Step{Status: 503, Error: "overloaded"}), turns: 2},
		{rule: "fault broken before the stream, then not", body: plain, options: "retries 1", respond: retried(modelserver.Step{Text: "Half", CutAfter: 1}), turns: 2},
		fails("fault 429", "model", limited),
		fails("fault 429 for an hour", "model", modelserver.Step{Status: 429, Error: "slow down", Header: http.Header{"Retry-After": {"3600"}}}),
		fails("fault 500", "model", modelserver.Step{Status: 500, Error: "secret-detail-of-the-api"}),
		fails("fault 401", "model", modelserver.Step{Status: 401, ErrorCode: "authentication_error", Error: "bad key"}),
		fails("fault malformed", "model", modelserver.Step{Body: `{"choices":`}),
		fails("fault page of a proxy", "model", modelserver.Step{Body: `<html>`, Header: http.Header{"Content-Type": {"text/html"}}}),
		fails("fault malformed stream", "model", modelserver.Step{Body: "data: {\"choices\"\n\n", Header: http.Header{"Content-Type": {"text/event-stream"}}}),
		fails("fault empty stream", "model", modelserver.Step{Body: "\n", Header: http.Header{"Content-Type": {"text/event-stream"}}}),
		fails("fault error event", "model", errorEvent),
		fails("fault broken stream", "model", brokenStream),
		{rule: "fault error event, then not", body: plain, options: "retries 1", respond: retried(errorEvent), turns: 2},
		{rule: "fault broken stream, then not", body: plain, options: "retries 1", respond: retried(brokenStream), turns: 2},
		{rule: "fault 429 longer than the retries", body: plain, options: "retries 1", respond: failing(2, limited), act: func(k *hostedTalk) {
			k.location = k.with(k.t).Begin("ann", k.agent, "hello", "Authorization", "Bearer ann")
			testkit.Eventually(k.t, "the time of the next request", func() bool {
				k.last = k.with(k.t).View(k.with(k.t).As("ann", "GET", k.location, ""))
				return k.last.RetryAt != ""
			})
			if k.last.Status != "awaiting-llm" || k.last.Queued {
				k.t.Errorf("state %+v", k.last)
			}
			k.wait()
		}, turns: 3},
		{
			rule: "fault 503 for longer than the limit of time", body: plain, options: "retries 1", status: "error", kind: "model", turns: 1,
			respond: sitetest.Play(modelserver.Step{Status: 503, Header: http.Header{"Retry-After": {"3600"}}}),
		},
		{rule: "fault slow", body: plain, options: "retries 0\n\ttimeout 1s", respond: sitetest.Play(modelserver.Step{Text: "Late", Wait: never}), status: "error", kind: "model", turns: 1},
		{rule: "fault slow stream", body: plain, options: "retries 0\n\ttimeout 1s", respond: sitetest.Play(modelserver.Step{Text: "Late", WaitMidStream: never}), status: "error", kind: "model", turns: 1},
		fails("fault an endless text", "model", modelserver.Step{Padding: 8 << 20}),
		badCall("call unknown tool", modelserver.Call{ID: "1", Name: "drop-table", Arguments: "{}"}, "no tool drop-table"),
		badCall("call name in capitals", modelserver.Call{ID: "1", Name: "Get-Trip", Arguments: tripOne}, "no tool Get-Trip"),
		badCall("call operation id", modelserver.Call{ID: "1", Name: "getTrip", Arguments: tripOne}, "no tool getTrip"),
		badCall("call arguments not an object", modelserver.Call{ID: "1", Name: "get-trip", Arguments: `["1"]`}, "object"),
		badCall("call argument missing", modelserver.Call{ID: "1", Name: "get-trip", Arguments: `{}`}, "id"),
		badCall("call argument of another type", modelserver.Call{ID: "1", Name: "get-trip", Arguments: `{"id":{"a":1}}`}, "id"),
		badCall("call unknown argument", modelserver.Call{ID: "1", Name: "get-trip", Arguments: `{"id":"1","Authorization":"Bearer boss","header":{"X":"y"}}`}, "Authorization"),
		badCall("call member twice", modelserver.Call{ID: "1", Name: "get-trip", Arguments: `{"id":"1","id":"2"}`}, "duplicate"),
		badCall("call argument with a path", modelserver.Call{ID: "1", Name: "get-trip", Arguments: `{"id":"../secret?x=1#y"}`}, "segment"),
		{
			rule: "call never stops", body: plain, respond: func(r *modelserver.Request) modelserver.Step {
				return sitetest.Calls("get-trip", fmt.Sprintf(`{"id":"%d"}`, len(r.Messages)))
			}, status: "error", kind: "limit", turns: 10, api: neverStops(),
		},
	}
}

func neverStops() (api []string) {
	for i := range 10 {
		api = append(api, fmt.Sprintf("GET /trips/%d Bearer ann", 2*i+1))
	}
	return api
}
