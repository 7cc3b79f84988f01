package oagent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// siteCase is one side of a rule.
type siteCase = func(t *testing.T)

// each runs a test by every protocol, in an Engagement of its own.
func (s *rulesSite) each(agent string, test func(k *talker)) siteCase {
	return func(t *testing.T) {
		for _, protocol := range []string{"http", "mcp", "otc"} {
			t.Run(protocol, func(t *testing.T) { test(s.talker(t, agent, protocol)) })
		}
	}
}

// acts is what becomes of calls, one after the other, of an agent with that body.
func (s *rulesSite) acts(body string, moves ...siteMove) siteCase {
	return s.each(s.agent(body), func(k *talker) {
		for _, m := range moves {
			k.move(m)
		}
	})
}

// asserts is the assertion of list-trips after calls of create-trip and get-trip.
func (s *rulesSite) asserts(assertion, kind string) siteCase {
	return s.acts("capabilities:\n  create-trip: {}\n  get-trip: {}\n  list-trips:\n    input_restriction:\n      assertion: >-\n        "+assertion+"\n",
		passes("createTrip", `{"to":"Bern"}`), passes("getTrip", `{"id":"1"}`), passes("createTrip", `{"to":"Basel"}`),
		siteMove{"listTrips", `{}`, kind, kind == ""})
}

// rejects is a document with which the site is not loaded.
func (s *rulesSite) rejects(document, why string) siteCase {
	return func(t *testing.T) {
		sub := s.With(t)
		sub.Write("rejected.yaml", document)
		err := sub.Load("agents {\n\ttoolset trips TRIPS\n}", "oagent DIR/rejected.yaml\nrespond ok")
		if err == nil || !testkit.ContainsAll(err.Error(), why) || !strings.Contains(err.Error(), "rejected.yaml:") {
			t.Errorf("got %v\nwant %s", err, why)
		}
	}
}

// defines is a definition that the site gives of an agent.
func (s *rulesSite) defines(agent, line string) siteCase {
	return func(t *testing.T) {
		a := s.With(t).Get("/agents/" + agent)
		if a.Status != 200 || a.Header.Get("Content-Type") != "application/yaml" || !strings.Contains(a.Body, line) {
			t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
		}
	}
}

// uses is whose credentials the API sees, "" for none, of a call with a capability
// of get-trip. A user of "" is no user of the site.
func (s *rulesSite) uses(capability, user, authorization, sees string) siteCase {
	return s.each(s.agent("capabilities: {get-trip: "+capability+"}"), func(k *talker) {
		k.user, k.header = user, []string{"Cookie", "session=caller"}
		if authorization != "" {
			k.header = append(k.header, "Authorization", authorization)
		}
		if sees == "refused" {
			if a := k.move(stopped("getTrip", `{"id":"1"}`, "identity")); !strings.Contains(a.Body, "log in first") {
				k.t.Error(a.Body)
			}
			return
		}
		k.move(passes("getTrip", `{"id":"1"}`))
		got, cookie := credentials(k.api)
		if got != sees || (cookie != "") != (sees == authorization && sees != "") {
			k.t.Errorf("the API sees %q and the cookie %q, want %q", got, cookie, sees)
		}
	})
}

// pend calls create-trip, which must wait for a review, and returns the review's
// id.
func (k *talker) pend(inputs string, made bool) (review string) {
	k.t.Helper()
	before := apiCalls(k.api)
	refused, a := k.call("createTrip", inputs)
	if !refused || strings.Contains(a.Body, "seats") {
		k.t.Errorf("%s: refused %t, want true and no response of the API: %s", inputs, refused, a.Body)
	}
	if got := apiCalls(k.api) > before; got != made {
		k.t.Errorf("%s: the API was called: %t, want %t", inputs, got, made)
	}
	entries := slices.DeleteFunc(k.record(), func(e sitetest.Recorded) bool { return e.Review == "" })
	if len(entries) == 0 {
		k.t.Fatal("no entry of the record has a review")
	}
	review = entries[len(entries)-1].Review
	if !strings.Contains(a.Body, review) {
		k.t.Errorf("%s: the refusal does not name the review %s: %s", inputs, review, a.Body)
	}
	return review
}

// decides is a call that waits for its reviewer, who approves it, so that its
// repetition passes once, or denies it. After says that the result is reviewed.
func (s *rulesSite) decides(decision string, after bool) siteCase {
	side := "input_restriction"
	if after {
		side = "output_restriction"
	}
	return s.each(s.agent("capabilities: {create-trip: {"+side+": {require_review: boss}}}"), func(k *talker) {
		const inputs = `{"to":"Bern"}`
		if k.tries {
			k.move(passes("createTrip", inputs))
			k.wantWould(logonly.Hold)
			return
		}
		review := k.pend(inputs, after)
		for user, status := range map[string]int{"ada": 404, "bob": 404, "boss": 200} {
			r := s.talker(k.t, k.agent, "http")
			if r.user = user; user == "boss" {
				k.pend(`{"to":"Basel"}`, after) // other inputs are another call
			}
			if a := r.request("POST", "/reviews/"+review, `{"decision":"`+decision+`"}`); a.Status != status {
				k.t.Fatalf("%s decides: %d %s", user, a.Status, a.Body)
			}
		}
		before := apiCalls(k.api)
		refused, a := k.call("createTrip", inputs)
		if refused != (decision == "deny") || strings.Contains(a.Body, "seats") == refused {
			k.t.Errorf("decided: refused %t: %s", refused, a.Body)
		}
		if called := apiCalls(k.api) > before; called != (!refused && !after) {
			k.t.Errorf("the API was called: %t", called)
		}
		if !refused && k.pend(inputs, after) == review {
			k.t.Error("one review let two calls pass")
		}
	})
}

// A turn is what a user says to a model, and the model's answer.
type turn struct{ says, answer string }

// chats is a conversation, of which the last turn is refused as kind, "" for not
// at all. Asked is what the guardrails' tools are asked in it. After a refusal
// the Engagement has ended, for tools too.
func (s *rulesSite) chats(guardrails, kind, asked string, turns ...turn) siteCase {
	agent := s.agent("capabilities: {list-trips: {}}\nguardrails:\n" + guardrails)
	if s.tries {
		return s.chatsOn(agent, kind != "", turns)
	}
	return func(t *testing.T) {
		for name, shape := range sitetest.Shapes {
			for _, streamed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/streamed %t", name, streamed), func(t *testing.T) {
					k := s.talker(t, agent, "http")
					s.Asked()
					k.move(passes("listTrips", `{}`))
					for i, turn := range turns {
						want := ""
						if i == len(turns)-1 {
							want = kind
						}
						k.say(shape, streamed, turn, want)
					}
					if got := s.Asked(); got != asked {
						t.Errorf("the tools were asked %q, want %q", got, asked)
					}
					if kind != "" {
						k.hasEnded()
					} else {
						k.move(passes("listTrips", `{}`))
					}
				})
			}
		}
	}
}

// chatsOn is a conversation that guardrails in log only judge: it goes on whatever they say.
func (s *rulesSite) chatsOn(agent string, would bool, turns []turn) siteCase {
	return func(t *testing.T) {
		for name, shape := range sitetest.Shapes {
			for _, streamed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/streamed %t", name, streamed), func(t *testing.T) {
					k := s.talker(t, agent, "http")
					for _, turn := range turns {
						k.say(shape, streamed, turn, "")
					}
					if would {
						k.wantWould(logonly.Refuse)
					}
					k.move(passes("listTrips", `{}`))
				})
			}
		}
	}
}

// say says something to the model.
func (k *talker) say(shape sitetest.Shape, streamed bool, turn turn, kind string) {
	k.t.Helper()
	body, said, contentType := fmt.Sprintf(shape.Ask, turn.says), fmt.Sprintf(shape.Say, turn.answer), "application/json"
	if streamed {
		half := len(turn.answer) / 2
		body = strings.Replace(body, "{", `{"stream":true,`, 1)
		said, contentType = fmt.Sprintf(shape.Stream, turn.answer[:half], turn.answer[half:]), "text/event-stream"
	}
	k.model.SaysText(contentType, said)
	before := k.model.Calls.Load()
	a := k.request("POST", shape.Path, body)
	called := k.model.Calls.Load() > before
	if kind == "" {
		if a.Status != 200 || a.Body != said {
			k.t.Errorf("%q: got %d %s, want 200 %s", turn.says, a.Status, a.Body, said)
		}
		if last := k.model.Last.Load(); !called || last != body {
			k.t.Errorf("%q: the model was asked: %t, want true; it got %v, want %s", turn.says, called, last, body)
		}
		return
	}
	if a.Status != 403 || !testkit.ContainsAll(a.Body, "Engagement ended") {
		k.t.Errorf("%q: got %d %s, want 403, Engagement ended", turn.says, a.Status, a.Body)
	}
	if strings.Contains(a.Body, turn.answer) || a.Header.Get("X-Model") != "" {
		k.t.Errorf("%q: got the headers %v and %s, want nothing of the model", turn.says, a.Header, a.Body)
	}
	if mayHave := kind == "output"; called != mayHave {
		k.t.Errorf("%q: the model was asked: %t", turn.says, called)
	}
	// The record contains the decision, not the text.
	last := k.last()
	got := [...]any{last.What, last.Kind, last.Side, last.Why, last.Outputs == nil}
	if want := [...]any{"guardrail", "guardrail", kind, "", true}; got != want {
		k.t.Errorf("event, kind, side, reason, no outputs: got %v, want %v", got, want)
	}
	if record := k.request("GET", "/engagements/"+k.talk+"/audit?limit=1000&agent="+k.agent, "").Body; strings.Contains(record, turn.says) || strings.Contains(record, turn.answer) {
		k.t.Errorf("the record has what was said: %s", record)
	}
}

// hasEnded wants nothing more to happen in the Engagement.
func (k *talker) hasEnded() {
	k.t.Helper()
	for _, protocol := range []string{"http", "mcp", "otc"} {
		k.protocol = protocol
		if a := k.move(stopped("listTrips", `{}`, "ended")); !strings.Contains(a.Body, "another") {
			k.t.Error(a.Body)
		}
	}
	calls := k.model.Calls.Load()
	if a := k.request("POST", sitetest.Shapes["messages"].Path, fmt.Sprintf(sitetest.Shapes["messages"].Ask, "hello")); a.Status != 403 || k.model.Calls.Load() != calls {
		k.t.Errorf("the model: %d %s", a.Status, a.Body)
	}
}

// exposed is what the response to a second call exposes of the Engagement, "" for
// nothing at all.
func (s *rulesSite) exposed(exposes, object string) siteCase {
	return s.each(s.agent("capabilities: {get-trip: {}, list-trips: {}}\n"+exposes), func(k *talker) {
		k.move(passes("getTrip", `{"id":"7"}`))
		a := k.move(passes("listTrips", `{}`))
		got := a.Header.Get("Oagent-Exposes")
		if k.protocol == "mcp" {
			var message struct {
				Result struct {
					Meta map[string]json.RawMessage `json:"_meta"`
				}
			}
			if err := json.Unmarshal([]byte(a.Body), &message); err != nil {
				k.t.Fatal(err)
			}
			got = string(message.Result.Meta["org.openagentspec/exposes"])
		}
		if got != object {
			k.t.Errorf("exposed %s, want %s", got, object)
		}
	})
}

// describes wants an endpoint of an agent to offer what the agent may use, and
// nothing else, and these to work.
func (s *rulesSite) describes(t *testing.T) {
	sub := s.With(t)
	sub.URL += "/desk"
	sub.WantTools("listTrips", "getTrip")
	if a := sub.Get("/otc/tools"); strings.Contains(a.Body, "deleteTrip") || !strings.Contains(a.Body, "getTrip") || !strings.Contains(a.Body, "listTrips") {
		t.Errorf("otc: %s", a.Body)
	}
	for tool, says := range map[string]string{"getTrip": `\"seats\":3`, "deleteTrip": "unknown tool"} {
		r := sub.CallRequest(tool, `{"id":"1"}`)
		r.Header.Set("X-Agent", "desk")
		if a := sub.Do(r); !strings.Contains(a.Body, says) {
			t.Errorf("%s: %s", tool, a.Body)
		}
	}
}

// namesItself has a caller say by OCP-User who it is, with credentials that the API
// may know or without any.
func (s *rulesSite) namesItself(authorization string) siteCase {
	const get, create = `{"id":"1"}`, `{"to":"Bern"}`
	agent := s.agent("capabilities: {get-trip: {}, list-trips: {static_identity: OPS}, " +
		"create-trip: {user_identity: false, input_restriction: {assertion: 'user.id == \"ada\"'}}}")
	return s.each(agent, func(k *talker) {
		k.move(passes("getTrip", get)) // as ada, who is logged in
		k.user, k.header = "", []string{"OCP-User", "ada", "Authorization", authorization}
		k.move(stopped("createTrip", create, "input_restriction"))
		allowed, sees := passes("getTrip", get), authorization
		if authorization == "" {
			k.move(stopped("getTrip", get, "identity"))
			allowed, sees = passes("listTrips", `{}`), "Bearer ops"
		}
		k.move(allowed)
		if got, _ := credentials(k.api); got != sees {
			k.t.Errorf("the API sees %q, want %q", got, sees)
		}
		k.user, k.header = "ada", nil
		if entries := k.record(); len(entries) != 2 {
			k.t.Errorf("it got into ada's Engagement: %+v", entries)
		}
	})
}

// progresses calls get-trip with a progress token. Of a stream that
// is withheld in the end, no progress is reported while it arrives.
func (s *rulesSite) progresses(body, id, says string) siteCase {
	agent := s.agent(body)
	return func(t *testing.T) {
		k := s.talker(t, agent, "mcp")
		r := k.With(t).CallRequest("getTrip", `{"id":"`+id+`"},"_meta":{"progressToken":"p1"}`)
		a := k.send(r)
		if s.tries {
			if !strings.Contains(a.Body, "notifications/progress") {
				t.Errorf("%s: %d %s, want progress", id, a.Status, a.Body)
			}
			return
		}
		if !strings.Contains(a.Body, says) || strings.Contains(a.Body, "hunter2") || says == "withheld" && (strings.Contains(a.Body, "early") || strings.Contains(a.Body, "seats")) {
			t.Errorf("%s: %d %s", id, a.Status, a.Body)
		}
	}
}

// retains has a user begin a second Engagement. An agent without a memory knows
// nothing of the first there, and neither does any other: the gateway gives a model
// what its client sends, and nothing from before.
func (s *rulesSite) retains(memory string) siteCase {
	agent := s.agent("capabilities:\n  list-trips:\n    input_restriction: {assertion: history._total == 0}\nlifespan: {retain_memory: " + memory + "}\n" +
		"exposes: {n: history._total}\nguardrails:\n  input: {tool_name: check-input, assertion: safe}\n")
	return s.each(agent, func(k *talker) {
		next := s.talker(k.t, agent, k.protocol)
		for _, k := range []*talker{k, next} {
			a := k.move(passes("listTrips", `{}`))
			if !strings.Contains(a.Body+a.Header.Get("Oagent-Exposes"), `{"n":1}`) {
				k.t.Errorf("%v %s", a.Header, a.Body)
			}
			k.move(stopped("listTrips", `{}`, "input_restriction"))
			k.say(sitetest.Shapes["completions"], false, turn{"I am " + k.talk, "Hello."}, "")
		}
		if entries := next.record(); len(entries) != 4 && !s.tries {
			k.t.Errorf("the second Engagement has %+v", entries)
		}
		if last := k.model.Last.Load().(string); strings.Contains(last, k.talk+`"`) {
			k.t.Errorf("the model got a message of the first Engagement: %s", last)
		}
	})
}

// surfaces wants the definition of each and every agent.
func (s *rulesSite) surfaces(t *testing.T) {
	sub := s.With(t)
	listed := sitetest.Decode[struct {
		Agents []struct{ Name, Definition string }
	}](t, sub.Get("/agents"))
	if want := strings.Count(s.agents.String(), "---\n"); len(listed.Agents) != want {
		t.Errorf("%d agents, want %d", len(listed.Agents), want)
	}
	for _, a := range listed.Agents {
		if got := sub.Get(a.Definition); got.Status != 200 || !strings.Contains(got.Body, "\nname: "+a.Name+"\n") {
			t.Errorf("%s: %d %s", a.Definition, got.Status, got.Body)
		}
	}
}
