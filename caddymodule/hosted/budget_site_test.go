package hosted_test

import (
	"net/http"
	"strings"
	"testing"

	config "github.com/fairwayhq/fairway/caddymodule/hosted"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestBudget_says_whose_it_is(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "budget {\n\tuser 1\n\tuser bob 1000000\n}", func(*modelserver.Request) modelserver.Step {
		return modelserver.Step{Text: "Done."}
	})
	first := s.Begin("ann", "desk", "Hello")
	if v := s.State("ann", first); v.Status != "complete" {
		t.Fatalf("the first: %+v", v)
	}
	v := say(s, "ann", first, "Go on")
	if v.Error == nil || v.Error.Kind != "budget" || v.Error.Rule != "user ann" {
		t.Fatalf("over the budget: %+v", v)
	}
	if v := s.View(s.As("ann", "POST", first, `{"retry":true}`, "Prefer", "wait=60")); v.Error == nil || v.Error.Kind != "budget" {
		t.Errorf("retried on the same day: %+v", v)
	}
	for range 2 {
		if v := s.State("bob", s.Begin("bob", "desk", "Hello")); v.Status != "complete" {
			t.Errorf("bob has a budget of his own: %+v", v)
		}
	}
	if a := s.As("bob", "POST", s.Begin("bob", "desk", "Hello"), `{"retry":true}`); a.Status != http.StatusConflict {
		t.Errorf("nothing to retry: %d %s", a.Status, a.Body)
	}
	if a := s.As("ann", "POST", first, `{"retry":true,"input":"x"}`); a.Status != http.StatusBadRequest {
		t.Errorf("both: %d %s", a.Status, a.Body)
	}
}

func TestBudget_rejects_bad_configurations(t *testing.T) {
	for block, word := range map[string]string{
		"user many":   "number",
		"user 0":      "more than 0",
		"group 5":     "name",
		"total all 5": "name",
		"team x 5":    "team",
	} {
		_, _, err := sitetest.Adapt(":80 {\n\toagent agents.yaml {\n\t\tbudget {\n\t\t\t" + block + "\n\t\t}\n\t}\n}\n")
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %v, want an error with %q", block, err, word)
		}
	}
	twice := []config.Budget{{Of: "user", Name: "ada", Tokens: 5}, {Of: "user", Name: "ada", Tokens: 6}}
	if err := config.CheckBudgets(twice); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two budgets of a user: %v", err)
	}
}
