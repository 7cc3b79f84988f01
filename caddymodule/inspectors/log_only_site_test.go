package inspectors_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// logOnlySite runs a site whose toolset has the inspectors. The API returns what it received in the header X-Got.
func logOnlySite(t *testing.T, inspectors string) (*sitetest.Site, error) {
	t.Helper()
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"query":%s,"note":%s}`, quoted(r.URL.RawQuery), quoted(all))
	})
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {user_identity: false}\n  create-trip: {user_identity: false}\n  list-trips: {user_identity: false}\n"))
	return s, s.Load("order test_user first\nagents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\nopenapi TRIPS\n"+inspectors+"\n}\n}",
		"test_user\nmcp trips\notc trips\nagents_console {\nauditors zoe\n}\noagent DIR/agent.yaml {\nengagements /engagements\nauditors zoe\n}\nreverse_proxy "+api)
}

func TestInspect_log_only_changes_nothing(t *testing.T) {
	for inspectors, effect := range map[string]string{
		"inspect pii log_only":        "masked",
		"inspect pii mask log_only":   "masked",
		"inspect pii reject log_only": "refused",
		"inspect secrets mask {\nphases error\n}\ninspect pii reject log_only {\nphases result\n}":                       "refused",
		"inspect pii review log_only {\nreviewer boss\n}":                                                                "held for review",
		"inspect pii reject log_only {\nphases arguments\n}\ninspect moderation log_only {\nurl http://127.0.0.1:1/x\n}": "refused",
	} {
		t.Run(inspectors, func(t *testing.T) {
			s, err := logOnlySite(t, inspectors)
			if err != nil {
				t.Fatal(err)
			}
			arguments := `{"to":` + quoted("Bern for "+all) + `}`
			for way, do := range map[string]func() string{
				"MCP": func() string { return call(s, "createTrip", arguments) },
				"OTC": func() string {
					return s.Request("POST", "/otc/call", `{"request":{"tool_id":"Trips.createTrip","input":`+arguments+`}}`, "X-Test-User", "ada").Body
				},
				"HTTP": func() string { return s.Request("POST", "/trips", arguments, "X-Test-User", "ada").Body },
			} {
				logged := strings.Count(s.Log(), "would have been "+effect)
				got := do()
				if !strings.Contains(got, planted[0]) || strings.Contains(got, "would have") {
					t.Errorf("%s: got %s", way, got)
				}
				if n := strings.Count(s.Log(), "would have been "+effect) - logged; n == 0 {
					t.Errorf("%s: no report that it would have been %s", way, effect)
				}
			}
			kept := s.Request("GET", "/console/api/calls?would=refuse", "", "X-Test-User", "zoe").Body
			if n := strings.Count(kept, `"effect":"`+effect+`"`); n != 2 || strings.Contains(kept, "lovelace") {
				t.Errorf("%d kept calls, want 2 without values: %s", n, kept)
			}
			if own := s.Request("GET", "/console/api/calls", "", "X-Test-User", "ada").Body; strings.Contains(own, "effect") || !strings.Contains(own, "createTrip") {
				t.Errorf("the user sees %s", own)
			}
		})
	}
}

func TestInspect_log_only_that_fails_is_incomplete(t *testing.T) {
	s, err := logOnlySite(t, "inspect webhook http://127.0.0.1:1/check log_only {\nsecret 0123456789abcdef0123456789abcdef\n}")
	if err != nil {
		t.Fatal(err)
	}
	if got := call(s, "createTrip", `{"to":"Bern"}`); !strings.Contains(got, "note") || strings.Contains(got, `"isError":true`) {
		t.Errorf("got %s", got)
	}
	s.Logged("a rule in log only could not be judged", "trips.inspect.webhook")
	if s.HasLogged("would have been") {
		t.Error("an inspector that did not decide is reported")
	}
}

func TestInspect_log_only_without_a_call_is_an_error(t *testing.T) {
	if _, err := logOnlySite(t, "inspect pii log_only {\nphases list\n}"); err == nil || !strings.Contains(err.Error(), "no phase of a call") {
		t.Errorf("got %v", err)
	}
}
