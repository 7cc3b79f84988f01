package docs

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
)

// TestExamples_agents_with_a_model runs the example of hosted agents with the APIs of real models: a question that one
// agent passes on to another, and a booking that a person approves.
func TestExamples_agents_with_a_model(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			models := &modelserver.Server{Key: "key-of-" + provider, Respond: railwayModel}
			server := httptest.NewServer(models)
			t.Cleanup(server.Close)
			w := newWorkspace(t, ".")
			w.caddy([]string{"MODEL=" + provider, "MODEL_KEY=" + models.Key, "MODEL_URL=" + server.URL, "MODEL_NAME=test-model"}, "run", "--config", "examples/agents/Caddyfile")

			const ask = `curl -sL -H 'X-API-Key: ada-secret' -H 'Content-Type: application/json' -H 'Prefer: wait=20' http://localhost:8080/agents/desk -d `
			if got := w.run(ask + `'{"input":"When is the next train to Zurich?"}'`); !strings.Contains(got, `"status":"complete"`) || !strings.Contains(got, "ic-801") {
				t.Errorf("the question has the result %s", got)
			}
			got := w.run(ask + `'{"input":"Book two seats on ic-801 for Ada."}'`)
			id := regexp.MustCompile(`^\{"id":"([^"]+)"`).FindStringSubmatch(got)
			review := regexp.MustCompile(`"location":"(/reviews/[^"]+)"`).FindStringSubmatch(got)
			if id == nil || review == nil || !strings.Contains(got, `"status":"awaiting-verification"`) {
				t.Fatalf("the booking has the result %s", got)
			}
			if status := w.run(`curl -s -o /dev/null -w '%{http_code}' -X POST -H 'X-API-Key: grace-secret' http://localhost:8080` + review[1] + "/approve"); status != "200" {
				t.Errorf("approving responds with status %s", status)
			}
			if got := w.run(`curl -s -H 'X-API-Key: ada-secret' -H 'Prefer: wait=20' http://localhost:8080/engagements/` + id[1]); !strings.Contains(got, `"status":"complete"`) || !strings.Contains(got, "bk-1001") {
				t.Errorf("the approved booking has the result %s", got)
			}
			for _, r := range models.Requests() {
				if r.Model != "test-model" || r.Anthropic != (provider == "anthropic") {
					t.Errorf("a request for model %s at %s", r.Model, r.Path)
				}
			}
		})
	}
}

// railwayModel plays the model: it calls the tool that a message of the example needs, and then repeats its result.
func railwayModel(r *modelserver.Request) modelserver.Step {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == "tool" {
		return modelserver.Step{Text: "The result is " + last.Text}
	}
	part, arguments := "list", `{"to":"Zurich"}`
	switch {
	case strings.Contains(last.Text, "Book"):
		part, arguments = "booking", `{"trip_id":"ic-801","passenger":"Ada","seats":2}`
	case strings.Contains(last.Text, "next train"):
		part, arguments = "planner", `{"input":"Find the trips to Zurich."}`
	}
	for _, tool := range r.Tools {
		if strings.Contains(tool.Name, part) {
			return modelserver.Step{Calls: []modelserver.Call{{ID: "call-1", Name: tool.Name, Arguments: arguments}}}
		}
	}
	return modelserver.Step{Text: "There is no tool for " + last.Text}
}
