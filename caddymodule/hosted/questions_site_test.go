package hosted_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// twoQuestions is a message of the model with two questions.
var twoQuestions = modelserver.Step{Calls: []modelserver.Call{
	{ID: "1", Name: "ask-user", Arguments: `{"question":"Delete all?"}`},
	{ID: "2", Name: "ask-user", Arguments: `{"question":"Your name?"}`},
}}

// answers returns the results that the model got with its last request.
func answers(s *sitetest.HostedSite) (texts []string) {
	requests := s.Models.Requests()
	for _, m := range requests[len(requests)-1].Messages {
		if m.Role == "tool" {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

func TestHosting_answers_by_question(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(twoQuestions, modelserver.Step{Text: "Done."}))
	location := s.Begin("ann", "desk", "Go")
	v := s.State("ann", location)
	if len(v.Questions) != 2 || v.Questions[1].Text != "Your name?" {
		t.Fatalf("state %+v", v)
	}
	if a := s.As("ann", "POST", location, `{"input":"Smith"}`); a.Status != http.StatusConflict || !strings.Contains(a.Body, v.Questions[0].ID) {
		t.Errorf("without in_reply_to: %d %s, want 409 with the ids", a.Status, a.Body)
	}
	if a := s.As("ann", "POST", location, `{"input":"Smith","in_reply_to":"other"}`); a.Status != http.StatusConflict {
		t.Errorf("unknown question: %d %s", a.Status, a.Body)
	}
	for _, body := range []string{`{"in_reply_to":"x"}`, `{"input":"Smith","in_reply_to":1}`, `{"input":"Smith","other":"x"}`} {
		if a := s.As("ann", "POST", location, body); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	v = s.View(s.As("ann", "POST", location, fmt.Sprintf(`{"input":"Smith","in_reply_to":%q}`, v.Questions[1].ID), "Prefer", "wait=60"))
	if v.Status != "awaiting-additional-input" || len(v.Questions) != 1 || v.Questions[0].Text != "Delete all?" {
		t.Fatalf("after one answer: %+v", v)
	}
	if v := s.View(s.As("ann", "POST", location, `{"input":"No"}`, "Prefer", "wait=60")); v.Text != "Done." || len(v.Questions) != 0 {
		t.Errorf("after both answers: %+v", v)
	}
	if got := answers(s); len(got) != 2 || got[0] != "No" || got[1] != "Smith" {
		t.Errorf("the model got %q", got)
	}
}

// TestExpose_several_questions asks an MCP client one question after the other.
func TestExpose_several_questions(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("desk", tripAgent), bothEndpoints, "", sitetest.Play(twoQuestions, modelserver.Step{Text: "Done."}))
	if got := callAgent(s.Site, "ann", "{}", "desk", "Go"); len(got.StructuredContent.Questions) != 2 || !strings.Contains(got.Content[0].Text, got.StructuredContent.Questions[1].ID) {
		t.Errorf("client without forms: %+v", got)
	}
	got := callAgent(s.Site, "ann", `{"elicitation":{}}`, "desk", "Go")
	for _, step := range []struct{ question, answer string }{{"Delete all?", "No"}, {"Your name?", "Smith"}} {
		if asked := got.InputRequests["answer"].Params.Message; asked != step.question {
			t.Fatalf("asked %q, want %q", asked, step.question)
		}
		params := fmt.Sprintf(`"name":"desk","arguments":{"input":"Go"},"requestState":%q,"inputResponses":{"answer":{"action":"accept","content":{"answer":%q}}}`,
			got.RequestState, step.answer)
		got = mcpResult(s.Site, "ann", `{"elicitation":{}}`, "tools/call", "desk", params)
		if step.question == "Delete all?" { // a repeated request is no answer to the next question
			got = mcpResult(s.Site, "ann", `{"elicitation":{}}`, "tools/call", "desk", params)
		}
	}
	if got.StructuredContent.Text != "Done." {
		t.Errorf("result %+v", got)
	}
	if got := answers(s); len(got) != 2 || got[0] != "No" || got[1] != "Smith" {
		t.Errorf("the model got %q", got)
	}
}
