package hosted_test

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
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
			s := newTwoSites(t, sitetest.Play(sitetest.Calls("helper", `{"input":"Is it late?"}`), modelserver.Step{Text: "Done."}), sitetest.Play(modelserver.Step{Text: "No."}))
			capability := "\n  oagent://" + s.helperHost + "/agents/helper: {" + test.capability + "input_restriction: {require_review: boss}}\n"
			start := func() {
				t.Helper()
				err := s.start(sitetest.AgentDocument("desk", capability), sitetest.AgentDocument("helper", tripAgent), "allow_private_addresses\n"+test.options,
					"reviews /reviews", "identity robot header_up X-Test-User robot")
				if err != nil {
					t.Fatal(err)
				}
			}
			start()
			location := s.desk.Begin("ann", "desk", "Ask the helper", "Authorization", userToken)
			review := pending(s.desk, "ann", location)
			if test.restart {
				if err := caddy.Stop(); err != nil {
					t.Fatal(err)
				}
				start()
			}
			decide(s.desk, review, "approve")
			if test.waits {
				sitetest.Eventually(t, "the wait for the credentials", func() bool {
					v := s.desk.View(s.desk.As("ann", "GET", location, ""))
					return v.Status == "awaiting-additional-input" && strings.Contains(v.Reason, "credentials")
				})
				if n := len(s.helper.Models.Requests()); n != 0 {
					t.Errorf("the helper ran %d times without the credentials", n)
				}
				s.desk.As("ann", "GET", location, "", "Authorization", userToken)
			}
			sitetest.Eventually(t, "the end of the run", func() bool { return s.desk.View(s.desk.As("ann", "GET", location, "")).Status == "complete" })
			if v := s.desk.State("ann", location); v.Text != "Done." || len(s.helper.Models.Requests()) != 1 {
				t.Errorf("state %+v, the helper ran %d times", v, len(s.helper.Models.Requests()))
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

// TestRemoteAgents_without_an_identity has an agent that was called without the identity of the user call an
// agent of another site.
func TestRemoteAgents_without_an_identity(t *testing.T) {
	for name, test := range map[string]struct {
		capability string
		runs       int    // of the helper
		user       string // that the other site gets
	}{
		"needs one":       {"", 0, ""},
		"static identity": {"static_identity: robot", 1, "robot"},
		"needs none":      {"user_identity: false", 1, "service"},
	} {
		t.Run(name, func(t *testing.T) {
			clerk := sitetest.Play(sitetest.Calls("helper", `{"input":"Is it late?"}`), modelserver.Step{Text: "Asked."})
			boss := sitetest.Play(sitetest.Calls("clerk", `{"input":"Ask"}`), modelserver.Step{Text: "Done."})
			s := newTwoSites(t, func(r *modelserver.Request) modelserver.Step {
				if strings.HasPrefix(r.System, "CREATE") {
					return clerk(r)
				}
				return boss(r)
			}, sitetest.Play(modelserver.Step{Text: "No."}))
			document := strings.NewReplacer("RESTRICTION", "user_identity: false", "create-trip: {CAPABILITY}", "oagent://"+s.helperHost+"/agents/helper: {"+test.capability+"}",
				"exposes:\n  trip: recent[\"create-trip\"].outputs.path\n", "").Replace(sitetest.Manager)
			if err := s.start(document, sitetest.AgentDocument("helper", tripAgent), "allow_private_addresses\nforward_caller", "identity robot header_up X-Test-User robot"); err != nil {
				t.Fatal(err)
			}
			location := s.desk.Begin("ann", "manager", "Go", "Authorization", "Bearer ann-0123456789")
			sitetest.Eventually(t, "the end of the run", func() bool { return s.desk.View(s.desk.As("ann", "GET", location, "")).Status == "complete" })
			if n := len(s.helper.Models.Requests()); n != test.runs {
				t.Errorf("the helper ran %d times, want %d", n, test.runs)
			}
			if test.runs > 0 {
				s.checkSent(t, test.user, "")
			}
		})
	}
}
