package caddymodule_test

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/modelserver"
)

// TestRemoteAgents_credentials checks whose credentials a call of an agent of another site has: before and
// after a restart, which loses those of the user.
func TestRemoteAgents_credentials(t *testing.T) {
	const userToken = "Bearer ann-0123456789"
	for name, test := range map[string]struct {
		capability, options string
		restart, waits      bool
		user, authorization string // that the other site gets
	}{
		"operator":                        {"", "", false, false, "service", ""},
		"operator, after a restart":       {"", "", true, false, "service", ""},
		"caller":                          {"", "forward_caller", false, false, "service", userToken},
		"caller, after a restart":         {"", "forward_caller", true, true, "service", userToken},
		"not the identity of the user":    {"user_identity: false, ", "forward_caller", false, false, "service", ""},
		"static identity":                 {"user_identity: false, static_identity: robot, ", "forward_caller", false, false, "robot", ""},
		"static identity after a restart": {"user_identity: false, static_identity: robot, ", "forward_caller", true, false, "robot", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTwoSites(t, play(calls("helper", `{"input":"Is it late?"}`), modelserver.Step{Text: "Done."}), play(modelserver.Step{Text: "No."}))
			capability := "\n  oagent://" + s.helperHost + "/agents/helper: {" + test.capability + "input_restriction: {require_review: boss}}\n"
			start := func() {
				t.Helper()
				err := s.start(agentDocument("desk", capability), agentDocument("helper", tripAgent), "allow_private_addresses\n"+test.options,
					"reviews /reviews", "identity robot header_up X-Test-User robot")
				if err != nil {
					t.Fatal(err)
				}
			}
			start()
			location := s.desk.begin("ann", "desk", "Ask the helper", "Authorization", userToken)
			review := s.desk.pending("ann", location)
			if test.restart {
				if err := caddy.Stop(); err != nil {
					t.Fatal(err)
				}
				start()
			}
			s.desk.decide(review, "approve")
			if test.waits {
				eventually(t, "the wait for the credentials", func() bool {
					v := s.desk.view(s.desk.as("ann", "GET", location, ""))
					return v.Status == "awaiting-additional-input" && strings.Contains(v.Reason, "credentials")
				})
				if n := len(s.helper.models.Requests()); n != 0 {
					t.Errorf("the helper ran %d times without the credentials", n)
				}
				s.desk.as("ann", "GET", location, "", "Authorization", userToken)
			}
			eventually(t, "the end of the run", func() bool { return s.desk.view(s.desk.as("ann", "GET", location, "")).Status == "complete" })
			if v := s.desk.state("ann", location); v.Text != "Done." || len(s.helper.models.Requests()) != 1 {
				t.Errorf("state %+v, the helper ran %d times", v, len(s.helper.models.Requests()))
			}
			s.checkSent(t, test.user, test.authorization)
		})
	}
}

// checkSent checks the credentials of the requests of the desk that began and polled a run of the helper.
func (s *twoSites) checkSent(t *testing.T, user, authorization string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := 0
	for _, h := range s.sent {
		if h.Get("Accept") != "application/json" {
			continue // a request for the definition, which has the operator's credentials
		}
		runs++
		if h.Get("X-Test-User") != user || h.Get("Authorization") != authorization {
			t.Errorf("the other site got the user %q and Authorization %q, want %q and %q", h.Get("X-Test-User"), h.Get("Authorization"), user, authorization)
		}
	}
	if runs < 2 { // POST and GET
		t.Errorf("%d requests about the run", runs)
	}
}
