package caddymodule_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/modelserver"
)

const metricsRoute = "handle /metrics {\nmetrics\n}\n"

// metricValue returns the value of a metric of a site with metricsRoute, 0 if it is absent.
func (s *site) metricValue(name string) int {
	s.t.Helper()
	for line := range strings.Lines(s.get("/metrics").body) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				s.t.Fatal(line)
			}
			return n
		}
	}
	return 0
}

// TestHosting_counts_runs wants the numbers of runs that are running and that wait.
func TestHosting_counts_runs(t *testing.T) {
	release := make(chan struct{})
	steps := play(calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Done."})
	s := newHostedSite(t, agentDocument("desk", "  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"),
		func(r *modelserver.Request) modelserver.Step {
			<-release
			return steps(r)
		})
	block := metricsRoute + s.block("reviews /reviews")
	s.start(jobsGlobal, block)
	const running, waiting = `fairway_agent_runs{status="running"}`, `fairway_agent_runs{status="waiting"}`
	location := s.begin("ann", "desk", "Go")
	eventually(t, "a running run", func() bool { return s.metricValue(running) == 1 })
	close(release)
	if v := s.state("ann", location); v.Status != "awaiting-verification" {
		t.Fatalf("state %+v", v)
	}
	eventually(t, "no running run", func() bool { return s.metricValue(running) == 0 })
	if err := s.load(jobsGlobal, block); err != nil { // looks at all runs at once
		t.Fatal(err)
	}
	eventually(t, "a waiting run", func() bool { return s.metricValue(waiting) == 1 })
	if body := s.get("/metrics").body; strings.Count(body, "\nfairway_agent_runs{") != 2 || strings.Contains(body, "ann") {
		t.Error("the metrics have other labels than the status of runs")
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
			s := newManaged(t, c.restriction, "")
			s.start(jobsGlobal, metricsRoute+s.block("reviews /reviews\nlog_inputs input"))
			decisions := fmt.Sprintf(`fairway_agent_decisions_total{agent="manager",outcome=%q}`, c.decision)
			before := s.metricValue(decisions)
			if v := s.state("ann", s.begin("ann", "manager", "Go")); v.Status != "complete" {
				t.Fatalf("state %+v", v)
			}
			s.logged(`"msg":"decision"`, fmt.Sprintf(`"decision":%q`, c.decision), `"agent":"manager"`, `"tool":"clerk"`, `"protocol":"oagent"`, `"user":"ann"`,
				`A trip to Bern`)
			if got := s.metricValue(decisions); got != before+1 {
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
			s := newTwoSites(t, play(calls("helper", `{"input":"Is it late?"}`), modelserver.Step{Text: "Done."}), play(modelserver.Step{Text: "On time."}))
			if err := s.start(agentDocument("desk", "\n  oagent://"+s.helperHost+"/agents/helper: {}\n"), agentDocument("helper", tripAgent), c.options); err != nil {
				t.Fatal(err)
			}
			s.run(t)
			want := []string{`"msg":"decision"`, `"decision":"allowed"`, `"agent":"desk"`, `"tool":"helper"`, `"protocol":"oagent"`}
			if c.status != 0 {
				want = append(want, fmt.Sprintf(`"status":%d`, c.status))
			} else {
				want = append(want, c.note)
			}
			s.desk.logged(want...)
		})
	}
}
