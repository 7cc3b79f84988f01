package oagent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools/logonly"
)

func apiCalls(a *sitetest.RulesAPI) int {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Reached
}

func credentials(a *sitetest.RulesAPI) (authorization, cookie string) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Last.Header.Get("Authorization"), a.Last.Header.Get("Cookie")
}

// rulesSite is a site with everything that OpenAgentSpec is about: the tools of an
// API by MCP, OTC and as they are, guardrails before a model, reviewers, and an
// agent for each case.
type rulesSite struct {
	*sitetest.Site
	*sitetest.Checker
	model  *sitetest.Model
	api    *sitetest.RulesAPI
	agents strings.Builder // documents
	tries  bool            // all rules of the agents are in log only
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
	s.Write("agents.yaml", s.agents.String())
	s.Start(`order test_user first
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
		auditors zoe
		chat
		`+map[bool]string{true: "log_only"}[s.tries]+`
	}
	reverse_proxy /v1/* `+strings.TrimPrefix(s.model.URL, "http://")+`
	reverse_proxy `+sitetest.Upstream(s.T, s.api.ServeHTTP))
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

func (k *talker) send(r *http.Request) sitetest.Response {
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
	return k.With(k.t).Do(r)
}

func (k *talker) request(method, path, body string) sitetest.Response {
	k.t.Helper()
	r, err := http.NewRequest(method, k.URL+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return k.send(r)
}

// call calls a tool by the talker's protocol, and returns what the client sees.
func (k *talker) call(tool, arguments string) (refused bool, a sitetest.Response) {
	k.t.Helper()
	switch k.protocol {
	case "mcp":
		a = k.send(k.With(k.t).CallRequest(tool, arguments))
		return strings.Contains(a.Body, `"isError":true`), a
	case "otc":
		a = k.request("POST", "/otc/call", fmt.Sprintf(`{"request":{"tool_id":"Trips.%s","input":%s}}`, tool, arguments))
		return strings.Contains(a.Body, `"success":false`), a
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
	return a.Status != 200, a
}

// record returns the record of the Engagement.
func (k *talker) record() []sitetest.Recorded {
	k.t.Helper()
	page := sitetest.Decode[struct{ Entries []sitetest.Recorded }](k.t, k.request("GET", "/engagements/"+k.talk+"/audit?limit=1000&agent="+url.QueryEscape(k.agent), ""))
	return page.Entries
}

// last returns the latest entry of the record.
func (k *talker) last() sitetest.Recorded {
	k.t.Helper()
	entries := k.record()
	if len(entries) == 0 {
		k.t.Fatal("the record is empty")
	}
	return entries[len(entries)-1]
}

// wantWould wants an auditor, and not the user, to see in the record what a rule in log only would have done last.
func (k *talker) wantWould(effect string) {
	k.t.Helper()
	of := engagement.Ref{Agent: k.agent, ID: k.talk, User: engagement.User{ID: k.user}}
	auditor := *k
	auditor.user = "zoe"
	sitetest.Eventually(k.t, "a rule that would have changed something", func() bool {
		audit := auditor.request("GET", "/engagements/"+of.Key()+"/audit?limit=1000", "")
		if audit.Status == http.StatusNotFound {
			return false // a guardrail in log only records what it has found after the response
		}
		page := sitetest.Decode[struct{ Entries []sitetest.Recorded }](k.t, audit)
		for _, e := range slices.Backward(page.Entries) {
			if e.Would.Rule != "" {
				return e.Would.Effect == effect && e.Would.Reason != "" && e.Kind == ""
			}
		}
		return false
	})
	for _, e := range k.record() {
		if e.Would.Rule != "" {
			k.t.Errorf("the user sees %+v", e.Would)
		}
	}
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
func (k *talker) move(m siteMove) sitetest.Response {
	k.t.Helper()
	tried := k.tries && strings.HasSuffix(m.want, "put_restriction")
	if tried {
		m.want, m.made = "", true
	}
	before := apiCalls(k.api)
	refused, a := k.call(m.tool, m.arguments)
	if refused != (m.want != "") {
		k.t.Errorf("%s %s: refused %t: %d %s", m.tool, m.arguments, refused, a.Status, a.Body)
	}
	if called := apiCalls(k.api) > before; called != m.made {
		k.t.Errorf("%s %s: the API was called: %t", m.tool, m.arguments, called)
	}
	if refused && (strings.Contains(a.Body, "hunter2") || strings.Contains(a.Body, "early") || strings.Contains(a.Body, "seats 3") || a.Header.Get("X-Token") != "" || a.Header.Get("Oagent-Exposes") != "") {
		k.t.Errorf("%s %s: something of the answer reached the client: %v %s", m.tool, m.arguments, a.Header, a.Body)
	}
	if k.user == "" {
		return a // whose record is not shown
	}
	if last := k.last(); last.Kind != m.want {
		k.t.Errorf("%s %s: the record has %+v, want %q", m.tool, m.arguments, last, m.want)
	}
	if tried {
		k.wantWould(logonly.Refuse)
	}
	if k.protocol == "http" && refused {
		if p := k.With(k.t).Problem(a); p.Kind != m.want || p.Agent != k.agent || p.Made != m.made {
			k.t.Errorf("%s %s: %+v", m.tool, m.arguments, p)
		}
	}
	return a
}
