package oagent_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent"
)

// TestExposes_unknown_names loads a document whose exposes name tools that are no capabilities. The values
// are left out, and the linter reports them.
func TestExposes_unknown_names(t *testing.T) {
	for _, selection := range []string{
		"recent.create-ticket.outputs.id", `recent["create-ticket"].outputs.id`, "history.create-ticket[0].inputs",
	} {
		a, err := oagent.ReadAgent([]byte(whole("get-trip: {}", "exposes: {n: history._total, id: '"+selection+"'}")), "agent.yaml")
		if err != nil {
			t.Errorf("%s: %v", selection, err)
			continue
		}
		faults := a.LintExpressions(nil)
		if len(faults) != 1 || faults[0].Rule != "exposes.id" || !strings.Contains(faults[0].Message, "create-ticket") {
			t.Errorf("%s: faults %v", selection, faults)
		}
		exposed, err := newGuard(t, oagent.GuardOptions{}).Exposed(t.Context(), oagent.Binding{Agent: a, Engagement: "e"})
		if err != nil || string(exposed.Object) != `{"n":0}` || len(exposed.Missing) != 1 {
			t.Errorf("%s: exposed %s, missing %v, error %v", selection, exposed.Object, exposed.Missing, err)
		}
	}
	for _, wrong := range []string{"recent._other", "user.name", "history.", "recent.get-trip.result"} {
		if _, err := oagent.ReadAgent([]byte(whole("get-trip: {}", "exposes: {id: '"+wrong+"'}")), "agent.yaml"); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
	if _, err := oagent.ReadAgent([]byte(whole("get-trip: {input_restriction: {assertion: recent.create-ticket.outputs.ok}}", "")), "agent.yaml"); err == nil {
		t.Error("an assertion with an unknown name: no error")
	}
}
