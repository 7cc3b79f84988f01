package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// rulesAPI is the API behind a site, which remembers the requests that reach it.
type rulesAPI struct {
	mu      sync.Mutex
	reached int
	last    *http.Request
}

func (a *rulesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.reached++
	a.last = r
	a.mu.Unlock()
	header := w.Header()
	header.Set("X-Token", "hunter2")
	header.Set("OAgent-Exposes", `{"forged":true}`)
	id := strings.TrimPrefix(r.URL.Path, "/trips/")
	if strings.HasPrefix(id, "stream") {
		header.Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: progress\ndata: {\"progress\":1,\"message\":\"early\"}\n\ndata: seats 3\n\n")
		_ = http.NewResponseController(w).Flush()
		if id == "stream-secret" {
			_, _ = io.WriteString(w, "data: hunter2\n\n")
		}
		return
	}
	header.Set("Content-Type", "application/json")
	if id == "secret" {
		_, _ = io.WriteString(w, `{"public":false,"token":"hunter2"}`)
		return
	}
	_, _ = io.WriteString(w, `{"public":true,"seats":3}`)
}

func (a *rulesAPI) calls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reached
}

func (a *rulesAPI) credentials() (authorization, cookie string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last.Header.Get("Authorization"), a.last.Header.Get("Cookie")
}

// rulesSite is a site with everything that OpenAgentSpec is about: the tools of an
// API by MCP, OTC and as they are, guardrails before a model, reviewers, and an
// agent for each case.
type rulesSite struct {
	*site
	*checker
	model  *model
	api    *rulesAPI
	agents strings.Builder // documents
	n      int             // of agents and Engagements so far
}

// agent adds an agent with that body to the site, and returns its name.
func (s *rulesSite) agent(body string) string {
	s.n++
	name := fmt.Sprint("agent-", s.n)
	s.named(name, body)
	return name
}

func (s *rulesSite) named(name, body string) {
	fmt.Fprintf(&s.agents, "---\nkind: openagentspec:v1/agent\nname: %s\ndescription: Tests.\nintent: You test.\nowner: tests\n%s\n", name, strings.TrimSpace(body))
}

// agentNamedAsATool has the name of a tool.
const agentNamedAsATool = "list-trips"

func (s *rulesSite) startRules() {
	s.named("desk", "capabilities: {list-trips: {user_identity: false}, get-trip: {user_identity: false}}")
	s.named(agentNamedAsATool, "capabilities: {}")
	s.write("agents.yaml", s.agents.String())
	s.start(`order test_user first
	agents {
		store bolt DIR/store.db
		toolset trips TRIPS
		toolset checks DIR/checks.yaml {
			credential header X-Checker-Key k1
		}
	}`, `test_user
	ocp
	mcp trips
	otc trips
	mcp /desk/mcp trips {
		agent desk
	}
	otc /desk/otc trips {
		agent desk
	}
	oagent DIR/agents.yaml {
		guard {http.request.header.X-Agent}
		engagement {http.request.header.X-Talk}
		identity OPS header_up Authorization "Bearer ops"
		review_wait off
		serve /agents
		engagements /engagements
		reviews /reviews
		chat
	}
	reverse_proxy /v1/* `+strings.TrimPrefix(s.model.URL, "http://")+`
	reverse_proxy `+upstream(s.t, s.api.ServeHTTP))
}

// A talker is who speaks to the site: a user in an Engagement with an agent.
type talker struct {
	*rulesSite
	t                 *testing.T
	agent, talk, user string
	protocol          string
	header            []string
}

// talker begins another Engagement of a user.
func (s *rulesSite) talker(t *testing.T, agent, protocol string) *talker {
	s.n++
	return &talker{rulesSite: s, t: t, agent: agent, talk: fmt.Sprint("talk-", s.n), user: "ada", protocol: protocol}
}

func (k *talker) send(r *http.Request) answer {
	k.t.Helper()
	r.Header.Set("X-Agent", k.agent)
	r.Header.Set("X-Talk", k.talk)
	if k.user != "" {
		r.Header.Set("X-Test-User", k.user)
		r.Header.Set("X-Test-Email", k.user+"@example.com")
	}
	for i := 0; i < len(k.header); i += 2 {
		r.Header.Set(k.header[i], k.header[i+1])
	}
	return k.with(k.t).do(r)
}

func (k *talker) request(method, path, body string) answer {
	k.t.Helper()
	r, err := http.NewRequest(method, k.url+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return k.send(r)
}

// call calls a tool by the talker's protocol, and returns what the client sees.
func (k *talker) call(tool, arguments string) (refused bool, a answer) {
	k.t.Helper()
	switch k.protocol {
	case "mcp":
		a = k.send(k.with(k.t).callRequest(tool, arguments))
		return strings.Contains(a.body, `"isError":true`), a
	case "otc":
		a = k.request("POST", "/otc/call", fmt.Sprintf(`{"request":{"tool_id":"Trips.%s","input":%s}}`, tool, arguments))
		return strings.Contains(a.body, `"success":false`), a
	}
	var named struct {
		ID string
	}
	if err := json.Unmarshal([]byte(arguments), &named); err != nil {
		k.t.Fatal(err)
	}
	switch tool {
	case "listTrips":
		a = k.request("GET", "/trips", "")
	case "createTrip":
		a = k.request("POST", "/trips", arguments)
	case "getTrip":
		a = k.request("GET", "/trips/"+named.ID, "")
	case "deleteTrip":
		a = k.request("DELETE", "/trips/"+named.ID, "")
	}
	return a.status != 200, a
}

// recorded is an entry of a record as its user sees it.
type recorded struct {
	What, Kind, Name, Review, Side, Why string
	Inputs, Outputs                     json.RawMessage
}

// record returns the record of the Engagement.
func (k *talker) record() []recorded {
	k.t.Helper()
	page := decode[struct{ Entries []recorded }](k.t, k.request("GET", "/engagements/"+k.talk+"/audit?limit=1000&agent="+url.QueryEscape(k.agent), ""))
	return page.Entries
}

// last returns the latest entry of the record.
func (k *talker) last() recorded {
	k.t.Helper()
	entries := k.record()
	if len(entries) == 0 {
		k.t.Fatal("the record is empty")
	}
	return entries[len(entries)-1]
}

// A siteMove is a call, and what becomes of it.
type siteMove struct {
	tool, arguments string
	want            string // kind of the refusal; "" if it passes
	made            bool   // the API is called
}

func passes(tool, arguments string) siteMove { return siteMove{tool, arguments, "", true} }
func stopped(tool, arguments, kind string) siteMove {
	return siteMove{tool, arguments, kind, false}
}

func withheld(tool, arguments string) siteMove {
	return siteMove{tool, arguments, "output_restriction", true}
}

// move makes a call. What it says of a refusal the record must say too.
func (k *talker) move(m siteMove) answer {
	k.t.Helper()
	before := k.api.calls()
	refused, a := k.call(m.tool, m.arguments)
	if refused != (m.want != "") {
		k.t.Errorf("%s %s: refused %t: %d %s", m.tool, m.arguments, refused, a.status, a.body)
	}
	if called := k.api.calls() > before; called != m.made {
		k.t.Errorf("%s %s: the API was called: %t", m.tool, m.arguments, called)
	}
	if refused && (strings.Contains(a.body, "hunter2") || strings.Contains(a.body, "early") || strings.Contains(a.body, "seats 3") || a.header.Get("X-Token") != "" || a.header.Get("Oagent-Exposes") != "") {
		k.t.Errorf("%s %s: something of the answer reached the client: %v %s", m.tool, m.arguments, a.header, a.body)
	}
	if k.user == "" {
		return a // whose record is not shown
	}
	if last := k.last(); last.Kind != m.want {
		k.t.Errorf("%s %s: the record has %+v, want %q", m.tool, m.arguments, last, m.want)
	}
	if k.protocol == "http" && refused {
		if p := k.with(k.t).problem(a); p.Kind != m.want || p.Agent != k.agent || p.Made != m.made {
			k.t.Errorf("%s %s: %+v", m.tool, m.arguments, p)
		}
	}
	return a
}
