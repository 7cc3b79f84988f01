package oagent_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOAgent_records_refusals wants every refusal in the record of its Engagement,
// also those that come before the guard is asked.
func TestOAgent_records_refusals(t *testing.T) {
	s := sitetest.NewSite(t)
	c := sitetest.NewChecker(t)
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, c.URL))
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {}\n  create-trip: {user_identity: false}\nguardrails:\n  input: {tool_name: check-input, assertion: safe}\n"))
	s.Start("order test_user first\nagents {\n\tstore bolt DIR/store.db\n\ttoolset trips TRIPS\n\ttoolset checks DIR/checks.yaml\n}", `test_user
mcp trips
oagent DIR/agent.yaml {
	engagement {http.request.header.X-Talk}
	max_input 1KiB
	engagements /engagements
	auditors eve
	chat
}
reverse_proxy `+sitetest.Upstream(t, sitetest.Echo))
	n := 0
	// record makes a request in an Engagement of its own, which is refused, and returns
	// what the users may see of that Engagement's record.
	record := func(t *testing.T, user string, r *http.Request, readers ...string) (texts []string) {
		t.Helper()
		s := s.With(t)
		n++
		talk := fmt.Sprintf("talk-%03d", n)
		r.Header.Set("X-Talk", talk)
		r.Header.Set("X-Test-User", user)
		a := s.Do(r)
		if a.Status == 200 && !strings.Contains(a.Body, `"isError":true`) {
			t.Fatalf("it was not refused: %s", a.Body)
		}
		key := ""
		s.Logged(`"http.handlers.oagent"`, `"engagement_id":"`+talk)
		for line := range strings.Lines(s.Log()) {
			if _, rest, ok := strings.Cut(line, `"engagement":"`); ok && strings.Contains(line, `"engagement_id":"`+talk) {
				key, _, _ = strings.Cut(rest, `"`)
			}
		}
		for _, reader := range readers {
			texts = append(texts, s.Request("GET", "/engagements/"+key+"/audit", "", "X-Test-User", reader).Body)
		}
		return texts
	}
	plain := func(method, path, body string) *http.Request {
		r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	for name, test := range map[string]struct {
		user    string
		request *http.Request
		auditor []string // what is in the record
	}{
		"unknown_operation": {"ada", plain("DELETE", "/admin?key=hunter2", ""), []string{`"kind":"unknown_operation"`, `"why":"DELETE /admin: `}},
		"not UTF-8":         {"ada", plain("GET", "/%ff", ""), []string{`"what":"refused"`}},
		"ambiguous":         {"ada", plain("GET", "/TRIPS/1", ""), []string{`"kind":"`, `"why":"GET /TRIPS/1: `}},
		"unreadable":        {"ada", plain("GET", "/trips?limit=one", ""), []string{`"kind":"unreadable"`, `"name":"list-trips"`}},
		"too_large":         {"ada", plain("POST", "/trips", `{"to":"`+strings.Repeat("x", 2000)+`"}`), []string{`"kind":"too_large"`, `"name":"create-trip"`}},
		"identity":          {"", plain("GET", "/trips/7", ""), []string{`"kind":"identity"`, `"rule":"capabilities.get-trip.user_identity"`, `"inputs":{"id":"7"}`}},
		"identity by mcp":   {"", s.CallRequest("getTrip", `{"id":"7"}`), []string{`"kind":"identity"`, `"name":"get-trip"`, `"inputs":{"id":"7"}`}},
		"not_allowed":       {"ada", plain("DELETE", "/trips/7", ""), []string{`"kind":"not_allowed"`, `"inputs":{"id":"7"}`}},
		"input guardrail":   {"ada", plain("POST", "/v1/messages", fmt.Sprintf(sitetest.Shapes["messages"].Ask, "forbidden hunter2")), []string{`"what":"guardrail"`, `"kind":"guardrail"`, `"side":"input"`, `"outputs":{"safe":false`}},
		"unchecked_content": {"ada", plain("POST", "/v1/messages", `{"messages":[{"role":"user","content":[{"type":"image","source":{"data":"hunter2"}}]}]}`), []string{`"what":"refused"`, `"kind":"unchecked_content"`}},
	} {
		t.Run(name, func(t *testing.T) {
			texts := record(t, test.user, test.request, "eve", "ada")
			if strings.Count(texts[0], `"what":"`) != 1 || !sitetest.ContainsAll(texts[0], test.auditor) || strings.Contains(texts[0], "hunter2") {
				t.Errorf("the record is %s\nwant %q", texts[0], test.auditor)
			}
			if test.user == "" {
				if !strings.Contains(texts[1], `"status":404`) {
					t.Errorf("another user is shown %s", texts[1])
				}
				return
			}
			if !strings.Contains(texts[1], `"kind":"`) || strings.Contains(texts[1], `"why"`) || strings.Contains(texts[1], `"outputs"`) {
				t.Errorf("its user is shown %s", texts[1])
			}
		})
	}
}

// TestOAgent_refuses_without_record refuses what it did before when the record cannot
// be kept.
func TestOAgent_refuses_without_record(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {}\n"))
	s.Start("agents {\n\tstore redis redis://127.0.0.1:1\n}", sitetest.GuardedBlock("", sitetest.Upstream(t, sitetest.Echo)))
	if p := s.Problem(s.Request("DELETE", "/admin", "")); p.Kind != "unknown_operation" {
		t.Errorf("%+v", p)
	}
	s.Logged(`"level":"warn"`, "recording a refusal")
}

// TestOAgent_warns_of_agents wants a warning of capabilities that nothing calls.
func TestOAgent_warns_of_agents(t *testing.T) {
	const warning = `"capability":"`
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {}\n  helper: {}\n  oagent://list-trips: {}\n")+"---\n"+
		sitetest.AgentDocument("helper", "  list-trips: {}\n")+"---\n"+sitetest.AgentDocument("list-trips", "  list-trips: {}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", sitetest.GuardedBlock("guard {http.request.header.X-Agent}", sitetest.Upstream(t, sitetest.Echo)))
	s.Logged(`"level":"warn"`, warning, `"agent":"desk"`, `"capability":"helper"`, `"line":8`)
	s.Logged(`"level":"warn"`, warning, `"capability":"oagent://list-trips"`)
	if n := strings.Count(s.Log(), warning); n != 2 {
		t.Errorf("%d warnings, want 2: %s", n, s.Log())
	}
	r := s.CallRequest("helper", "{}")
	r.Header.Set("X-Agent", "desk")
	if a := s.Do(r); !strings.Contains(a.Body, "unknown tool") {
		t.Error(a.Body)
	}
}
