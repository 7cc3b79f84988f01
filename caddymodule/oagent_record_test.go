package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestOAgentRecordsRefusals wants every refusal in the record of its Engagement,
// also those that come before the guard is asked.
func TestOAgentRecordsRefusals(t *testing.T) {
	s := newSite(t)
	c := newChecker(t)
	s.write("checks.yaml", fmt.Sprintf(checks, c.URL))
	s.write("agent.yaml", agentDocument("desk", "  get-trip: {}\n  create-trip: {user_identity: false}\nguardrails:\n  input: {tool_name: check-input, assertion: safe}\n"))
	s.start("order test_user first\nagents {\n\tstore bolt DIR/store.db\n\ttoolset trips TRIPS\n\ttoolset checks DIR/checks.yaml\n}", `test_user
mcp trips
oagent DIR/agent.yaml {
	engagement {http.request.header.X-Talk}
	max_input 1KiB
	engagements /engagements
	auditors eve
	chat
}
reverse_proxy `+upstream(t, echo))
	n := 0
	// record makes a request in an Engagement of its own, which is refused, and returns
	// what the users may see of that Engagement's record.
	record := func(t *testing.T, user string, r *http.Request, readers ...string) (texts []string) {
		t.Helper()
		s := s.with(t)
		n++
		talk := fmt.Sprintf("talk-%03d", n)
		r.Header.Set("X-Talk", talk)
		r.Header.Set("X-Test-User", user)
		a := s.do(r)
		if a.status == 200 && !strings.Contains(a.body, `"isError":true`) {
			t.Fatalf("it was not refused: %s", a.body)
		}
		key := ""
		s.logged(`"http.handlers.oagent"`, `"engagement_id":"`+talk)
		for line := range strings.Lines(s.log()) {
			if _, rest, ok := strings.Cut(line, `"engagement":"`); ok && strings.Contains(line, `"engagement_id":"`+talk) {
				key, _, _ = strings.Cut(rest, `"`)
			}
		}
		for _, reader := range readers {
			texts = append(texts, s.request("GET", "/engagements/"+key+"/audit", "", "X-Test-User", reader).body)
		}
		return texts
	}
	plain := func(method, path, body string) *http.Request {
		r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
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
		"identity by mcp":   {"", s.callRequest("getTrip", `{"id":"7"}`), []string{`"kind":"identity"`, `"name":"get-trip"`, `"inputs":{"id":"7"}`}},
		"not_allowed":       {"ada", plain("DELETE", "/trips/7", ""), []string{`"kind":"not_allowed"`, `"inputs":{"id":"7"}`}},
		"input guardrail":   {"ada", plain("POST", "/v1/messages", fmt.Sprintf(shapes["messages"].ask, "forbidden hunter2")), []string{`"what":"guardrail"`, `"kind":"guardrail"`, `"side":"input"`, `"outputs":{"safe":false`}},
		"unchecked_content": {"ada", plain("POST", "/v1/messages", `{"messages":[{"role":"user","content":[{"type":"image","source":{"data":"hunter2"}}]}]}`), []string{`"what":"refused"`, `"kind":"unchecked_content"`}},
	} {
		t.Run(name, func(t *testing.T) {
			texts := record(t, test.user, test.request, "eve", "ada")
			if strings.Count(texts[0], `"what":"`) != 1 || !containsAll(texts[0], test.auditor) || strings.Contains(texts[0], "hunter2") {
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

// TestOAgentRefusesWithoutRecord refuses what it did before when the record cannot
// be kept.
func TestOAgentRefusesWithoutRecord(t *testing.T) {
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", "  get-trip: {}\n"))
	s.start("agents {\n\tstore bolt DIR/agent.yaml/store.db\n}", guardedBlock("", upstream(t, echo)))
	if p := s.problem(s.request("DELETE", "/admin", "")); p.Kind != "unknown_operation" {
		t.Errorf("%+v", p)
	}
	s.logged(`"level":"warn"`, "recording a refusal")
}

// TestOAgentWarnsOfAgents wants a warning of capabilities that nothing calls.
func TestOAgentWarnsOfAgents(t *testing.T) {
	const warning = `"capability":"`
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", "  get-trip: {}\n  helper: {}\n  oagent://list-trips: {}\n")+"---\n"+
		agentDocument("helper", "  list-trips: {}\n")+"---\n"+agentDocument("list-trips", "  list-trips: {}\n"))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", guardedBlock("guard {http.request.header.X-Agent}", upstream(t, echo)))
	s.logged(`"level":"warn"`, warning, `"agent":"desk"`, `"capability":"helper"`, `"line":8`)
	s.logged(`"level":"warn"`, warning, `"capability":"oagent://list-trips"`)
	if n := strings.Count(s.log(), warning); n != 2 {
		t.Errorf("%d warnings, want 2: %s", n, s.log())
	}
	r := s.callRequest("helper", "{}")
	r.Header.Set("X-Agent", "desk")
	if a := s.do(r); !strings.Contains(a.body, "unknown tool") {
		t.Error(a.body)
	}
}
