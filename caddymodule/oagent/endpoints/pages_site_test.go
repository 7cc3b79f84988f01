package endpoints_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const reviewed = `kind: openagentspec:v1/agent
name: desk
description: Works at the desk.
intent: You work.
owner: tests
capabilities:
  list-trips: {}
  create-trip:
    input_restriction: {require_review: boss}
  delete-trip:
    input_restriction: {require_review: oagent://supervisor}
  get-trip:
    output_restriction: {assertion: recent.get-trip.outputs.public == true}
exposes:
  calls: history._total
---
kind: openagentspec:v1/agent
name: supervisor
description: Supervises.
intent: You supervise.
owner: tests
capabilities:
  list-trips: {}
lifespan: {short_circuit: 2}
`

// pagesSite runs a site with all endpoints of oagent, where X-API-Key says who one
// is.
func pagesSite(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("agents.yaml", reviewed)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"public":%t,"token":"hunter2"}`, r.URL.Path != "/trips/secret")
	})
	keys := ""
	for _, user := range []string{"alice", "bob", "boss", "auditor", "supervisor", "robot"} {
		keys += "key " + user + " key-of-" + user + "\n"
	}
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n}", `agent_auth {
	optional
	api_key {
		`+keys+`
	}
}
oagent DIR/agents.yaml {
	guard {http.request.header.X-Agent}
	engagement {http.request.header.X-Talk}
	review_wait off
	serve /agents
	engagements /engagements
	reviews /reviews
	auditors auditor
	reviewer supervisor robot
}
reverse_proxy `+api)
	return s
}

// as makes a request of a user, in the name of an agent.
func as(s *sitetest.Site, user, agent, method, path, body string) sitetest.Response {
	s.T.Helper()
	header := []string{"X-Agent", agent, "X-Talk", "t1"}
	if user != "" {
		header = append(header, "X-Api-Key", "key-of-"+user)
	}
	return s.Request(method, path, body, header...)
}

func TestServeAgents(t *testing.T) {
	s := pagesSite(t)
	listed := sitetest.Decode[struct {
		Agents []struct{ Name, Definition string }
	}](t, s.Get("/agents"))
	if len(listed.Agents) != 2 || listed.Agents[0].Name != "desk" || listed.Agents[1].Definition != "/agents/supervisor" {
		t.Errorf("agents %+v", listed)
	}
	a := s.Get("/agents/desk")
	if kind := a.Header.Get("Content-Type"); a.Status != 200 || kind != "application/yaml" {
		t.Errorf("definition: got the status %d with %s, want 200 with application/yaml", a.Status, kind)
	}
	if !strings.Contains(a.Body, "name: desk") || strings.Contains(a.Body, "name: supervisor") {
		t.Errorf("definition: got %s, want only the document of desk", a.Body)
	}
	if a := s.Request("GET", "/agents/desk", "", "If-None-Match", a.Header.Get("Etag")); a.Status != http.StatusNotModified || a.Body != "" {
		t.Errorf("the same again: %d %s", a.Status, a.Body)
	}
	if p := s.Problem(s.Get("/agents/ghost")); p.Status != 404 {
		t.Errorf("unknown: %+v", p)
	}
	if a := s.Request("POST", "/agents/desk", "{}"); a.Status != 405 || a.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", a.Status)
	}
}

func TestReviews(t *testing.T) {
	s := pagesSite(t)
	ask := func(method, path, body string) sitetest.Problem {
		t.Helper()
		return s.Problem(as(s, "alice", "desk", method, path, body))
	}
	pending := ask("POST", "/trips", `{"to":"Bern"}`)
	if pending.Kind != "review_pending" || pending.Review == "" {
		t.Fatalf("problem %+v", pending)
	}
	path := "/reviews/" + pending.Review
	approve := func(user, agent, path string) sitetest.Response {
		return as(s, user, agent, "POST", path, `{"decision":"approve"}`)
	}

	t.Run("no one else sees or decides it", func(t *testing.T) {
		for _, user := range []string{"alice", "bob", "auditor", "supervisor", "robot"} {
			for _, agent := range []string{"", "desk", "supervisor"} {
				if a := as(s, user, agent, "GET", path, ""); a.Status != 404 {
					t.Errorf("%s as %s: %d %s", user, agent, a.Status, a.Body)
				}
				if a := approve(user, agent, path); a.Status != 404 {
					t.Errorf("%s as %s decides: %d %s", user, agent, a.Status, a.Body)
				}
			}
		}
		for _, p := range []string{path, "/reviews", "/reviews/nothing", "/engagements/nothing"} {
			if a := as(s, "", "desk", "GET", p, ""); a.Status != 401 {
				t.Errorf("%s: an anonymous user gets %d %s", p, a.Status, a.Body)
			}
		}
	})
	t.Run("a form cannot decide", func(t *testing.T) {
		for _, header := range [][]string{
			{"Content-Type", "text/plain"},
			{"Content-Type", "application/json", "Sec-Fetch-Site", "cross-site"},
			{"Content-Type", "application/json", "Origin", "https://evil.example"},
		} {
			a := s.Request("POST", path+"/approve", "", append(header, "X-Api-Key", "key-of-boss")...)
			if a.Status != 403 && a.Status != 415 {
				t.Errorf("%v: %d %s", header, a.Status, a.Body)
			}
		}
	})
	t.Run("what is no decision", func(t *testing.T) {
		for _, body := range []string{
			`{}`, `{"decision":"maybe"}`, `{"decision":true}`, `[]`, `{`, `{"decision":"approve","decision":"deny"}`, `{"decision":"approve","x":"y"}`,
			`{"decision":"approve","comment":"` + strings.Repeat("x", 3000) + `"}`,
		} {
			if a := as(s, "boss", "", "POST", path, body); a.Status != 400 {
				t.Errorf("%.50s: %d %s", body, a.Status, a.Body)
			}
		}
		if a := as(s, "boss", "", "POST", path, `{"decision":"approve","comment":"`+strings.Repeat("x", 300_000)+`"}`); a.Status != 413 {
			t.Errorf("too large: %d", a.Status)
		}
	})
	t.Run("the reviewer", func(t *testing.T) {
		listed := sitetest.Decode[struct {
			Reviews []struct{ ID, Name, Location, Status, Key string }
		}](t, as(s, "boss", "", "GET", "/reviews", ""))
		if len(listed.Reviews) != 1 || listed.Reviews[0].Location != path || listed.Reviews[0].Name != "create-trip" {
			t.Fatalf("reviews %+v", listed)
		}
		if l := listed.Reviews[0]; l.Status != "pending" || l.Key != pending.Engagement {
			t.Errorf("listed %+v", l)
		}
		shown := sitetest.Decode[struct {
			Status string
			Inputs struct{ To string }
		}](t, as(s, "boss", "", "GET", path, ""))
		if shown.Status != "pending" || shown.Inputs.To != "Bern" {
			t.Errorf("review %+v", shown)
		}
		if a := approve("boss", "", path); a.Status != 200 || !strings.Contains(a.Body, `"approved"`) {
			t.Fatalf("answer %d %s", a.Status, a.Body)
		}
		if a := as(s, "boss", "", "POST", path+"/deny", `{}`); a.Status != 409 {
			t.Errorf("decided again: %d %s", a.Status, a.Body)
		}
		if p := ask("POST", "/trips", `{"to":"Basel"}`); p.Kind != "review_pending" {
			t.Errorf("other inputs: %+v", p)
		}
		if a := as(s, "alice", "desk", "POST", "/trips", `{"to":"Bern"}`); a.Status != 200 {
			t.Errorf("the approved call: %d %s", a.Status, a.Body)
		}
		if p := ask("POST", "/trips", `{"to":"Bern"}`); p.Kind != "review_pending" || p.Review == pending.Review {
			t.Errorf("it passed twice: %+v", p)
		}
	})
	t.Run("an agent whose Engagement has ended", func(t *testing.T) {
		path := "/reviews/" + ask("DELETE", "/trips/2", "").Review
		mad := func(method, path, body string) sitetest.Response {
			return s.Request(method, path, body, "X-Agent", "supervisor", "X-Talk", "mad", "X-Api-Key", "key-of-robot")
		}
		for range 2 {
			mad("GET", "/trips", "")
		}
		if a := mad("POST", path, `{"decision":"approve"}`); a.Status != 403 || !testkit.ContainsAll(a.Body, "ended lifespan.short_circuit") {
			t.Errorf("it decides: %d %s", a.Status, a.Body)
		}
		if p := ask("DELETE", "/trips/2", ""); p.Kind != "review_pending" {
			t.Errorf("problem %+v", p)
		}
	})
	t.Run("an agent", func(t *testing.T) {
		asked := ask("DELETE", "/trips/1", "")
		path := "/reviews/" + asked.Review
		for _, who := range [][2]string{{"alice", "supervisor"}, {"supervisor", "supervisor"}, {"supervisor", ""}, {"robot", "desk"}, {"robot", ""}} {
			if a := approve(who[0], who[1], path); a.Status != 404 {
				t.Errorf("%v: %d %s", who, a.Status, a.Body)
			}
		}
		if a := as(s, "robot", "supervisor", "POST", path+"/deny", `{"comment":"too late"}`); a.Status != 200 {
			t.Fatalf("answer %d %s", a.Status, a.Body)
		}
		if p := ask("DELETE", "/trips/1", ""); p.Kind != "review_denied" || !strings.Contains(p.Detail, "late") {
			t.Errorf("problem %+v", p)
		}
	})
}

func TestEngagements(t *testing.T) {
	s := pagesSite(t)
	if a := as(s, "alice", "desk", "GET", "/trips", ""); a.Status != 200 {
		t.Fatalf("answer %d %s", a.Status, a.Body)
	}
	withheld := s.Problem(as(s, "alice", "desk", "GET", "/trips/secret", ""))
	if withheld.Kind != "output_restriction" {
		t.Fatalf("problem %+v", withheld)
	}
	path := "/engagements/" + withheld.Engagement
	type state struct {
		Status, OAgent, Audit string
		User                  struct{ ID string }
		Total                 int
		Results               struct{ Calls int }
		EngagementID          string `json:"engagement_id"`
	}
	for _, test := range []struct{ name, user, path string }{
		{"its user, by key", "alice", path},
		{"its user, by id", "alice", "/engagements/t1"},
		{"its user, by id and agent", "alice", "/engagements/t1?agent=desk"},
		{"an auditor", "auditor", path},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := sitetest.Decode[state](t, as(s, test.user, "", "GET", test.path, ""))
			about := [...]any{got.Status, got.OAgent, got.User.ID, got.EngagementID, got.Total, got.Results.Calls}
			if want := [...]any{"awaiting-llm", "desk", "alice", "t1", 2, 2}; about != want {
				t.Errorf("got %v, want %v", about, want)
			}
		})
	}
	t.Run("others", func(t *testing.T) {
		for _, p := range []string{path, path + "/audit", "/engagements/t1", "/engagements/nothing", "/engagements", path + "/more"} {
			if a := as(s, "bob", "", "GET", p, ""); a.Status != 404 {
				t.Errorf("%s: %d %s", p, a.Status, a.Body)
			}
			if a := as(s, "", "desk", "GET", p, ""); a.Status != 401 {
				t.Errorf("%s: an anonymous user gets %d", p, a.Status)
			}
		}
		if a := as(s, "alice", "", "PUT", path, ""); a.Status != 405 || a.Header.Get("Allow") != "GET, DELETE, HEAD" {
			t.Errorf("PUT: %d", a.Status)
		}
		if a := as(s, "alice", "", "DELETE", path, ""); a.Status != 409 {
			t.Errorf("DELETE of one that goes on: %d", a.Status)
		}
	})
	t.Run("awaiting verification", func(t *testing.T) {
		as(s, "alice", "desk", "POST", "/trips", `{"to":"Bern"}`)
		if got := sitetest.Decode[state](t, as(s, "alice", "", "GET", path, "")); got.Status != "awaiting-verification" {
			t.Errorf("state %+v", got)
		}
	})
	t.Run("ended", func(t *testing.T) {
		for range 2 {
			as(s, "robot", "supervisor", "GET", "/trips", "")
		}
		const path = "/engagements/t1?agent=supervisor"
		if a := as(s, "robot", "", "GET", path, ""); a.Status != 200 || !sitetest.ContainsAll(a.Body, []string{`"status":"error"`, `"kind":"short_circuit"`}) || strings.Contains(a.Body, `"why"`) {
			t.Errorf("its user: %d %s", a.Status, a.Body)
		}
		key := sitetest.Decode[struct{ Key string }](t, as(s, "robot", "", "GET", path, "")).Key
		if a := as(s, "auditor", "", "GET", "/engagements/"+key, ""); a.Status != 200 || !strings.Contains(a.Body, `"why":"a call of list-trips`) {
			t.Errorf("an auditor: %d %s", a.Status, a.Body)
		}
	})
	t.Run("the record, page by page", func(t *testing.T) {
		type page struct {
			Entries []struct{ What, Name, Why string }
			Next    string
		}
		read := func(user string) (whats string) {
			for next := path + "/audit?limit=2"; next != ""; {
				a := as(s, user, "", "GET", next, "")
				if strings.Contains(a.Body, `"public":false`) {
					t.Errorf("what was withheld is in the record: %s", a.Body)
				}
				p := sitetest.Decode[page](t, a)
				if len(p.Entries) > 2 {
					t.Errorf("%d entries", len(p.Entries))
				}
				for _, e := range p.Entries {
					whats += e.What + " "
					if user == "alice" && e.What == "finished" && e.Why != "" {
						t.Errorf("the user gets %s", e.Why)
					}
				}
				next = p.Next
			}
			return whats
		}
		const want = "begun finished begun finished review "
		if got := read("alice"); got != want {
			t.Errorf("entries %q, want %q", got, want)
		}
		if got := read("auditor"); got != want {
			t.Errorf("entries %q, want %q", got, want)
		}
		for _, query := range []string{"?from=-1", "?limit=x", "?limit=0", "?limit=100000", "?from=99999999999999999999"} {
			if a := as(s, "alice", "", "GET", path+"/audit"+query, ""); a.Status != 400 {
				t.Errorf("%s: %d", query, a.Status)
			}
		}
		if p := sitetest.Decode[page](t, as(s, "alice", "", "GET", path+"/audit?from=1000", "")); p.Entries == nil || len(p.Entries) != 0 || p.Next != "" {
			t.Errorf("behind the end: %+v", p)
		}
	})
}

func TestExtrasConfig(t *testing.T) {
	for _, test := range []struct{ name, agent, options, want, warning string }{
		{"a reviewer that is no agent", reviewed, "guard desk\nreviews /reviews\nreviewer ghost alice", "agent desk supervisor", ""},
		{"a guardrail's tool that takes no text", guardrails("get-trips-count"), "chat", "guardrails.input helper", ""},
		{"a guardrail's tool of nowhere", guardrails("get-trip"), "chat", "chat upstream", ""},
		{"a guardrail's tool by upstream", guardrails("get-trip"), "chat {\n\tupstream http://127.0.0.1:1\n}", "", ""},
		{"guardrails that nothing asks", guardrails("get-trip"), "", "", "guardrails"},
		{"reviews without an endpoint", reviewed, "guard desk", "", "subdirective reviews"},
		{"an agent that is to review", reviewed, "guard desk\nreviews /reviews", "", `subdirective reviewer","agent":"desk","rule":"capabilities.delete-trip.input_restriction.require_review","reviewer":"oagent://supervisor"`},
		{"an input that the tool does not have", sitetest.AgentDocument("desk", "\n  get-trip: {input_restriction: {assertion: recent.get-trip.inputs.idd == 'a'}}\n"), "", "", `did you mean id?`},
		{
			"an agent that is not there is to review", strings.Replace(reviewed, "oagent://supervisor", "oagent://supervisr", 1), "guard desk\nreviews /reviews", "",
			`"reviewer":"oagent://supervisr","nearest":"supervisor"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agents.yaml", test.agent)
			s.Write("trips.yaml", strings.Replace(sitetest.Trips, "paths:\n", "paths:\n  /count:\n    get: {operationId: getTripsCount, responses: {\"200\": {description: ok}}}\n", 1))
			err := s.Load("agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n}", "oagent DIR/agents.yaml {\n"+test.options+"\n}\nrespond ok")
			t.Cleanup(func() { _ = caddy.Stop() })
			if test.want != "" {
				if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.warning != "" {
				s.Logged(`"level":"warn"`, test.warning)
			}
		})
	}
}

func guardrails(tool string) string {
	return strings.Split(sitetest.Guardrailed, "guardrails:")[0] + "guardrails:\n  input: {tool_name: " + tool + ", assertion: output.safe}\n"
}
