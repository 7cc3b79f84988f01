package oagent_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOAgent_governs_calls_as_the_agent_of_the_endpoint checks the agent that governs a call, and refuses a call that names another one.
func TestOAgent_governs_calls_as_the_agent_of_the_endpoint(t *testing.T) {
	for name, test := range map[string]struct {
		guard, header string
		passes        bool
	}{
		"no guard":                     {"", "", true},
		"the caller names none":        {"guard {http.request.header.X-Agent}\n", "", true},
		"the caller names the same":    {"guard {http.request.header.X-Agent}\n", "desk", true},
		"the caller names another one": {"guard {http.request.header.X-Agent}\n", "planner", false},
		"the caller names no agent":    {"guard {http.request.header.X-Agent}\n", "stranger", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("two.yaml", sitetest.AgentDocument("desk", "  get-trip: {user_identity: false}\n")+"---\n"+sitetest.AgentDocument("planner", "  get-trip: {user_identity: false}\n"))
			s.Start("agents {\nstore bolt DIR/store.db\n}", "mcp /mcp TRIPS {\nagent desk\n}\noagent DIR/two.yaml {\ntoolset TRIPS\n"+test.guard+"}\nrespond {http.oagent.agent}")
			r := s.CallRequest("getTrip", `{"id":"7"}`)
			r.Header.Set("X-Agent", test.header)
			got := s.Result(s.Do(r))
			if got.IsError == test.passes {
				t.Errorf("got %s", got.Text())
			}
			if test.passes && !strings.Contains(got.Text(), "desk") {
				t.Errorf("the agent is %s, want desk", got.Text())
			}
			// A plain request has no endpoint.
			if a := s.Get("/trips/7"); test.guard == "" && a.Status != 403 {
				t.Errorf("a plain request without an agent: %d %s", a.Status, a.Body)
			}
		})
	}
}
