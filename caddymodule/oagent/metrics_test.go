package oagent_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestAgentMetrics counts what is decided about the calls of agents, and what the
// program of an agent answers. Other tests have counted before.
func TestAgentMetrics(t *testing.T) {
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "30s", sitetest.Saying(200, sitetest.Approving))
	block := func(wait string) string {
		return "route {\nhandle /metrics {\nmetrics\n}\n" + s.Block(wait) + "\n}"
	}
	if err := s.Load(sitetest.AskedGlobal, block("30s")); err != nil {
		t.Fatal(err)
	}
	value := func(metric string) int {
		t.Helper()
		for line := range strings.Lines(s.Get("/metrics").Body) {
			if text, ok := strings.CutPrefix(line, metric+" "); ok {
				n, err := strconv.Atoi(strings.TrimSpace(text))
				if err != nil {
					t.Fatal(line)
				}
				return n
			}
		}
		return 0
	}
	// counts makes a call and waits until it is counted, and the question about it,
	// which is asked again if it decides nothing.
	counts := func(to, outcome, answer string) {
		t.Helper()
		decisions := `fairway_agent_decisions_total{agent="desk",outcome="` + outcome + `"}`
		questions := `fairway_agent_review_questions_total{agent="supervisor",answer="` + answer + `"}`
		decided, asked := value(decisions), value(questions)
		s.Create(to)
		sitetest.Eventually(t, answer+" is counted", func() bool { return value(decisions) == decided+1 && value(questions) > asked })
	}
	counts("Bern", "allowed", "approved")
	s.Program.Says(sitetest.Saying(200, `{"decision":"deny"}`))
	counts("Basel", "review_denied", "denied")

	if err := s.Load(sitetest.AskedGlobal, block("off")); err != nil {
		t.Fatal(err)
	}
	s.Program.Says(sitetest.Saying(202, ""))
	counts("Chur", "review_pending", "later")
	s.Program.Says(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "perhaps") })
	counts("Zug", "review_pending", "none")

	for line := range strings.Lines(s.Get("/metrics").Body) {
		if strings.HasPrefix(line, "fairway_agent_") && (strings.Contains(line, "hunter2") || strings.Contains(line, "Bern")) {
			t.Error(line)
		}
	}
}
