package hosted_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHosting_counts_runs wants the numbers of runs that are running and that wait.
func TestHosting_counts_runs(t *testing.T) {
	release := make(chan struct{})
	steps := sitetest.Play(sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Done."})
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"),
		func(r *modelserver.Request) modelserver.Step {
			<-release
			return steps(r)
		})
	block := sitetest.MetricsRoute + s.Block("reviews /reviews")
	s.Start(sitetest.JobsGlobal, block)
	const running, waiting = `fairway_agent_runs{status="running"}`, `fairway_agent_runs{status="waiting"}`
	location := s.Begin("ann", "desk", "Go")
	sitetest.Eventually(t, "a running run", func() bool { return sitetest.MetricsOf(s.Site).Value(running) == 1 })
	close(release)
	if v := s.State("ann", location); v.Status != "awaiting-verification" {
		t.Fatalf("state %+v", v)
	}
	sitetest.Eventually(t, "no running run", func() bool { return sitetest.MetricsOf(s.Site).Value(running) == 0 })
	if err := s.Load(sitetest.JobsGlobal, block); err != nil { // looks at all runs at once
		t.Fatal(err)
	}
	sitetest.Eventually(t, "a waiting run", func() bool { return sitetest.MetricsOf(s.Site).Value(waiting) == 1 })
	lines := regexp.MustCompile(`(?m)^fairway_agent_runs\{.*`).FindAllString(s.Get("/metrics").Body, -1)
	if len(lines) != 3 || strings.Contains(strings.Join(lines, "\n"), "ann") {
		t.Errorf("the metric has other labels than the status of runs: %q", lines)
	}
}

// TestHosting_records_calls_of_agents wants calls of agents by agents in the decision log and in the metrics.
func TestHosting_records_calls_of_agents(t *testing.T) {
	for name, c := range map[string]struct {
		restriction, decision string
	}{
		"allowed": {"", "allowed"},
		"refused": {`input_restriction: {assertion: "false"}`, "input_restriction"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewManaged(t, c.restriction, "")
			s.Start(sitetest.JobsGlobal, sitetest.MetricsRoute+s.Block("reviews /reviews\nlog_inputs input"))
			decisions := fmt.Sprintf(`fairway_agent_decisions_total{agent="manager",outcome=%q}`, c.decision)
			before := sitetest.MetricsOf(s.Site).Value(decisions)
			if v := s.State("ann", s.Begin("ann", "manager", "Go")); v.Status != "complete" {
				t.Fatalf("state %+v", v)
			}
			s.Logged(`"msg":"decision"`, fmt.Sprintf(`"decision":%q`, c.decision), `"agent":"manager"`, `"tool":"clerk"`, `"protocol":"oagent"`, `"user":"ann"`,
				`A trip to Bern`)
			if got := sitetest.MetricsOf(s.Site).Value(decisions); got != before+1 {
				t.Errorf("%s is %d, want %d", decisions, got, before+1)
			}
		})
	}
}

// TestRemoteAgents_records_calls wants calls of agents of other servers in the decision log.
func TestRemoteAgents_records_calls(t *testing.T) {
	for name, c := range map[string]struct {
		options, note string
		status        int
	}{
		"answered": {"allow_private_addresses", "", http.StatusOK},
		"failed":   {"", "answer", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTwoSites(t, sitetest.Play(sitetest.Calls("helper", `{"input":"Is it late?"}`), modelserver.Step{Text: "Done."}), sitetest.Play(modelserver.Step{Text: "On time."}))
			if err := s.start(sitetest.AgentDocument("desk", "\n  oagent://"+s.helperHost+"/agents/helper: {}\n"), sitetest.AgentDocument("helper", tripAgent), c.options); err != nil {
				t.Fatal(err)
			}
			s.run(t)
			want := []string{`"msg":"decision"`, `"decision":"allowed"`, `"agent":"desk"`, `"tool":"helper"`, `"protocol":"oagent"`}
			if c.status != 0 {
				want = append(want, fmt.Sprintf(`"status":%d`, c.status))
			} else {
				want = append(want, c.note)
			}
			s.desk.Logged(want...)
		})
	}
}
