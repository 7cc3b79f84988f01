package oagent_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const exposing = `kind: openagentspec:v1/agent
name: desk
description: Works at the desk.
intent: You work.
owner: tests
capabilities:
  get-trip: {}
  list-trips: {}
exposes:
  last: recent.get-trip.outputs.caller
  calls: history._total
lifespan: {short_circuit: 3}
`

// exposingSite runs a site that does not authenticate, whose API answers with the name
// of its caller: "holder of x" for the token of-x.
func exposingSite(t *testing.T, options string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("agents.yaml", exposing)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"caller":"holder of %s"}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer of-"))
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n}",
		"mcp /mcp trips\noagent DIR/agents.yaml {\n"+options+"\n}\nreverse_proxy "+api)
	return s
}

func TestEngagement_of_callers_with_their_own_credentials_is_theirs_alone(t *testing.T) {
	s := exposingSite(t, "")
	as := func(credentials, path string) sitetest.Response {
		return s.Request("GET", path, "", "Authorization", credentials)
	}
	if a := as("Bearer of-a", "/trips/1"); a.Status != 200 || !strings.Contains(a.Header.Get("Oagent-Exposes"), "holder of a") {
		t.Fatalf("%d %v", a.Status, a.Header)
	}
	a := as("Bearer of-b", "/trips")
	if exposed := a.Header.Get("Oagent-Exposes"); a.Status != 200 || strings.Contains(exposed, "holder of a") || !strings.Contains(exposed, `"calls":1`) {
		t.Errorf("another caller gets %d %s", a.Status, exposed)
	}
	// By MCP the caller is the same as by REST.
	r := s.CallRequest("listTrips", "{}")
	r.Header.Set("Authorization", "Bearer of-a")
	if a := s.Do(r); a.Status != 200 || !strings.Contains(a.Body, "holder of a") || !strings.Contains(a.Body, `\"calls\":2`) && !strings.Contains(a.Body, `"calls":2`) {
		t.Errorf("by MCP: %d %s", a.Status, a.Body)
	}
	// The repetition of one caller does not end the Engagement of another.
	for range 3 {
		as("Bearer of-c", "/trips/1")
	}
	if p := s.Problem(as("Bearer of-c", "/trips")); p.Kind != "ended" {
		t.Errorf("%+v", p)
	}
	if a := as("Bearer of-b", "/trips/1"); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, `"logger":"http.handlers.oagent"`) && strings.Contains(line, "Bearer of-") {
			t.Errorf("the log has the credentials: %s", line)
		}
	}
}

// Where every call is made with the gateway's credentials, no one checks those that a
// caller brings.
func TestEngagement_does_not_depend_on_credentials_that_the_API_never_gets(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  get-trip:
    user_identity: false
    input_restriction: {assertion: size(history.get-trip) < 2}
`))
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "mcp /mcp TRIPS\noagent DIR/agent.yaml\nreverse_proxy "+api)
	for i, want := range []int{200, 200, 403} {
		a := s.Request("GET", "/trips/1", "", "Authorization", fmt.Sprint("Bearer new-", i))
		if a.Status != want || strings.Contains(a.Body, "Bearer") {
			t.Errorf("call %d: %d %s, want %d", i, a.Status, a.Body, want)
		}
	}
}

func TestEngagement_of_a_caller_is_the_same_after_a_restart(t *testing.T) {
	s := exposingSite(t, "")
	key := func() string {
		t.Helper()
		s.Request("GET", "/trips/1", "", "Authorization", "Bearer of-a")
		p := s.Problem(s.Request("DELETE", "/trips/1", "", "Authorization", "Bearer of-a"))
		if p.Kind != "not_allowed" {
			t.Fatalf("%+v", p)
		}
		return p.Engagement
	}
	before := key()
	if err := s.Load("agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n}",
		"mcp /mcp trips\noagent DIR/agents.yaml {\n\tlog_inputs id\n}\nrespond `{\"caller\":\"\"}`"); err != nil {
		t.Fatal(err)
	}
	if after := key(); after != before {
		t.Errorf("%s, and then %s", before, after)
	}
}

func TestHeldAnswer_that_breaks_off_is_a_502_with_a_body(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agents.yaml", strings.Replace(exposing, "get-trip: {}", "get-trip: {output_restriction: {assertion: recent.get-trip.outputs.public}}", 1))
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"public":true,"token":"hunter2"`)
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n}", "oagent DIR/agents.yaml\nreverse_proxy "+api)
	a := s.Request("GET", "/trips/1", "", "Authorization", "Bearer x")
	if a.Status != http.StatusBadGateway || a.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(a.Body, "hunter2") {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
}

func TestConditions_do_not_tell_withheld_answers_apart(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agents.yaml", strings.Replace(exposing, "get-trip: {}", "get-trip: {output_restriction: {assertion: recent.get-trip.outputs.public}}", 1))
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If_match"} {
			if r.Header[http.CanonicalHeaderKey(name)] != nil {
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
		}
		_, _ = io.WriteString(w, `{"public":false}`)
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n}", "mcp /mcp trips\noagent DIR/agents.yaml\nreverse_proxy "+api)
	plain := s.Problem(s.Request("GET", "/trips/1", "", "Authorization", "Bearer 0"))
	for i, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If_match"} {
		p := s.Problem(s.Request("GET", "/trips/1", "", "Authorization", fmt.Sprint("Bearer ", i+1), name, `"guess"`))
		if p.Kind != "output_restriction" || p.Detail != plain.Detail {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
