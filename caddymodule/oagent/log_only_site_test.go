package oagent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// logOnlyAgent has a rule on each side, and a capability without one.
const logOnlyAgent = `
  list-trips: {user_identity: false}
  get-trip:
    user_identity: false
    output_restriction: {assertion: recent.get-trip.outputs.public}
  create-trip:
    user_identity: false
    input_restriction: {assertion: 'recent.create-trip.inputs.to == "Bern"', require_review: boss}
`

func loadLogOnly(t *testing.T, global, options string) (*sitetest.Site, error) {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", logOnlyAgent))
	return s, s.Load(global, "oagent DIR/agent.yaml {\n\ttoolset TRIPS\n\treviews /reviews\n"+options+"\n}\nrespond ok")
}

func TestLog_only_rejects_names_without_a_rule(t *testing.T) {
	for options, want := range map[string]string{
		"log_only des":                        "did you mean desk",
		"log_only desk/create":                "no such capability",
		"log_only desk/list-trips":            "nothing to try",
		"log_only desk/guardrails":            "no such capability or guardrails",
		"log_only desk desk/create-trip":      "no effect",
		"log_only\nlog_only desk":             "remove the other names",
		"log_only desk/create-trip desk/list": "log_only desk/list:",
	} {
		if _, err := loadLogOnly(t, "", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", options, err, want)
		}
	}
}

func TestLog_only_logs_each_rule_at_start(t *testing.T) {
	s, err := loadLogOnly(t, "agents {\n\ttoolset trips TRIPS {\n\t\tcredential header X-Key k1\n\t}\n}", "log_only desk/create-trip")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"create-trip.input_restriction.assertion", "create-trip.input_restriction.require_review"} {
		s.Logged("in log only: calls go on", rule)
	}
	if s.HasLogged("in log only: calls go on", "get-trip") {
		t.Error("a rule that is enforced is reported")
	}
	s.Logged("in log only: calls go on")
}

// TestLog_only_warns_about_a_removed_rule changes the document after the start.
func TestLog_only_warns_about_a_removed_rule(t *testing.T) {
	s := startLogOnly(t, "log_only desk/create-trip")
	s.Write("agent.yaml", strings.Replace(sitetest.AgentDocument("desk", logOnlyAgent), "create-trip", "delete-trip", 2))
	sitetest.Eventually(t, "the warning", func() bool {
		return s.HasLogged("do not have a rule that log_only names", "desk/create-trip")
	})
}

func startLogOnly(t *testing.T, options string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", logOnlyAgent))
	s.Start("order test_user first\nagents {\n\tstore bolt DIR/store.db\n\taudit {\n\tsink file DIR/audit.jsonl\n\t}\n}",
		"test_user\n"+sitetest.GuardedBlock("review_wait off\nreviews /reviews\nengagements /engagements\nauditors zoe\n"+options, sitetest.Upstream(t, sitetest.Echo)))
	return s
}

// TestLog_only_reports_calls_that_went_through wants the same in the decision log and the archive, and nothing in the response.
func TestLog_only_reports_calls_that_went_through(t *testing.T) {
	s := startLogOnly(t, "log_only desk/create-trip")
	a := s.Request("POST", "/trips", `{"to":"Zug"}`, "X-Test-User", "ada")
	if a.Status != 200 || strings.Contains(fmt.Sprint(a.Header, a.Body), "would") {
		t.Errorf("got %d %v %s", a.Status, a.Header, a.Body)
	}
	s.Logged(`"would":"would have been refused"`, `"would_rule":"capabilities.create-trip.input_restriction.assertion"`)
	sitetest.Eventually(t, "the entry of the archive", func() bool {
		for _, e := range sitetest.Archived(s) {
			if e.Event == "begun" && e.Would.Effect == "refused" {
				return true
			}
		}
		return false
	})
	// The output restriction of get-trip is enforced, so nothing is reported about a call that it withholds.
	if a := s.Request("GET", "/trips/1", "", "X-Test-User", "ada"); a.Status == 200 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	before := strings.Count(s.Log(), `"would":`)
	if a := s.Request("POST", "/trips", `{"to":"Bern"}`, "X-Test-User", "ada"); a.Status != 200 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	s.Logged(`"would":"would have been held for review"`)
	if after := strings.Count(s.Log(), `"would":`); after != before+1 {
		t.Errorf("%d reports, want %d", after, before+1)
	}
}

// TestLog_only_never_fails_a_call has a rule that takes too long.
func TestLog_only_never_fails_a_call(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-trips:
    user_identity: false
    input_restriction:
      assertion: >-
        [1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d,
        [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, [1,2,3,4,5,6,7,8,9,10].all(g, a + b + c + d + e + f + g < 100)))))))
`))
	s.Start("order test_user first\nagents {\n\tstore bolt DIR/store.db\n}", "test_user\n"+sitetest.GuardedBlock("log_only", sitetest.Upstream(t, sitetest.Echo)))
	began := time.Now()
	if a := s.Request("GET", "/trips", "", "X-Test-User", "ada"); a.Status != 200 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the call took %s", took)
	}
	s.Logged("a rule in log only could not be judged", "list-trips.input_restriction")
	if s.HasLogged("would have been") {
		t.Error("a rule that was not judged is reported as one that would have refused the call")
	}
}
