package hosted_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHosting_share_of_a_user wants 429 for a user who has his share of the runs in progress, and not for another
// one, and runs that wait for a worker to say so.
func TestHosting_share_of_a_user(t *testing.T) {
	release := make(chan struct{})
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "  get-trip: {user_identity: false}\n"), func(*modelserver.Request) modelserver.Step {
		<-release
		return modelserver.Step{Text: "Done."}
	})
	s.Start(sitetest.JobsGlobal, sitetest.MetricsRoute+s.Block("workers 1"))
	var locations []string
	var refused sitetest.Response
	for range 20 {
		refused = s.As("ann", "POST", "/agents/desk", `{"input":"Go"}`)
		if refused.Status != http.StatusSeeOther {
			break
		}
		locations = append(locations, refused.Header.Get("Location"))
	}
	if refused.Status != http.StatusTooManyRequests || len(locations) != 12 {
		t.Errorf("got the status %d after %d runs, want 429 after 12", refused.Status, len(locations))
	}
	if refused.Header.Get("Retry-After") == "" || !strings.Contains(refused.Body, "share") {
		t.Errorf("got the headers %v, want Retry-After; got %s, want the word share", refused.Header, refused.Body)
	}
	other := s.Begin("bob", "desk", "Go")
	if v := s.View(s.As("bob", "GET", other, "")); !v.Queued || v.Status != "awaiting-llm" {
		t.Errorf("state %+v", v)
	}
	if n := sitetest.MetricsOf(s.Site).Value(`fairway_agent_runs{status="queued"}`); n != len(locations) {
		t.Errorf("%d queued runs, want %d", n, len(locations))
	}
	close(release)
	if v := s.State("bob", other); v.Status != "complete" || v.Queued {
		t.Errorf("state %+v", v)
	}
	for _, location := range locations {
		s.State("ann", location)
	}
	s.Begin("ann", "desk", "Go")
}

// TestHosting_passes_up_questions wants a run to say what an agent that it called needs from the user, at once.
func TestHosting_passes_up_questions(t *testing.T) {
	clerk := sitetest.Play(sitetest.Calls("ask-user", `{"question":"Where to?"}`), modelserver.Step{Text: "Created."})
	boss := sitetest.Play(sitetest.Calls("clerk", `{"input":"A trip"}`), modelserver.Step{Text: "It is done."})
	s := sitetest.NewHostedSite(t, strings.NewReplacer("RESTRICTION", "", "CAPABILITY", "").Replace(sitetest.Manager), func(r *modelserver.Request) modelserver.Step {
		if strings.HasPrefix(r.System, "CREATE") {
			return clerk(r)
		}
		return boss(r)
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", s.Block(""))
	location := s.Begin("ann", "manager", "Go")
	v := s.State("ann", location)
	if v.Status != "awaiting-additional-input" || len(v.Questions) != 1 || len(v.WaitingFor) != 1 {
		t.Fatalf("got %+v, want awaiting-additional-input with one question of one agent", v)
	}
	if q, at := v.Questions[0], v.WaitingFor[0].Location; q.Text != "Where to?" || q.AnswerAt != at {
		t.Fatalf("got the question %q at %s, want Where to? at %s", q.Text, q.AnswerAt, at)
	}
	s.As("ann", "POST", v.Questions[0].AnswerAt, `{"input":"Bern"}`)
	if v := s.State("ann", location); v.Status != "complete" || len(v.Questions) != 0 {
		t.Errorf("state %+v", v)
	}
}

// TestHosting_passes_up_reviews is the same for a review.
func TestHosting_passes_up_reviews(t *testing.T) {
	s := managed(t, "", "input_restriction: {require_review: boss}")
	location := s.Begin("ann", "manager", "Go")
	v := s.State("ann", location)
	if v.Status != "awaiting-verification" || len(v.Reviews) != 1 || v.Reviews[0].Name != "create-trip" {
		t.Fatalf("state %+v", v)
	}
	decide(s, v.Reviews[0].Location, "approve")
	if v := s.State("ann", location); v.Status != "complete" {
		t.Errorf("state %+v", v)
	}
}

// TestHosting_deleted_file wants the calls of a run to be refused when the file of its agent was deleted.
func TestHosting_deleted_file(t *testing.T) {
	release := make(chan struct{})
	steps := sitetest.Play(sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Done."})
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "  create-trip: {user_identity: false}\n"), func(r *modelserver.Request) modelserver.Step {
		<-release
		return steps(r)
	})
	s.Start(sitetest.JobsGlobal, strings.Replace(s.Block(""), "DIR/agent.yaml", "DIR/ag*.yaml", 1))
	location := s.Begin("ann", "desk", "Go")
	sitetest.Eventually(t, "the request to the model", func() bool { return len(s.Models.Requests()) == 1 })
	if err := os.Remove(filepath.Join(s.Dir, "agent.yaml")); err != nil {
		t.Fatal(err)
	}
	sitetest.Eventually(t, "the revocation", func() bool { return s.As("ann", "GET", "/agents/desk", "").Status == http.StatusNotFound })
	close(release)
	v := s.State("ann", location)
	if n := len(s.API.Received()); n != 0 || v.Status != "complete" {
		t.Errorf("the API received %d requests, state %+v", n, v)
	}
}
