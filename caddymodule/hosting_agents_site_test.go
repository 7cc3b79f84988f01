package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/modelserver"
)

// manager calls the agent clerk, which creates trips.
const manager = `kind: openagentspec:v1/agent
name: manager
description: Manages trips.
intent: MANAGE
owner: tests
capabilities:
  oagent://clerk: {RESTRICTION}
exposes: {clerk: recent.clerk.outputs.text}
---
kind: openagentspec:v1/agent
name: clerk
description: Creates trips.
intent: CREATE
owner: tests
capabilities:
  create-trip: {CAPABILITY}
exposes:
  trip: recent["create-trip"].outputs.path
`

func managed(t *testing.T, restriction, capability string) *hostedSite {
	t.Helper()
	s := newManaged(t, restriction, capability)
	s.start("agents {\n\tstore bolt DIR/store.db\n}", s.block("reviews /reviews"))
	return s
}

func newManaged(t *testing.T, restriction, capability string) *hostedSite {
	t.Helper()
	clerk := play(calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Created."})
	boss := play(calls("clerk", `{"input":"A trip to Bern"}`), modelserver.Step{Text: "It is done."})
	return newHostedSite(t, strings.NewReplacer("RESTRICTION", restriction, "CAPABILITY", capability).Replace(manager),
		func(r *modelserver.Request) modelserver.Step {
			if strings.HasPrefix(r.System, "CREATE") {
				return clerk(r)
			}
			return boss(r)
		})
}

func TestHosting_agents_call_agents(t *testing.T) {
	s := managed(t, "", "")
	location := s.begin("ann", "manager", "Go", "Authorization", "Bearer ann-0123456789")
	v := s.state("ann", location)
	if v.Status != "complete" || v.Text != "It is done." || string(v.Exposes) != `{"clerk":"Created."}` {
		t.Fatalf("state %+v, exposes %s", v, v.Exposes)
	}
	received := s.api.received()
	if len(received) != 1 || received[0].Header.Get("Authorization") != "Bearer ann-0123456789" {
		t.Errorf("the API received %v, want one request with the identity of the user", received)
	}
	for _, r := range s.models.Requests() {
		if last := r.Messages[len(r.Messages)-1]; strings.HasPrefix(r.System, "MANAGE") && last.Role == "tool" && !strings.Contains(last.Text, `"exposes":{"trip":"/trips"}`) {
			t.Errorf("the result of the agent is %+v", last)
		}
	}
	if a := s.as("ann", "GET", location+"/audit", ""); !strings.Contains(a.body, `"clerk"`) || strings.Contains(a.body, "create-trip") {
		t.Errorf("record of the manager: %s", a.body)
	}
}

func TestHosting_called_agent_waits(t *testing.T) {
	s := managed(t, "", "input_restriction: {require_review: boss}")
	location := s.begin("ann", "manager", "Go")
	var v runView
	eventually(t, "the call of the clerk that waits for a review", func() bool {
		v = s.view(s.as("ann", "GET", location, ""))
		return len(v.WaitingFor) == 1 && v.WaitingFor[0].Status == "awaiting-verification"
	})
	called := s.view(s.as("ann", "GET", v.WaitingFor[0].Location, ""))
	if called.Agent != "clerk" {
		t.Errorf("the called agent: %+v", called)
	}
	s.decide(s.pending("ann", v.WaitingFor[0].Location), "approve")
	if v := s.state("ann", location); v.Status != "complete" || len(s.api.received()) != 1 {
		t.Errorf("state %+v", v)
	}
}

func TestHosting_cancels_called_agents(t *testing.T) {
	s := managed(t, "", "input_restriction: {require_review: boss}")
	location := s.begin("ann", "manager", "Go")
	var called string
	eventually(t, "the call of the clerk that waits for a review", func() bool {
		v := s.view(s.as("ann", "GET", location, ""))
		if len(v.WaitingFor) == 1 && v.WaitingFor[0].Status == "awaiting-verification" {
			called = v.WaitingFor[0].Location
		}
		return called != ""
	})
	if a := s.as("ann", "DELETE", location, ""); a.status != http.StatusOK {
		t.Fatalf("DELETE: status %d, %s", a.status, a.body)
	}
	if v := s.state("ann", called); v.Error == nil || v.Error.Kind != "canceled" {
		t.Errorf("the called agent: %+v", v)
	}
}

func TestHosting_restricts_calls_of_agents(t *testing.T) {
	for name, c := range map[string]struct{ restriction, want string }{
		"input":  {`input_restriction: {assertion: 'recent.clerk.inputs.input == "other"'}`, "input_restriction"},
		"output": {`output_restriction: {assertion: 'recent.clerk.outputs.text == "other"'}`, "output_restriction"},
	} {
		t.Run(name, func(t *testing.T) {
			s := managed(t, c.restriction, "user_identity: false")
			if v := s.state("ann", s.begin("ann", "manager", "Go")); v.Status != "complete" {
				t.Fatalf("state %+v", v)
			}
			requests := s.models.Requests()
			messages := requests[len(requests)-1].Messages
			if last := messages[len(messages)-1].Text; !strings.Contains(last, c.want) || strings.Contains(last, "Created.") {
				t.Errorf("the model got %q, want %q in it", last, c.want)
			}
		})
	}
}

func TestHosting_called_agent_without_the_identity(t *testing.T) {
	s := managed(t, "user_identity: false", "")
	if v := s.state("ann", s.begin("ann", "manager", "Go", "Authorization", "Bearer ann-0123456789")); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	if received := s.api.received(); len(received) != 1 || received[0].Header.Get("Authorization") != "" {
		t.Errorf("the API received %v, want one request without credentials", received)
	}
}
